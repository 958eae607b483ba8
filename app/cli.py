"""The command `odevit`: one program, subcommands built from config dataclasses.

Exit codes: 0 done, 1 the numbers broke, 2 what was given is wrong (one line says what), 130 interrupted.
"""

import contextlib
import io
import re
import sys
from collections.abc import Callable

from odevit.config import nearest
from odevit.errors import NonFiniteError, UserError

BOX = re.compile(r"[╭╮╰╯│─]+")


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand and return its exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    commands = _commands()
    if not argv or argv[0] in ("-h", "--help"):
        print(_usage(commands))
        return 0 if argv else 2
    if argv[0] == "--version":
        import odevit

        print(f"odevit {odevit.__version__}")
        return 0
    name, rest = argv[0], argv[1:]
    if name not in commands:
        return _fail(f"unknown command {name!r}{nearest(name, commands)} (commands: {', '.join(commands)})")
    try:
        commands[name](rest)
    except UserError as error:
        return _fail(str(error))
    except NonFiniteError as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:
        return 0
    return 0


def _fail(message: str, code: int = 2) -> int:
    print(f"odevit: error: {' '.join(message.split())}", file=sys.stderr)
    return code


def _commands() -> dict[str, Callable[[list[str]], None]]:
    """Subcommands by name; each module is imported only when its command runs, so that --help is quick."""

    def lazily(name: str) -> Callable[[list[str]], None]:
        def run(args: list[str]) -> None:
            from . import commands

            getattr(commands, {"eval": "evaluate"}.get(name, name))(args)

        run.__doc__ = _SUMMARIES[name]
        return run

    return {name: lazily(name) for name in _SUMMARIES}


_SUMMARIES = {
    "demo": "train an ODE-ViT on handwritten digits in a minute and look inside it",
    "train": "train a model; --preset names it, every field of the config is a flag",
    "eval": "accuracy, calibration, NFE, MACs of a model; --sweep over solvers and steps",
    "inspect": "say what a file or folder is",
    "convert": "turn a foreign pickle into safetensors (--trust runs what is in it)",
    "bench": "speed and memory against a plain torchdiffeq + nn.MultiheadAttention twin",
}


def _usage(commands) -> str:
    width = max(map(len, commands))
    lines = [f"  {name:<{width}}  {run.__doc__}" for name, run in commands.items()]
    return "\n".join(["usage: odevit COMMAND [OPTIONS]     (odevit COMMAND --help lists them)", "", *lines])


def parse(kind, args: list[str], command: str, default=None):
    """`args` as a config dataclass; what tyro refuses becomes a one-line UserError with the nearest flag.

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
            return tyro.cli(
                kind, prog=f"odevit {command}", args=args, config=(tyro.conf.AvoidSubcommands, tyro.conf.FlagConversionOff), **given
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UserError(_one_line(errors.getvalue(), command)) from None


def _one_line(box: str, command: str) -> str:
    """The message of tyro's error box on one line, with the flag it suggests."""
    lines = [BOX.sub("", line).strip() for line in box.splitlines()]
    lines = [line for line in lines if line]
    message = lines[1] if len(lines) > 1 and not lines[0].startswith("Error") else " ".join(lines[:1])
    if message.startswith("Unrecognized or misplaced"):
        message = "unrecognized options: " + " ".join(lines[2:3])
    hints = [re.match(r"(--[\w.-]+)", line) for line in lines[lines.index("Perhaps you meant:") + 1 :]] if "Perhaps you meant:" in lines else []
    meant = next((hint.group(1) for hint in hints if hint), "")
    return f"{command}: {message}" + (f", did you mean {meant}?" if meant else f" (odevit {command} --help)")


if __name__ == "__main__":
    sys.exit(main())
