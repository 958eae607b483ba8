"""Per-input bounds of the attention branch: ||J_G|| at one state, from its attention maps.

With P the map of a head, vbar_i = sum_j P_ij v_j and s_ij the scores, the head's Jacobian is the sum of three block matrices,
    [P_ij dv_j] + blockdiag(sum_j P_ij (v_j - vbar_i) (d s_ij / d x_i)^T) + [P_ij (v_j - vbar_i) (d s_ij / d x_j)^T],
and the norm of a block matrix is at most that of the matrix of its blocks' norms. For the dot product the middle term is
XCov_i(v, k) W_q / sqrt(d); the other kinds only change the derivatives. The attention-map bound is in the form of Yudin et al.
2025 (2507.07814): rows of J_softmax V see V centred, because J_softmax 1 = 0.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from odevit.attention import unit

from .heads import Heads
from .matrix_norms import right_norms, spectral_norm
from .softmax_norms import softmax_gap, softmax_norm


def attention_map(heads: Heads, x: Tensor) -> Tensor:
    """P of every head at tokens x (N, D), shape (H, N, N), rows sum to 1."""
    q, k, _ = heads.projected(x)
    if heads.kind == "l2":
        scores = -torch.cdist(q, k, compute_mode="donot_use_mm_for_euclid_dist").square() / math.sqrt(heads.dim)
    elif heads.kind == "cosine":
        scores = heads.tau * unit(q) @ unit(k).transpose(1, 2)
    else:
        scores = q @ k.transpose(1, 2)
    return scores.softmax(-1)


def block_norm_bound(heads: Heads, x: Tensor, token_norms: Tensor | None = None) -> Tensor:
    """Block-norm bound (A) of every head at one state,

    L_h <= ||(P_ij ||dv_j||)|| + max_i ||sum_j P_ij (v_j - vbar_i) (ds_ij/dx_i)^T|| + ||(P_ij |v_j - vbar_i| |ds_ij/dx_j|)||.

    Args:
        heads: weights that act on x.
        x: tokens, (N, D).
        token_norms: (N,), norms of the Jacobians of what made x (LayerNorm); None = 1.

    Returns:
        Shape (H,), without output projection and nu (see `Heads.combined`). Cost O(N^2 d + N d^2 (N + d)) a head.
    """
    n = torch.ones_like(x[:, 0]) if token_norms is None else token_norms
    found = []
    for first, middle, third in block_terms(heads, x):
        outer = [spectral_norm(a * n, "attention") for a in (first, third)]
        found.append(outer[0] + (middle * n).max() + outer[1])
    return torch.stack(found)


def block_terms(heads: Heads, x: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """The exact block norms of the three terms of every head's Jacobian at x (N, D): (N, N), the diagonal (N,), (N, N)."""
    q, k, v = heads.projected(x)
    p = attention_map(heads, x)
    terms = {"dot": _dot_terms, "l2": _l2_terms, "cosine": _cosine_terms}[heads.kind]
    for h in range(len(p)):
        value_norms, values, middle, gradients = terms(heads, h, q[h], k[h], v[h], p[h])
        centred = torch.cdist(p[h] @ values, values, compute_mode="donot_use_mm_for_euclid_dist")  # |v_j - vbar_i|
        yield p[h] * value_norms, middle, p[h] * centred * gradients


def _covariances(p: Tensor, v: Tensor, k: Tensor) -> Tensor:
    """XCov_i(v, k) = sum_j P_ij v_j k_j^T - vbar_i kbar_i^T, shape (N, d, d)."""
    pairs = (v[:, :, None] * k[:, None, :]).flatten(1)
    mean_v, mean_k = p @ v, p @ k
    return (p @ pairs).unflatten(1, (v.shape[1], k.shape[1])) - mean_v[:, :, None] * mean_k[:, None, :]


