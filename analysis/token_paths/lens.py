"""The logit lens along t: what the readout says of every saved state, and when the class is decided.

z(t) = head(x_cls(t)); decision time t* = inf{t: argmax z(s) = argmax z(T) for all s >= t} (nostalgebraist 2020, for layers).
A grid resolves it where z_a - z_j > ||w_a - w_j|| h sup ||v_cls|| for all j != a: then the class cannot flip inside the step.
"""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from odevit.errors import UserError
from odevit.flow import piece_at
from odevit.trajectory import Trajectory

from ..discretization.swaps import no_flip_radius
from ..operators import as_float64, check_finite, provenance
from ..reports.paths import LensReport
from .bases import array
from .kinematics import NUDGE


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


def _travel(field, trajectory: Trajectory, x: Tensor) -> Tensor:
    """h sup ||v_cls|| of each step (K - 1, B), the sup measured at both ends; for a discrete net the length of the step."""
    cls = trajectory.layout.cls  # type: ignore[union-attr]
    if trajectory.method == "discrete":
        return x[:, :, cls].diff(dim=0).squeeze(2).norm(dim=-1)
    times, out = trajectory.t.tolist(), []
    for k, gap in enumerate(b - a for a, b in pairwise(times)):
        ends = ((times[k], NUDGE * gap, x[k]), (times[k + 1], -NUDGE * gap, x[k + 1]))
        speeds = [piece_at(field, t + nudge)(t, state)[:, cls].squeeze(1).norm(dim=-1) for t, nudge, state in ends]
        out.append(abs(gap) * torch.maximum(*speeds))
    return torch.stack(out)


def logit_lens(model, trajectory: Trajectory) -> LensReport:
    """Logits of every saved state, the decision time of every image, and whether the grid resolves it.

    Args:
        model: has `readout`, `field` and `layout`; a float64 copy is used.
        trajectory: its token trajectory, (K, B, N, D).

    Returns:
        LensReport. `resolved` uses the largest ||v_cls|| at the two ends of each step, a measured sup, not a bound. It is False
        throughout, with `radius` NaN, for a readout with a final norm, which is not linear in CLS.

    Raises UserError without a readout or layout. Cost: two evaluations of the field per saved time.
    """
    if not hasattr(model, "readout") or trajectory.layout is None:
        raise UserError("logit lens: it needs a model with a readout and a trajectory with a token layout")
    check_finite("trajectory", trajectory.x)
    double = as_float64(model)
    x = trajectory.x.detach().double()
    with torch.no_grad():
        logits = torch.stack([double.readout(state) for state in x])
        travel = _travel(double.field, trajectory, x)
    prediction = array(logits.argmax(-1)).astype(np.int64)
    linear = isinstance(double.norm, nn.Identity)
    radius = no_flip_radius(double, x) if linear else torch.full(logits.shape[:2], torch.nan)
    resolved = array(radius[:-1] > travel).astype(bool)
    first = decision_index(prediction)
    later = np.arange(len(resolved))[:, None] >= first
    return LensReport(
        provenance=provenance(model, x),
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
