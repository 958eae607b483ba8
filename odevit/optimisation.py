"""Pieces of optimisation that are pure functions: learning-rate schedule, parameter groups, device."""

import math
import os

import torch
from torch import nn

from .errors import UserError


def schedule(step: int, total: int, warmup: float) -> float:
    """Learning rate over its peak: linear warm-up over a share of the steps, then half a cosine to 0."""
    rise = max(1, round(total * warmup))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, total - rise)))


def moving_average(decay: float):
    """An update a <- d a + (1 - d) x for AveragedModel; d rises as (1 + n) / (10 + n) to `decay`, so the start is forgotten."""

    def update(averaged, current, n):
        d = min(decay, (1 + float(n)) / (10 + float(n)))
        return averaged + (1 - d) * (current - averaged)  # this way a weight that stands still is averaged exactly

    return update


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Matrices with weight decay; vectors, norms and learned tokens without."""
    tokens = ("tokenizer.cls", "tokenizer.registers", "tokenizer.positions", "field.time_weight")
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    plain = [p for n, p in named if p.ndim < 2 or n in tokens]
    decayed = [p for n, p in named if not (p.ndim < 2 or n in tokens)]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]


def pick_device(name: str) -> torch.device:
    """The torch device of a name: "auto" is a GPU where there is one; "auto" and "cuda" mean the GPU of this process."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"device: unknown {name!r} (auto, cpu, cuda, cuda:N)")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device: {name!r} asked for, but torch finds no GPU")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"device: {name!r} asked for, but torch finds {torch.cuda.device_count()} GPU(s), counted from 0")
    if name == "cuda":
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    return device
