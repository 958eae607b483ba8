"""What each subcommand does: parse its config, call the library, print where everything went."""

import csv
import io
import json
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from odevit.config import DataConfig, TrainConfig, from_dict, preset
from odevit.errors import UserError

from .cli import parse

Positional = tyro.conf.Positional


def train(args: list[str]) -> None:
    """`odevit train`: the preset's config, with every flag given on top."""
    from odevit.trainer import Trainer

    config = parse(TrainConfig, args, "train", _train_default(args))
    trainer = Trainer(config)
    _describe(trainer)
    trainer.fit()
    if trainer.rank == 0:
        print(f"best epoch {trainer.progress.best_epoch}: validation accuracy {trainer.progress.best:.4f}")
        for name in ("config.json", "model.safetensors", "README.md", "log.csv", "state.pt"):
            print(f"wrote {config.out / name}")


def _train_default(args: list[str]) -> TrainConfig:
    """The config of the preset named in `args`, which the other flags then override."""
    name = TrainConfig.preset
    for flag, value in zip(args, [*args[1:], ""]):
        if flag == "--preset":
            name = value
        elif flag.startswith("--preset="):
            name = flag.partition("=")[2]
    model, solver = preset(name)
    return TrainConfig(preset=name, model=model, solver=solver)  # type: ignore[arg-type]


def _describe(trainer) -> None:
    from odevit.data import describe
    from odevit.evaluate import macs, parameters, trained_nfe

    if trainer.rank:
        return
    model = trainer.model
    print(describe(trainer.data))
    print(
        f"{trainer.config.preset}: {parameters(model):,} parameters, {macs(model) / 1e6:.1f} M MACs an image, "
        f"NFE {trained_nfe(model)}, {model.layout.size} tokens, {trainer.device}, seed {trainer.config.seed}"
    )
    model.train()


@dataclass(frozen=True)
class EvalCommand:
    """Accuracy, calibration, cost; on validation unless --split test."""

    model: Positional[Path]
    """Model folder."""
    data: str | None = None
    """digits, cifar10, cifar100, .npz or folder; the training data unless given."""
    root: Path | None = None
    """Where torchvision keeps CIFAR."""
    split: Literal["val", "test"] = "val"
    """Split to evaluate on."""
    method: str | None = None
    """Solver; the trained one unless given."""
    steps: int | None = None
    """Steps; the trained number unless given."""
    sweep: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Evaluate over --methods and --sweep-steps: what does the answer cost, and does it change?"""
    methods: tuple[str, ...] = ("euler", "midpoint", "rk4", "dopri5")
    """Solvers of the sweep."""
    sweep_steps: tuple[int, ...] = ()
    """Steps of the sweep; half, once, twice and four times the trained number unless given."""
    images: int | None = None
    """At most this many images."""
    batch_size: int = 256
    """Images at once."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    amp: Literal["none", "bf16"] = "none"
    """Precision of the field's products."""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print JSON."""
    out: Path | None = None
    """Write the table as CSV."""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Overwrite --out."""


def evaluate(args: list[str]) -> None:
    """`odevit eval`."""
    from odevit.checkpoint import check_weights
    from odevit.evaluate import evaluate as measure
    from odevit.evaluate import macs, parameters, sweep, trained_nfe
    from odevit.optimisation import pick_device

    c = parse(EvalCommand, args, "eval")
    refuse_overwrite(c.out, c.force)
    model, data = load_pair(c.model, c.data, c.root, c.split, c.images, method=c.method, steps=c.steps)
    check_weights(model)
    model.to(pick_device(c.device)).compute_in(torch.bfloat16 if c.amp == "bf16" else None)
    if c.sweep:
        steps = c.sweep_steps or _around(model.solver.steps)
        rows = sweep(model, data, list(c.methods), list(steps), batch_size=c.batch_size)
    else:
        found = asdict(measure(model, data, batch_size=c.batch_size))
        rows = [{**found, "method": model.solver.method, "steps": model.solver.steps, "parameters": parameters(model),
                 "macs": macs(model, trained_nfe(model))}]  # fmt: skip
    print(json.dumps(rows, indent=1) if c.json else table(rows))
    if c.split == "test" and not c.json:
        print("(test split: report it, do not select on it)")
    if c.out:
        from odevit.checkpoint import write_atomically

        c.out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(c.out, csv_text(rows).encode())
        print(f"wrote {c.out}", file=sys.stderr)