def _dot_terms(heads: Heads, h: int, q: Tensor, k: Tensor, v: Tensor, p: Tensor):
    """||dv_j|| (scalar), values, ||middle_i|| (N,), ||ds_ij/dx_j|| (N, 1)."""
    middle = right_norms(_covariances(p, v, k), heads.q[h])
    return spectral_norm(heads.v[h], "attn.v"), v, middle, (q @ heads.k[h]).norm(dim=1, keepdim=True)


def _l2_terms(heads: Heads, h: int, q: Tensor, k: Tensor, v: Tensor, p: Tensor):
    """As `_dot_terms`; ds_ij = -2 (q_i - q_j)^T (dq_i - dq_j) / sqrt(d)."""
    factor = 2 / math.sqrt(heads.dim)
    middle = factor * right_norms(_covariances(p, v, q), heads.q[h])
    pulled = q @ heads.q[h]
    gradients = factor * torch.cdist(pulled, pulled, compute_mode="donot_use_mm_for_euclid_dist")
    return spectral_norm(heads.v[h], "attn.v"), v, middle, gradients


def _cosine_terms(heads: Heads, h: int, q: Tensor, k: Tensor, v: Tensor, p: Tensor):
    """As `_dot_terms`, with u^ = u / s, s = sqrt(|u|^2 + eps) and du^/du = (I - u^ u^T) / s for q, k and v."""
    units = [unit(u) for u in (q, k, v)]
    scale = [(u.square().sum(-1) + heads.eps).sqrt() for u in (q, k, v)]
    eye = torch.eye(heads.dim, dtype=q.dtype, device=q.device)
    dq, dv = ((eye - units[i][:, :, None] * units[i][:, None, :]) / scale[i][:, None, None] for i in (0, 2))
    middle = abs(heads.tau) * right_norms(_covariances(p, units[2], units[1]) @ dq, heads.q[h])
    cosines = units[0] @ units[1].T
    rest = units[0][:, None, :] - cosines[:, :, None] * units[1][None, :, :]  # q^_i without its part along k^_j, (N, N, d)
    gradients = abs(heads.tau) * (rest @ heads.k[h]).norm(dim=2) / scale[1]
    return right_norms(dv, heads.v[h]), units[2], middle, gradients


def attention_map_bounds(heads: Heads, x: Tensor, token_norm: float = 1.0) -> dict[str, Tensor]:
    """Attention-map bounds (B) of every dot-product head at one state.

    L_h <= ||P|| ||W_v|| + ||V_c|| max_i lambda_1(P_i) (||K_c W_q|| + ||Q W_k||) / sqrt(d), V_c and K_c less their means.

    Args:
        heads: of kind dot, weights that act on x.
        x: tokens, (N, D).
        token_norm: norm of the Jacobian of what made x (LayerNorm).

    Returns:
        Bounds (H,) without output projection: "exact" with the softmax norms lambda_1(P_i), "closed" with their closed upper
        bound g_1(P_i), and "weighted", never above "exact": only the query term needs the maximum, the key term is
        ||diag(lambda_1(P_i)) Q W_k||.
    """
    q, k, v = heads.projected(x)  # q carries 1/sqrt(d)
    p = attention_map(heads, x)
    k_c, v_c = k - k.mean(1, keepdim=True), v - v.mean(1, keepdim=True)
    exact, closed = softmax_norm(p), softmax_gap(p)
    pulled = q @ heads.k
    queries, keys = (spectral_norm(a, "attention") for a in (k_c @ heads.q, pulled))
    slopes = {
        "exact": exact.amax(-1) * (queries + keys),
        "closed": closed.amax(-1) * (queries + keys),
        "weighted": exact.amax(-1) * queries + spectral_norm(exact[..., None] * pulled, "attention"),
    }
    first, values = spectral_norm(p, "attention") * heads.norms("v"), spectral_norm(v_c, "attention")
    return {name: token_norm * (first + values * slope) for name, slope in slopes.items()}
