"""Bounds of attention on a ball max_i |x_i| <= R (dot product) or everywhere (tied L2, scaled cosine), from the weights alone.

Every function returns one bound per head, (H,), without output projection and nu (`Heads.combined` puts them together), in
the 2-norm on all tokens, for maps q, k, v that act on x; the ball is that of x.
"""

import math

import torch
from scipy.special import lambertw
from torch import Tensor

from .heads import Heads
from .matrix_norms import spectral_norm


def score_norms(heads: Heads) -> Tensor:
    """||A|| with A = W_q^T W_k / sqrt(d) per head, (H,); heads.q carries 1/sqrt(d)."""
    return spectral_norm(heads.q.transpose(1, 2) @ heads.k, "attn.q, attn.k")


def query_offsets(heads: Heads, moving: Tensor | None = None) -> Tensor:
    """||W_k^T b_q|| / sqrt(d) per head, (H,), the only way in which a bias enters the Jacobian's bound.

    Args:
        moving: what b_q carries in time, Fourier pairs a_m sin + b_m cos in the space of q, (M, H, 2, d); the result then
            bounds all times.
    """
    fixed = (heads.q_bias[:, None] @ heads.k)[:, 0].norm(dim=-1)
    return fixed if moving is None else fixed + spectral_norm(moving @ heads.k, "time_weight").sum(0)


def dot_ball(heads: Heads, tokens: int, radius: float, offsets: Tensor | None = None) -> Tensor:
    """(C), derived here: ||W_v|| (sqrt N + ||A|| R^2 + sqrt(N/2) R (||A|| R + ||W_k^T b_q|| / sqrt d)).

    Terms: P has norm at most sqrt N; a covariance of points of the ball is at most R^2; a row of the third block matrix is
    ||[P_ij (v_j - vbar_i)]_j|| |u_i|, and for scalars s_j in [-1, 1], sum_j P_j^2 (s_j - sbar)^2 is convex in s, so largest at
    signs, 8 p^2 (1 - p)^2 <= 1/2. Biases of k and v cancel.

    Args:
        tokens: N.   radius: R of the ball in x.   offsets: `query_offsets`, or None for those of the heads.
    """
    a, b = score_norms(heads), query_offsets(heads) if offsets is None else offsets
    grown = a * radius  # a product at a time: R^2 of an absurd radius raises, where a product is infinite
    return heads.norms("v") * (math.sqrt(tokens) + grown * radius + math.sqrt(tokens / 2) * radius * (grown + b))


def castin(heads: Heads, tokens: int, radius: float) -> Tensor:
    """In the form of Castin et al. 2023 (2312.14820): sqrt 3 ||W_v|| (||A||^2 R^4 (4N + 1) + N)^(1/2), without query bias."""
    a = score_norms(heads)
    return math.sqrt(3) * heads.norms("v") * ((a * radius * radius).square() * (4 * tokens + 1) + tokens).sqrt()


def inverse_phi(tokens: int) -> float:
    """phi^-1(N - 1) = W_0((N - 1) / e), phi(x) = x e^(x + 1): the supremum of sum_j P_ij |r_i - r_j|^2, P ~ exp -|r_i - r_j|^2.

    >>> round(inverse_phi(65), 6)
    2.318125
    """
    return float(lambertw((tokens - 1) / math.e).real)


def kim_two(heads: Heads, tokens: int, *, power: int = 2) -> Tensor:
    """In the form of Kim et al. 2020 (2006.04710), tied L2: sqrt(N/d) (4 phi^-1 + 1) ||W_Q||^2 ||W_V||.

    Args:
        power: of ||W_Q||. f scales as c^2 under W_Q -> c W_Q, so 1, as sometimes written, is wrong for ||W_Q|| > 1.
    """
    assert heads.value is not None
    factor = math.sqrt(tokens / heads.dim) * (4 * inverse_phi(tokens) + 1)
    return factor * heads.norms("q") ** power * heads.norms("value")


def l2_sharp(heads: Heads, tokens: int) -> Tensor:
    """Tied L2, derived here: (sqrt N (2 phi^-1 + 1) + 2 phi^-1) ||W_Q|| ||W_Q^T W_V / sqrt d||.

    In r = q / d^(1/4), r -> P r has the Jacobian P x I + 2 blockdiag(Cov_i) + 2 [P_ij (r_j - rbar_i) (r_i - r_j)^T]: at most
    sqrt N, 2 phi^-1, and rows of 2 sqrt(Var_i m_i) <= 2 phi^-1 with m_i = sum_j P_ij |r_i - r_j|^2.
    """
    phi = inverse_phi(tokens)
    return (math.sqrt(tokens) * (2 * phi + 1) + 2 * phi) * heads.norms("q") * heads.norms("mix")


def kim_inf(heads: Heads, tokens: int) -> float:
    """Tied L2, the whole branch in the infinity norm, in the form of Kim et al. 2020.

    (4 phi^-1 + 1 / sqrt d) ||W_O^T|| max_h(||W_Q|| ||W_Q^T||) max_h ||W_V^T||, all in the infinity norm.
    The infinity norm is the largest absolute row sum, on vec X the largest entry; it bounds nothing in the 2-norm.
    """
    assert heads.value is not None
    rows = torch.cat(list(heads.out), 1).abs().sum(-1).max()
    queries = (heads.q.abs().sum(1).amax(-1) * heads.q.abs().sum(2).amax(-1)).max()
    values = heads.value.abs().sum(2).max()
    return float((4 * inverse_phi(tokens) + 1 / math.sqrt(heads.dim)) * rows * queries * values)


def lipsformer(heads: Heads, tokens: int, *, refined: bool = False) -> Tensor:
    """Scaled cosine, in the form of LipsFormer (2304.09856), theorem 1, everywhere.

    eps^-1/2 (2 N (N - 1) tau ||W_K|| + 2 (N - 1) tau ||W_Q|| + 2 N ||W_V||); refined by softmax's norm 1/2:
    eps^-1/2 (N^2 tau ||W_K|| + N tau ||W_Q|| + 2 N ||W_V||).
    """
    n, tau = tokens, abs(heads.tau)
    keys, queries = (n * n, n) if refined else (2 * n * (n - 1), 2 * (n - 1))
    total = keys * tau * heads.norms("k") + queries * tau * heads.norms("q") + 2 * n * heads.norms("v")
    return total / math.sqrt(heads.eps)


def cosine_sharp(heads: Heads, tokens: int) -> Tensor:
    """Scaled cosine with q, k and v normalised, derived here; everywhere.

    eps^-1/2 (sqrt N (||W_V|| + tau ||W_K|| / sqrt 2) + tau ||W_Q||): the normaliser u / sqrt(|u|^2 + eps) has Lipschitz
    constant eps^-1/2 and values in the unit ball, and the terms are those of `dot_ball`.
    """
    root, tau = math.sqrt(tokens), abs(heads.tau)
    v, k, q = heads.norms("v"), heads.norms("k"), heads.norms("q")
    return (root * (v + tau * k / math.sqrt(2)) + tau * q) / math.sqrt(heads.eps)
