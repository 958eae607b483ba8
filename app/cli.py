"""The command `odevit`: one program, subcommands built from config dataclasses.

Exit codes: 0 done, 1 the numbers broke, 2 what was given is wrong (one line says what), 130 interrupted.
"""

import contextlib
import importlib
import io
import re
import sys

from odevit.config import nearest
from odevit.errors import NonFiniteError, UserError


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand and return its exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if not argv or argv[0] in ("-h", "--help"):
        print(_usage())
        return 0 if argv else 2
    if argv[0] == "--version":
        import odevit

        print(f"odevit {odevit.__version__}")
        return 0
    name, rest = argv[0], argv[1:]
    if name not in COMMANDS:
        return _fail(f"unknown command {name!r}{nearest(name, COMMANDS)} (commands: {', '.join(COMMANDS)})")
    try:
        module, function, _ = COMMANDS[name]
        getattr(importlib.import_module(f"app.{module}"), function)(rest)
    except UserError as error:
        return _fail(str(error))
    except NonFiniteError as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt as stop:
        return _fail(f"interrupted{f'; {stop}' if str(stop) else ''}", 130)
    except BrokenPipeError:
        return 0
    return 0


def _fail(message: str, code: int = 2) -> int:
    print(f"odevit: error: {' '.join(message.split())}", file=sys.stderr)
    return code


# command: (module of app, function, one line of help); a module is imported only when its command runs, so that --help is quick
COMMANDS = {
    "demo": ("commands", "demo", "train an ODE-ViT on handwritten digits in a minute and look inside it"),
    "train": ("commands", "train", "train a model; --preset names it, every field of the config is a flag"),
    "distill": ("distill_command", "distill", "train an ODE-ViT after a discrete ViT; --teacher names its folder or file"),
    "eval": ("commands", "evaluate", "accuracy, calibration, NFE, MACs of a model; --sweep over solvers and steps"),
    "analyze": ("analyze_command", "analyze", "write every report on a model (npz, csv, json) and its certificate"),
    "figures": ("figures_command", "figures", "draw every figure of a paper, and its tables, with the data behind them"),
    "compare": ("compare_command", "compare", "two models side by side: the figures and a table of differences"),
    "release": ("release", "release", "measure a finished run on the test split, once, and write it as a model to share"),
    "app": ("serve", "app", "open the workbench in the browser"),
    "inspect": ("commands", "inspect", "say what a file or folder is"),
    "convert": ("commands", "convert", "turn a foreign pickle into safetensors (--trust runs what is in it)"),
    "bench": ("bench_command", "bench", "measure again what the README says of speed, memory, curvature and teachers"),
}


def _usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, (_, _, summary) in COMMANDS.items()]
    return "\n".join(["usage: odevit COMMAND [OPTIONS]     (odevit COMMAND --help lists them)", "", *lines])


def parse(kind, args: list[str], command: str, default=None):
    """`args` as a config dataclass; what tyro refuses becomes a one-line UserError with the nearest name.

    Args:
        kind: dataclass, or anything else that tyro understands.
        command: name of the subcommand, for the help text.
        default: values where flags are silent.
    """
    import tyro

    given = {} if default is None else {"default": default}
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            return tyro.cli(kind, prog=f"odevit {command}", args=args, config=(tyro.conf.AvoidSubcommands,), **given)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UserError(f"{command}: {one_line(errors.getvalue())} (odevit {command} --help)") from None


def one_line(box: str) -> str:
    """The message in tyro's error box on one line, with the nearest name that it or we know.

    A box is a title, the message, a rule, hints; drawn with lines, or with hyphens where the terminal is not UTF-8.
    """
    title, *lines = [line.strip(" │\n") for line in box.splitlines() if line.strip(" │\n")] or [""]
    if lines and not lines[0].strip("-"):
        del lines[0]  # the lower edge of a title drawn with hyphens
    bars = [i for i, line in enumerate(lines) if not line.strip("-─╰╯")]
    message, hints = " ".join(lines[: bars[0]] if bars else lines), lines[bars[0] + 1 :] if bars else []
    message = message.partition("Got errors:")[0].replace(" .", ".").strip()
    if "Unrecognized" in title:
        flags = [word for word in message.partition(": ")[2].split(", ") if word.startswith("-")]
        near = [found.group() for line in hints if (found := re.match(r"--[a-z][\w.-]*", line))]
        same = [name for name in near if flags and name.rpartition(".")[2] == flags[0].lstrip("-")]  # --steps: --solver.steps
        what = ", ".join(flags) or message.partition(": ")[2]
        return f"unknown option {what}" + (f", did you mean {' or '.join((same or near)[:5])}?" if near else "")
    choice = re.match(r"invalid choice '(.*)' for argument '(.*)'\. Expected one of \((.*?),?\)", message)
    if choice:
        known = [name.strip(" '") for name in choice[3].split(",")]
        return f"{choice[2]}: unknown {choice[1]!r}{nearest(choice[1], known)} (known: {', '.join(known)})"
    for pattern, words in PLAIN:
        message = re.sub(pattern, words, message)
    return message


# what tyro and Python say, and what it means
PLAIN = (
    (r"^Error parsing [\w.]+: ", ""),  # of a whole config: its own message names the field
    (r"^Error parsing (--[\w.-]+)", r"\1"),
    (r"invalid literal for int\(\) with base 10: (.*)", r"\1 is not a whole number"),
    (r"could not convert string to float: (.*)", r"\1 is not a number"),
    (r"^Missing from odevit \w+: +(\S+) +(.*?)\.? \(required\)", r"missing \1 (\2)"),
    (r"^Missing value for argument '(.*)'\..*", r"\1: no value given"),
)


if __name__ == "__main__":
    sys.exit(main())
