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


def trajectory_matching(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean over control points k of |x_k - y_k|^2 / |y_k|^2, a scalar; 0 = the teacher's states, 1 = no better than zero.

    The squared norms are means over images, tokens and channels at their control point, so that neither the size of the batch
    nor the growth of a ViT's states over depth changes the weight of an image or of a layer.

    Args:
        student: states x, (K, B, N, D).
        teacher: states y, of the same shape; no gradient is needed.
    """
    scale = teacher.square().mean(dim=(1, 2, 3)).clamp_min(torch.finfo(teacher.dtype).tiny)  # (K,)
    return ((student - teacher).square().mean(dim=(1, 2, 3)) / scale).mean()


def attention_matching(student: Tensor, teacher: Tensor) -> Tensor:
    """Mean over layers, images and heads of sum_j |p_j - q_j|, a scalar in [0, 2]; 0 where both look at the same patches.

    Args:
        student: attention p of a query on the patches, rows that sum to 1, (K, B, H, P).
        teacher: the same of the teacher, q; where its number of heads differs, the means over heads are compared.
    """
    if student.shape[2] != teacher.shape[2]:
        student, teacher = student.mean(2, keepdim=True), teacher.mean(2, keepdim=True)
    return (student - teacher).abs().sum(-1).mean()


def logit_distillation(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """tau^2 KL(softmax(teacher / tau) || softmax(student / tau)), mean over images, in nats (Hinton et al. 2015, 1503.02531).

    Args:
        student, teacher: logits (B, C).
        temperature: tau; the factor tau^2 keeps the size of the gradient.
    """
    p, q = (teacher / temperature).log_softmax(-1), (student / temperature).log_softmax(-1)
    return F.kl_div(q, p, reduction="batchmean", log_target=True) * temperature**2


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
    with torch.no_grad():  # only the row that attains the maximum has a gradient, so only that row is recorded
        worst = _log_ratio(attention, k).argmax(-1)[..., None, None]  # (K, B, H, 1, 1)
    row = attention.gather(-2, worst.expand(*worst.shape[:-1], n))
    return _log_ratio(row, k).mean()


def _log_ratio(p: Tensor, k: int) -> Tensor:
    """log g_1, or log(g_1 / g_k) for k >= 1, of rows p (..., N), shape (...)."""
    top = _two_largest(p) if k == 0 else p.topk(min(k + 1, p.shape[-1]), dim=-1).values
    top = top.to(torch.promote_types(top.dtype, torch.float32))
    padded = F.pad(top, (0, 1)) if top.shape[-1] < max(k, 1) + 1 else top
    g = padded[..., :-1] * (1 - padded[..., :-1] + padded[..., 1:])
    logs = g.clamp_min(torch.finfo(g.dtype).tiny).log()
    return logs[..., 0] - (logs[..., k - 1] if k else 0.0)


def _two_largest(rows: Tensor) -> Tensor:
    """The two largest of each row of non-negative numbers, (..., 2); several times faster than topk on a CPU."""
    largest, where = rows.max(-1, keepdim=True)
    return torch.cat([largest, rows.scatter(-1, where, 0.0).amax(-1, keepdim=True)], -1)
