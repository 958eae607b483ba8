"""Terms of the loss as pure functions of logits, attention maps and trajectories; each has a live gradient."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from .errors import UserError
from .trajectory import Trajectory


def cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy in nats; targets are class indices (B,) or probabilities (B, C)."""
    return F.cross_entropy(logits, targets, label_smoothing=smoothing)


def curvature(trajectory: Trajectory) -> Tensor:
    """R = sum_k mean over tokens of |f(x_{k+1}) - f(x_k)|^2 = h int |x''|^2 dt + O(h^2), a scalar.

    Makes a net of few steps an ODE: where R is small, more steps or another solver give the same answer. For Euler the
    velocities are f(x_k) = (x_{k+1} - x_k) / h exactly, so no evaluation is added; for other methods these differences are
    velocities to second order. Needs every step saved. Related: TayNODE (2007.04504), RNODE (2002.02798).
    """
    h, between = trajectory.h, trajectory.interpolated is not None
    if h is None or between or len(trajectory.t) < 3 or float((trajectory.t.diff() / h - 1).abs().max()) > 1e-6:
        raise UserError("curvature: needs a fixed-step trajectory with every step saved and at least 2 steps")
    moves = [b - a for a, b in pairwise(trajectory.x.unbind())]  # unbind: slices would fill a gradient of all states each
    bends = [(b - a).square().sum(-1).mean() for a, b in pairwise(moves)]
    return torch.stack(bends).sum() / h**2


def jasmin(attention: Tensor, k: int = 0) -> Tensor:
    """JaSMin (Yudin et al. 2025, 2507.07814): a scalar that bounds how fast the softmax reacts.

    With a row p sorted in descending order, g_i = p_(i) (1 - p_(i) + p_(i+1)) and |J_softmax(p)| <= g_1 <= 1/2.
    k = 0: log g_1;  k >= 1: log(g_1 / g_k). Maximum over the query rows, mean over heads, images and recorded steps.

    Args:
        attention: maps (K, B, H, N, N), rows sum to 1.
        k: index of the second term; at most N.
    """
    n = attention.shape[-1]
    if not 0 <= k <= n:
        raise UserError(f"jasmin: k = {k} is not between 0 and {n} tokens")
    top = attention.topk(min(max(k, 1) + 1, n), dim=-1).values
    top = top.to(torch.promote_types(top.dtype, torch.float32))
    padded = F.pad(top, (0, 1)) if top.shape[-1] < max(k, 1) + 1 else top
    g = padded[..., :-1] * (1 - padded[..., :-1] + padded[..., 1:])
    logs = g.clamp_min(torch.finfo(g.dtype).tiny).log()
    rows = logs[..., 0] - (logs[..., k - 1] if k else 0.0)  # (K, B, H, N)
    return rows.amax(-1).mean()
