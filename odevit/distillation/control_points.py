"""Control points: the time at which a student should be where its teacher is after each layer.

Layer l gets the share softmax(d_l / temperature) of the horizon, d_l the mean distance that the teacher moves in it, so that
the ODE has time in proportion to the way it has to go (ODE-ViT, 2511.16501). Control points lie on steps: every layer gets one
step or more, and the shares are rounded by largest remainders, so that the steps add up and no interval is empty.
"""

import math

import torch
from torch import Tensor

from ..errors import UserError
from ..trajectory import TimeGrid
from ..vit import ViT


@torch.no_grad()
def layer_distances(teacher: ViT, images: Tensor, tokens: slice, batch_size: int = 64) -> list[float]:
    """Mean over images and tokens of |x_{l+1} - x_l| for each layer of a teacher; one forward pass.

    Args:
        teacher: L layers.
        images: normalised, (n, C, H, W).
        tokens: positions on the token axis.
    """
    moved = torch.zeros(teacher.config.depth, dtype=torch.float64)
    for batch in images.split(batch_size):
        states = teacher.trajectory(batch.to(teacher.head.weight.device)).x[:, :, tokens]  # (L + 1, B, n, D)
        moved += states.diff(dim=0).norm(dim=-1).mean(-1).sum(-1).double().cpu()
    return (moved / len(images)).tolist()


def shares(distances: list[float], temperature: float) -> list[float]:
    """softmax(d / temperature).

    >>> shares([5.0, 5.0], temperature=30.0)
    [0.5, 0.5]
    """
    top = max(distances)
    weights = [math.exp((d - top) / temperature) for d in distances]
    return [w / sum(weights) for w in weights]


def apportion(parts: list[float], steps: int) -> list[int]:
    """Whole numbers of steps, one or more each and `steps` in all, near the given shares by the method of largest remainders.

    >>> apportion([0.5, 0.26, 0.24], 10), apportion([0.98, 0.01, 0.01], 5)
    ([5, 3, 2], [3, 1, 1])

    Raises:
        UserError: fewer steps than shares.
    """
    if steps < len(parts):
        layers = len(parts)
        raise UserError(f"solver.steps: {steps} cannot hold {layers} control points, one a layer; use {layers} or more")
    single: set[int] = set()  # layers whose share is below a step: they get one, the others share the rest
    while True:
        others = [i for i in range(len(parts)) if i not in single]
        total, rest = sum(parts[i] for i in others), steps - len(single)
        quotas = {i: parts[i] / total * rest for i in others}
        small = {i for i, quota in quotas.items() if quota < 1 - 1e-9}
        if not small:
            break
        single |= small
    counts = [math.floor(quotas.get(i, 1) + 1e-9) for i in range(len(parts))]
    by_remainder = sorted(quotas, key=lambda i: (counts[i] - quotas[i], i))
    for i in by_remainder[: steps - sum(counts)]:
        counts[i] += 1
    return counts


def control_times(counts: list[int], grid: TimeGrid) -> tuple[float, ...]:
    """Times t_1 < .. < t_L of the grid at which each layer's steps end; the last is t1."""
    times, k = [], 0
    for count in counts:
        k += count
        times.append(grid.times[k])
    return tuple(times)
