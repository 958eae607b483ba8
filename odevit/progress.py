"""Where a training run stands, the random numbers of its batches, and whether a saved run is the one asked for."""

from dataclasses import dataclass, field
from typing import Any

import torch

from .config import TrainConfig, from_dict, to_dict
from .errors import UserError

FREE = {"out", "preset", "device", "threads", "resume", "force", "data.root", "data.download"}  # may differ on resuming


@dataclass
class Progress:
    """Where a run stands; saved with the weights, so that it can go on from there.

    Attributes:
        epoch, batch: finished epochs, and finished batches of the next one.
        sums: of the loss terms over the images of this epoch so far; `lr` and `seconds` as they are.
        history: one row of log.csv an epoch.
        best, best_epoch: highest accuracy on validation so far, and when.
    """

    epoch: int = 0
    batch: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    best: float = -1.0
    best_epoch: int = 0


def generator(seed: int, epoch: int, stream: int) -> torch.Generator:
    """Random numbers that depend on (seed, epoch, stream) only, so that no generator need be saved."""
    return torch.Generator().manual_seed(((seed * 1_000_003 + epoch) * 1_000_003 + stream) % 2**64)


def check_same_run(saved: dict[str, Any], config: TrainConfig, path) -> None:
    """Raise UserError, naming the first field, where the run saved at `path` would end elsewhere than that of `config`."""
    before = _leaves(to_dict(from_dict(type(config), saved, f"{path}: run")))  # fields that are newer get their defaults
    now = _leaves(to_dict(config))
    for name in {**now, **before}:
        if name not in FREE and before.get(name) != now.get(name):
            change = f"{name} ({before.get(name)}, now {now.get(name)})"
            raise UserError(f"resume: {path} was made with another {change}; give the same or --force a new run")


def _leaves(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Dotted name -> value."""
    out: dict[str, Any] = {}
    for name, value in config.items():
        out |= _leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return out