def _around(steps: int) -> tuple[int, ...]:
    return tuple(sorted({max(1, steps // 2), steps, 2 * steps, 4 * steps}))


def load_pair(path: Path, source: str | None, root: Path | None, split: str, images: int | None, **overrides):
    """A model and a split of its data: the training data with its split unless `source` says otherwise."""
    from odevit.checkpoint import load_model, read_config
    from odevit.data import load

    model = load_model(path, **{k: v for k, v in overrides.items() if v is not None})
    run = (read_config(path).get("training") or {}).get("run") or {}
    config = from_dict(DataConfig, run["data"], "training.run.data") if "data" in run else DataConfig()
    source = source or model.inputs.source
    if not source:
        raise UserError(f"data: {path} does not say what it was trained on; name a dataset with --data")
    config = replace(config, source=source, root=root or config.root)
    sets = load(
        config, image_shape=model.config.image_shape, channels=model.config.in_chans, splits=(split,),
        classes=model.inputs.classes or None,
    )  # fmt: skip
    data = sets[split]
    return model, data if images is None else data.subset(torch.arange(min(images, len(data))))


def refuse_overwrite(path: Path | None, force: bool) -> None:
    """UserError where a file exists and --force was not given."""
    if path is not None and path.exists() and not force:
        raise UserError(f"out: {path} exists; --force overwrites it")


def table(rows: list[dict]) -> str:
    """Rows as an aligned text table; one row is printed as one line per field."""
    if len(rows) == 1:
        width = max(map(len, rows[0]))
        return "\n".join(f"{k:<{width}}  {_cell(k, v)}" for k, v in rows[0].items())
    names = [n for n in rows[0] if n not in ("split", "n")]
    cells = [names, *([_cell(n, row[n]) for n in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    head = f"{rows[0]['n']} images of {rows[0]['split']}"
    return "\n".join([head, *("  ".join(c.rjust(w) for c, w in zip(line, widths)) for line in cells)])


def _cell(name: str, value) -> str:
    if value is None:
        return "-"
    if name == "macs":
        return f"{value / 1e6:.1f} M"
    if isinstance(value, float):
        return f"{value:+.4f}" if name == "change" else f"{value:.0f}" if name == "images_per_second" else f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def csv_text(rows: list[dict]) -> str:
    """Rows as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


@dataclass(frozen=True)
class InspectCommand:
    """Say what a file or folder is."""

    path: Positional[Path]
    """Any file or folder."""


def inspect(args: list[str]) -> None:
    """`odevit inspect`."""
    from odevit.checkpoint import inspect as look

    print(look(parse(InspectCommand, args, "inspect").path))


@dataclass(frozen=True)
class ConvertCommand:
    """Turn a foreign pickle into safetensors."""

    path: Positional[Path]
    """The file to read."""
    out: Path | None = None
    """The .safetensors file to write; beside the input unless given."""
    trust: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Run what is in the file: only for files whose maker you trust."""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Overwrite --out."""


def convert(args: list[str]) -> None:
    """`odevit convert`."""
    from odevit.checkpoint import convert as run

    c = parse(ConvertCommand, args, "convert")
    out = c.out or c.path.with_suffix(".safetensors")
    refuse_overwrite(out, c.force)
    run(c.path, out, trust=c.trust)
    print(f"wrote {out}")


@dataclass(frozen=True)
class DemoCommand:
    """Train an ODE-ViT on handwritten digits and look inside it."""

    out: Path = field(default=Path("runs/demo"))
    """Folder of the model; only this folder is overwritten."""
    seed: int = 0
    """Seed."""


def demo(args: list[str]) -> None:
    """`odevit demo`."""
    from .demo import run

    c = parse(DemoCommand, args, "demo")
    run(c.out, c.seed)


@dataclass(frozen=True)
class BenchCommand:
    """Speed and memory against a plain twin, medians of one run."""

    repeats: int = 5
    """Runs of which the median is taken."""
    threads: int = 2
    """CPU threads."""
    out: Path | None = None
    """Write the table as CSV."""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Overwrite --out."""


def bench(args: list[str]) -> None:
    """`odevit bench`."""
    from odevit.bench import run

    c = parse(BenchCommand, args, "bench")
    refuse_overwrite(c.out, c.force)
    rows = run(c.repeats, c.threads)
    if c.out:
        from odevit.checkpoint import write_atomically

        write_atomically(c.out, csv_text(rows).encode())
        print(f"wrote {c.out}", file=sys.stderr)
