"""Norms of the matrices and normalisations that the Lipschitz bounds are made of, exact to rounding and guarded.

CenterNorm is the constant matrix C = D/(D-1) diag(gamma) (I - 11^T/D). LayerNorm at a token of variance s^2 - eps has the
Jacobian diag(gamma) (I - 11^T/D - z z^T/D) / s with z = (x - mean) / s, so its norm has no bound but max|gamma| / sqrt(eps).
"""

import math

import torch
from torch import Tensor, nn

from odevit.errors import NonFiniteError
from odevit.field import CenterNorm

BISECTIONS = 60


def spectral_norm(a: Tensor, name: str = "matrix") -> Tensor:
    """The largest singular value of each matrix, by a full SVD in float64 (power iteration would only be a lower bound).

    Args:
        a: shape (..., m, n).
        name: how a message names it.

    Returns:
        Shape (...), float64, on the device of `a`. Raises NonFiniteError where an entry is NaN or infinite (LAPACK may crash
        on it).
    """
    if not bool(torch.isfinite(a).all()):
        raise NonFiniteError(f"{name}: holds NaN or infinite values, no norm")
    return torch.linalg.svdvals(a.detach().to("cpu", torch.float64))[..., 0].to(a.device)


def right_norms(x: Tensor, w: Tensor) -> Tensor:
    """||X_i W|| for many small X_i and one wide W, through the d x d factor U S of W = U S V^T; shape (...).

    Args:
        x: shape (..., m, d).   w: shape (d, D).
    """
    u, s, _ = torch.linalg.svd(w.to("cpu", torch.float64), full_matrices=False)
    return spectral_norm(x @ (u * s).to(x.device))


def norm_matrix(norm: nn.Module, like: Tensor) -> Tensor:
    """The constant Jacobian of a linear normalisation, (D, D), CenterNorm's matrix or the identity; D, device as in `like`."""
    if isinstance(norm, CenterNorm):
        return norm.matrix().detach().double()
    return torch.eye(like.shape[-1], dtype=torch.float64, device=like.device)


def norm_offset(norm: nn.Module) -> Tensor | None:
    """beta of a normalisation, (D,), or None."""
    offset = norm.beta if isinstance(norm, CenterNorm) else getattr(norm, "bias", None)
    return None if offset is None else offset.detach()


def layer_norm_jacobians(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """The Jacobian of LayerNorm at every token, diag(gamma) (I - 11^T/D - z z^T/D) / s; x (..., D) -> (..., D, D)."""
    z, s = _standardised(norm, x)
    dim = x.shape[-1]
    eye = torch.eye(dim, dtype=x.dtype, device=x.device)
    inner = eye - 1 / dim - z[..., :, None] * z[..., None, :] / dim
    return norm.weight[:, None] * inner / s[..., None, None]


def layer_norm_norms(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """The exact spectral norm of LayerNorm's Jacobian at every token, without forming it.

    ||J||^2 s^2 is the largest eigenvalue of diag(gamma^2) - U U^T with U = gamma * [1/sqrt(D), sqrt(1 - r^2) z/|z|] and
    r = eps / s^2 (what is left of the direction z). By Sylvester's law of inertia that eigenvalue exceeds m iff the number of
    gamma_i^2 > m plus the number of negative eigenvalues of the 2 x 2 matrix -(I + U^T (m - diag(gamma^2))^-1 U) exceeds 2:
    bisection.
    With gamma = 1 and D >= 3 the norm is 1 / s.

    Args:
        x: tokens, shape (..., D), float64.

    Returns:
        Shape (...), the upper end of the bisection.
    """
    z, s = _standardised(norm, x)
    dim = x.shape[-1]
    gamma2 = norm.weight.square().expand(x.shape)
    length = z.norm(dim=-1, keepdim=True)
    kept = norm.eps / s.square()[..., None]
    direction = torch.where(length > 0, z / length.clamp_min(1e-300), 0.0) * (1 - kept.square()).clamp_min(0).sqrt()
    u = torch.stack([torch.full_like(x, 1 / math.sqrt(dim)), direction], -1) * norm.weight[:, None]
    low, high = torch.zeros_like(s), gamma2.amax(-1)
    for _ in range(BISECTIONS):
        m = (low + high) / 2
        gap = m[..., None] - gamma2
        gap = torch.where(gap == 0, 1e-100, gap)
        a = -(u[..., :, :, None] * u[..., :, None, :] / gap[..., None, None]).sum(-3)
        a = a - torch.eye(2, dtype=x.dtype, device=x.device)
        trace, det = a[..., 0, 0] + a[..., 1, 1], a[..., 0, 0] * a[..., 1, 1] - a[..., 0, 1].square()
        negative = torch.where(det < 0, 1, torch.where(trace < 0, 2, 0))
        above = (gap < 0).sum(-1) + negative > 2
        low, high = m.where(above, low), high.where(above, m)
    return high.sqrt() / s


def layer_norm_global(norm: nn.LayerNorm) -> float:
    """The smallest global Lipschitz constant that LayerNorm has for every gamma of this size: max|gamma| / sqrt(eps), vacuous.

    It is approached where all channels of a token are nearly equal; for eps = 1e-6 it is 1000 max|gamma|.
    """
    return float(norm.weight.detach().abs().max()) / math.sqrt(norm.eps)


def _standardised(norm: nn.LayerNorm, x: Tensor) -> tuple[Tensor, Tensor]:
    """(x - mean) / s and s = sqrt(var + eps) of every token, shapes (..., D) and (...)."""
    centred = x - x.mean(-1, keepdim=True)
    s = (centred.square().mean(-1) + norm.eps).sqrt()
    return centred / s[..., None], s
