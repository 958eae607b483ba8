"""What a training run leaves in writing: the command that repeats it, the facts and the card of its model, its epochs."""

import platform
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from .backbone import Backbone
from .checkpoint import model_card
from .config import DistillConfig, TrainConfig, ViTConfig, preset, to_dict
from .config.distilling import FREE_OF_TEACHER
from .evaluate import Scores, macs, parameters, trained_nfe
from .revision import commit

TERMS = ("trajectory", "attention", "logits", "curvature", "jasmin")
HOW = ("preset", "resume", "force")  # fields that say how a run is started, not what it is


def command(config: TrainConfig) -> str:
    """The shell command of a run: its preset and every field that differs from the preset's and the defaults.

    >>> command(TrainConfig(seed=3, threads=2))
    'odevit train --preset odevit_tiny_conv_32 --model.stem patch --seed 3 --threads 2'
    """
    if isinstance(config, DistillConfig):
        return _distilling(config)
    name = config.preset
    model, solver = preset(name)
    if type(model) is not type(config.model):  # a config made in a script, whose preset says nothing of its model
        name = "vit_tiny_patch4_32" if isinstance(config.model, ViTConfig) else "odevit_tiny_patch4_32"
        model, solver = preset(name)
    default = TrainConfig(preset=name, model=model, solver=solver)  # type: ignore[arg-type]
    return shlex.join(["odevit", "train", "--preset", name, *_flags(config, default, "")])


def _distilling(config: DistillConfig) -> str:
    """The same of a distillation; the student's own fields are all named, because their defaults depend on the teacher."""
    own = {f"model.{name}": getattr(config.model, name) for name in FREE_OF_TEACHER}
    own |= {f"solver.{name}": value for name, value in to_dict(config.solver).items() if name != "horizon"}
    named = [f"--{name.replace('_', '-')} {value}" for name, value in own.items() if name != "model.bias"]
    named.append("--model.bias" if config.model.bias else "--model.no-bias")
    default = DistillConfig(model=config.model, solver=config.solver)
    return " ".join([shlex.join(["odevit", "distill", *_flags(config, default, "")]), *named])


def _flags(config, default, prefix: str) -> Iterator[str]:
    """Flags of the fields in which two configs of one type differ."""
    for field in fields(config):
        value, usual = getattr(config, field.name), getattr(default, field.name)
        flag = prefix + field.name.replace("_", "-")
        if is_dataclass(value):
            yield from _flags(value, usual, f"{flag}.")
        elif value != usual and not (prefix == "" and field.name in HOW):
            if isinstance(value, bool):
                yield f"--{flag}" if value else f"--{prefix}no-{field.name.replace('_', '-')}"
            else:
                yield from (f"--{flag}", *map(str, value if isinstance(value, tuple) else (value,)))


def hardware(device: torch.device, world: int = 1) -> str:
    """What a run was computed on, such as 'x86_64 CPU, 2 thread(s)'."""
    one = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{platform.machine()} CPU"
    many = f"{world} x " if world > 1 else ""
    return many + one + ("" if device.type == "cuda" else f", {torch.get_num_threads()} thread(s)")


def facts(config: TrainConfig, val: Scores, epoch: int, made_on: str) -> dict[str, Any]:
    """What config.json says under `training` of the model that was best on validation."""
    return {
        "run": to_dict(config), "best_epoch": epoch, "val_accuracy": val.top1, "val_loss": val.loss, "val_ece": val.ece,
        "val_images": val.n, "command": command(config), "commit": commit(), "torch": torch.__version__, "hardware": made_on,
    }  # fmt: skip


def card(
    model: Backbone, config: TrainConfig, known: dict[str, Any], *,
    measured: dict[str, dict] | None = None, limits: Sequence[str] = (),
) -> str:  # fmt: skip
    """README.md of the model folder of a run; `measured` adds rows to its results, `limits` sentences to its limits."""
    where = {"split": "val", "n": known["val_images"], "seed": config.seed}
    names = {"top-1 accuracy": "val_accuracy", "cross-entropy (nats)": "val_loss", "calibration error (15 bins)": "val_ece"}
    results = {**(measured or {}), **{name: {"value": known[key], **where} for name, key in names.items()}}
    nfe = trained_nfe(model)
    cost = {"split": "-", "n": 1, "seed": "-"}
    results |= {"field evaluations": {"value": nfe, **cost}, "MACs per image": {"value": macs(model, nfe), **cost}}
    loss, optim = config.loss, config.optim
    terms = [f"cross-entropy (label smoothing {loss.label_smoothing:g})"]
    terms += [f"{getattr(loss, name):g} x {name}" for name in ("curvature", "jasmin") if getattr(loss, name)]
    described = to_dict(model.config), to_dict(model.solver), to_dict(model.inputs)
    kind = "vit" if isinstance(model.config, ViTConfig) else "odevit"
    return model_card(
        name=config.out.name, facts={"kind": kind, **dict(zip(("model", "solver", "data"), described))},
        parameters=parameters(model), losses=known.get("losses") or " + ".join(terms), results=results,
        command=known["command"], commit=known["commit"], hardware=known["hardware"],
        limits=[
            f"The best of {optim.epochs} epochs on validation, which is therefore a little optimistic; see log.csv.", *limits
        ],
    )  # fmt: skip


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(50), duration(100), duration(7500)
    ('50 s', '1.7 min', '2.1 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def epoch_line(row: dict[str, float], epochs: int, best: float) -> str:
    """One line on an epoch, for people; `row` is its line in log.csv."""
    terms = "".join(f"  {name} {row[name]:.3g}" for name in TERMS if name in row)
    left = duration((epochs - row["epoch"]) * row["seconds"])
    return (
        f"epoch {row['epoch']}/{epochs}  loss {row['loss']:.4f}{terms}  acc {row['accuracy']:.4f}  "
        f"val {row['val_accuracy']:.4f} (best {best:.4f})  nfe {row['nfe']:.3g}  lr {row['lr']:.2e}  "
        f"{duration(row['seconds'])}, {left} left"
    )
