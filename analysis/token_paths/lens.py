"""The logit lens along t: what the readout says of every saved state, and when the class is decided.

z(t) = head(x_cls(t)); decision time t* = inf{t: argmax z(s) = argmax z(T) for all s >= t} (nostalgebraist 2020, for layers).
A grid resolves it where z_a - z_j > ||w_a - w_j|| h sup ||v_cls|| for all j != a: then the class cannot flip inside the step.
"""

import numpy as np
import torch
from torch import Tensor, nn

from odevit.errors import UserError
from odevit.trajectory import Trajectory

from ..operators import as_float64
from ..reports.paths import LensReport
from .bases import array


def margins(logits: Tensor) -> Tensor:
    """Largest minus second largest logit, (..., C) -> (...)."""
    top = logits.topk(2, dim=-1).values
    return top[..., 0] - top[..., 1]


def decision_index(prediction: np.ndarray) -> np.ndarray:
    """Index of the first saved time from which the prediction (K, B) stays what it is at the end, shape (B,).

    >>> decision_index(np.array([[3], [1], [3], [3]])).tolist()
    [2]
    """
    same = prediction[::-1] == prediction[-1]
    held = np.where(same.all(0), len(prediction), same.argmin(0))
    return len(prediction) - held


def flip_radius(logits: Tensor, weight: Tensor) -> Tensor:
    """min_j (z_a - z_j) / ||w_a - w_j||: the move of CLS below which a linear head keeps its answer, (..., C) -> (...)."""
    best = logits.argmax(-1, keepdim=True)
    gap = logits.gather(-1, best) - logits
    length = torch.cdist(weight, weight)[best.squeeze(-1)]
    ratio = (gap / length).scatter(-1, best, torch.inf)
    return torch.where(ratio.isnan(), torch.inf, ratio).amin(-1)  # equal weights and logits: a tie that no move can change


def _travel(t: Tensor, speed: Tensor) -> Tensor:
    """h sup ||v_cls|| of each step (K - 1, B), the sup measured at both ends of the step."""
    return t.diff().abs().to(speed)[:, None] * torch.maximum(speed[:-1], speed[1:])


def _cls_speed(field, trajectory: Trajectory) -> Tensor:
    """||v_cls|| at the saved times (K, B); of the step itself for a discrete net, whose last state has no velocity."""
    x = trajectory.x.detach().double()
    cls = trajectory.layout.cls  # type: ignore[union-attr]
    if trajectory.method == "discrete":
        step = x[:, :, cls].diff(dim=0) / trajectory.t.diff().to(x)[:, None, None, None]
        return torch.cat([step, step[-1:]]).squeeze(2).norm(dim=-1)
    with torch.no_grad():
        return torch.stack([field(t.to(x), s)[:, cls].squeeze(1).norm(dim=-1) for t, s in zip(trajectory.t, x)])


def logit_lens(model, trajectory: Trajectory) -> LensReport:
    """Logits of every saved state, the decision time of every image, and whether the grid resolves it.

    Args:
        model: has `readout`, `field` and `layout`; a float64 copy is used.
        trajectory: its token trajectory, (K, B, N, D).

    Returns:
        LensReport. `resolved` uses the largest ||v_cls|| at the two ends of each step, a measured sup, not a bound. It is False
        throughout, with `radius` NaN, for a readout with a final norm, which is not linear in CLS.

    Raises UserError without a readout or layout. Cost: one evaluation of the field per saved time.
    """
    if not hasattr(model, "readout") or trajectory.layout is None:
        raise UserError("logit lens: it needs a model with a readout and a trajectory with a token layout")
    model = as_float64(model)
    x = trajectory.x.detach().double()
    with torch.no_grad():
        logits = torch.stack([model.readout(state) for state in x])
    prediction = array(logits.argmax(-1)).astype(np.int64)
    linear = isinstance(model.norm, nn.Identity)
    radius = flip_radius(logits, model.head.weight) if linear else torch.full(logits.shape[:2], torch.nan)
    travel = _travel(trajectory.t, _cls_speed(model.field, trajectory))
    resolved = array(radius[:-1] > travel).astype(bool)
    first = decision_index(prediction)
    later = np.arange(len(resolved))[:, None] >= first
    return LensReport(
        time=array(trajectory.t),
        logits=array(logits),
        prediction=prediction,
        margin=array(margins(logits)),
        radius=array(radius),
        decision_time=array(trajectory.t)[first],
        resolved=resolved,
        decision_resolved=np.logical_and.reduce(resolved | ~later) & linear,
        linear=linear,
    )
