"""What each subcommand does: parse its config, call the library, print where everything went."""

import json
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

import torch
import tyro

from odevit.config import DataConfig, TrainConfig, from_dict, list_models, preset
from odevit.errors import UserError
from odevit.tables import csv_text, table

from .cli import parse


def train(args: list[str]) -> None:
    """`odevit train`: the preset's config, with every flag given on top."""
    from odevit.processes import leave
    from odevit.trainer import FILES, Trainer

    config = parse(TrainConfig, args, "train", _train_default(args))
    trainer = Trainer(config)
    _describe(trainer)
    if trainer.progress.epoch >= config.optim.epochs:
        print(f"nothing left to do: {config.out} has all {config.optim.epochs} epochs")
        return
    trainer.fit()
    if trainer.rank == 0:
        print(f"best epoch {trainer.progress.best_epoch}: validation accuracy {trainer.progress.best:.4f}")
        for name in FILES:
            print(f"wrote {config.out / name}")
    leave()


def _train_default(args: list[str]) -> TrainConfig:
    """The config of the preset named in `args`, which the other flags then override."""
    name = TrainConfig.preset
    for i, flag in enumerate(args):
        if flag == "--preset":
            if i + 1 == len(args):
                raise UserError(f"preset: no name given (known: {', '.join(list_models())})")
            name = args[i + 1]
        elif flag.startswith("--preset="):
            name = flag.partition("=")[2]
    model, solver = preset(name)
    return TrainConfig(preset=name, model=model, solver=solver)  # type: ignore[arg-type]


def _describe(trainer) -> None:
    from odevit.data import describe
    from odevit.evaluate import macs, parameters, trained_nfe
    from odevit.records import hardware

    if trainer.rank:
        return
    model = trainer.model
    print(describe(trainer.data))
    print(
        f"preset {trainer.config.preset}: {parameters(model):,} parameters, {macs(model) / 1e6:.3g} M MACs an image, "
        f"NFE {trained_nfe(model)}, {model.layout.size} tokens, {hardware(trainer.device, trainer.processes.world)}, "
        f"seed {trainer.config.seed}"
    )
    if trainer.progress.epoch or trainer.progress.batch:
        print(f"going on after epoch {trainer.progress.epoch}, batch {trainer.progress.batch}")


@dataclass(frozen=True)
class EvalCommand:
    """Accuracy, calibration, cost; on validation unless --split test."""

    model: tyro.conf.Positional[Path]
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
    """Steps of the sweep; half, once, twice and four times the trained number unless given (multiples of the blocks)."""
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
    confusion: Path | None = None
    """Write the counts of true class (row) against predicted class (column) as CSV."""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Overwrite --out and --confusion."""

    def __post_init__(self):
        for name in ("steps", "images", "batch_size", "sweep_steps"):
            value = getattr(self, name)
            if value is not None and min(value if isinstance(value, tuple) else (value,), default=1) < 1:
                raise UserError(f"{name}: {value} must be at least 1")
        if self.sweep and self.confusion:
            raise UserError("confusion: is of one solver; leave --sweep out")


def evaluate(args: list[str]) -> None:
    """`odevit eval`."""
    from odevit.checkpoint import check_weights
    from odevit.optimisation import pick_device

    c = parse(EvalCommand, args, "eval")
    for path in (c.out, c.confusion):
        refuse_overwrite(path, c.force)
    model, data = load_pair(c.model, c.data, c.root, c.split, c.images, method=c.method, steps=c.steps)
    check_weights(model)
    model.to(pick_device(c.device)).compute_in(torch.bfloat16 if c.amp == "bf16" else None)
    rows = _swept(c, model, data) if c.sweep else [_scored(c, model, data)]
    print(json.dumps(rows, indent=1) if c.json else table(rows))
    if c.split == "test" and not c.json:
        print("(test split: report it, do not select on it)")
    if c.out:
        write(c.out, csv_text(rows))


def _scored(c: EvalCommand, model, data) -> dict:
    """The row of one model as it is to be solved; writes the confusion counts where they are asked for."""
    from odevit.evaluate import confusion, macs, parameters, predict, scores
    from odevit.flow import find_method

    start = time.perf_counter()
    logits, nfe = predict(model, data.images, batch_size=c.batch_size)
    found = scores(logits, data.labels, split=data.split, nfe=nfe, seconds=time.perf_counter() - start)
    if c.confusion:
        counts = confusion(logits, data.labels).tolist()
        write(
            c.confusion,
            csv_text([{"true / predicted": t, **dict(zip(data.classes, row))} for t, row in zip(data.classes, counts)]),
        )
    solver, adaptive = model.solver, find_method(model.solver.method).kind == "adaptive"
    return {
        **asdict(found), "method": solver.method, "steps": None if adaptive else solver.steps,
        "parameters": parameters(model), "macs": macs(model, nfe),
    }  # fmt: skip


def _swept(c: EvalCommand, model, data) -> list[dict]:
    from odevit.evaluate import sweep

    trained, pieces = model.solver.steps, len(model.field.blocks)
    around = {max(1, trained // 2), trained, 2 * trained, 4 * trained}
    steps = c.sweep_steps or sorted(count for count in around if count % pieces == 0)
    return sweep(model, data, list(c.methods), list(steps), batch_size=c.batch_size)


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
    if images is None or images >= len(data):
        return model, data
    return model, data.subset(torch.arange(images) * len(data) // images)  # evenly spaced: sets may be sorted by class


def write(path: Path, text: str) -> None:
    """Write a text file, and say so on stderr, since stdout may be JSON."""
    from odevit.checkpoint import write_atomically

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    print(f"wrote {path}", file=sys.stderr)


def refuse_overwrite(path: Path | None, force: bool) -> None:
    """UserError where a file exists and --force was not given."""
    if path is not None and path.exists() and not force:
        raise UserError(f"out: {path} exists; --force overwrites it")


@dataclass(frozen=True)
class InspectCommand:
    """Say what a file or folder is."""

    path: tyro.conf.Positional[Path]
    """Any file or folder."""


def inspect(args: list[str]) -> None:
    """`odevit inspect`."""
    from odevit.checkpoint import inspect as look

    print(look(parse(InspectCommand, args, "inspect").path))


@dataclass(frozen=True)
class ConvertCommand:
    """Turn a foreign pickle into safetensors."""

    path: tyro.conf.Positional[Path]
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
    app: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Open the model in the browser when it is trained."""


def demo(args: list[str]) -> None:
    """`odevit demo`."""
    from .demo import run

    c = parse(DemoCommand, args, "demo")
    run(c.out, c.seed)
    if c.app:
        from .serve import AppCommand, serve

        serve(AppCommand(folders=(c.out,)))
    else:
        print(f"look at it in the browser: odevit app {c.out}")
