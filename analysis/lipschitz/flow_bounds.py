"""How much the flow can stretch along a trajectory: exp(-int mu(-J) dt) <= sigma_n(Phi) <= sigma_1(Phi) <= exp(int mu(J) dt).

mu(J) = lambda_max((J + J^T) / 2) is the logarithmic norm (Dahlquist 1958, Lozinskii 1958); it may be negative, where ||J||
cannot. The bound is on the infinitesimal stretch along this trajectory; for finite perturbations mu is needed on the tube
between two.
"""

import numpy as np
import torch

from odevit.errors import UserError
from odevit.flow import piece_at
from odevit.trajectory import Trajectory

from ..operators import prepared, provenance
from ..reports.bounds import FlowBoundReport
from ..spectra import logarithmic_norm


def flow_bound(f, trajectory: Trajectory, *, batch_dims: int = 0) -> FlowBoundReport:
    """exp of the integral of the logarithmic norm along a trajectory, the useful bound of the stretch of its flow map.

    Args:
        f: callable (t, x).
        trajectory: states x (K, *state) or (K, B, ...) with batch_dims=1, saved densely enough for the trapezoid rule, error
        O(dt^2).

    Returns:
        FlowBoundReport; the bounds are those of the exact flow, an Euler step of size h stretches by ||I + h J|| instead.

    Cost: two logarithmic norms at each saved time.
    """
    if len(trajectory.t) < 2:
        raise UserError("trajectory: one saved time has no flow; save at least two")
    f, _ = prepared(f, trajectory.x[0])
    t, breaks, residual = trajectory.t.numpy(), np.array(getattr(f, "breaks", ())), 0.0
    states = trajectory.x.to(torch.float64)
    ends: list[list[np.ndarray]] = []
    for k in range(len(t) - 1):
        g = piece_at(f, float(t[k] + t[k + 1]) / 2)
        joined = k > 0 and not np.isclose(breaks, t[k]).any()
        pairs = [] if not joined else [ends[-1][1]]
        for time, x in ((t[k], states[k]), (t[k + 1], states[k + 1]))[len(pairs) :]:
            found = [logarithmic_norm(h, x, float(time), batch_dims=batch_dims) for h in (g, _negative(g))]
            residual = max(residual, *(float(np.max(r.residual)) for r in found))
            pairs.append(np.stack([np.asarray(r.value) for r in found], -1))  # (.., 2): mu(J), mu(-J)
        ends.append(pairs)
    mu = np.array(ends)  # (K - 1, 2 ends, .., 2)
    lengths = np.diff(t).reshape((-1,) + (1,) * (mu.ndim - 2))
    integral = (lengths * mu.mean(1)).sum(0)
    at_times = np.moveaxis(np.concatenate([mu[:, 0], mu[-1:, 1]]), 0, -2)  # (.., K, 2); at a break the later piece
    return FlowBoundReport(
        t=t, expansion=at_times[..., 0], contraction=at_times[..., 1], residual=residual,
        most=np.exp(integral[..., 0]), least=np.exp(-integral[..., 1]),
        provenance=provenance(f, states),
    )  # fmt: skip


def _negative(f):
    """-f, whose logarithmic norm bounds contraction."""
    return lambda t, x: -f(t, x)
