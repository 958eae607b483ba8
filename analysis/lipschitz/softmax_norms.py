"""How strongly the softmax reacts: the norm of J_p = diag(p) - p p^T for a row p of an attention map.

With p_(1) >= p_(2) >= .. and g_k = p_(k) (1 - p_(k) + p_(k+1)):  p_(k+1) <= lambda_k(J_p) <= g_k <= p_(k)  for every k.
lambda_1 is the root of sum_i p_i^2 / (p_i - lambda) = 1 between p_(2) and p_(1), the secular equation of a rank-one change
(Golub 1973); bounding p_i / (lambda - p_i) by p_(2) / (lambda - p_(2)) for i > 1 gives g_1, the quantity of JaSMin (Yudin et
al. 2025, 2507.07814).
"""

import torch
from torch import Tensor

BISECTIONS = 52  # the interval starts below 1/8, so it ends below the spacing of float64 at 1/2


def _sorted(p: Tensor) -> Tensor:
    """p in float64, descending, with a zero appended: p_(n+1) = 0."""
    p = p.double().sort(-1, descending=True).values
    return torch.cat([p, torch.zeros_like(p[..., :1])], -1)


def softmax_gap(p: Tensor, k: int = 1) -> Tensor:
    """g_k(p) = p_(k) (1 - p_(k) + p_(k+1)), an upper bound of the k-th eigenvalue of diag(p) - p p^T.

    Args:
        p: probabilities, shape (..., n), rows sum to 1.
        k: from 1 (the largest) to n.

    Returns:
        Shape (...), at most p_(k). Equal to the norm for k = 1 iff all non-zero entries but the largest are equal.

    >>> round(float(softmax_gap(torch.tensor([.5, .3, .15, .05], dtype=torch.float64))), 12)
    0.4
    """
    q = _sorted(p)
    return q[..., k - 1] * (1 - q[..., k - 1] + q[..., k])


def softmax_norm(p: Tensor) -> Tensor:
    """The exact spectral norm of J_p = diag(p) - p p^T, as the upper end of a bisection of the secular equation.

    Args:
        p: probabilities, shape (..., n), rows sum to 1.

    Returns:
        Shape (...), in [0, 1/2]. Cost O(n) a bisection, no eigenvalue solver.

    >>> round(float(softmax_norm(torch.tensor([.5, .3, .15, .05], dtype=torch.float64))), 7)
    0.3846262
    """
    q = _sorted(p)
    first, rest = q[..., 0], q[..., 1:]
    low, high = softmax_lower(p), softmax_gap(p)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        below = (rest.square() / (middle[..., None] - rest)).where(rest > 0, 0.0).sum(-1)
        left = first.square() / (first - middle) - below < 1
        low, high = middle.where(left, low), high.where(left, middle)
    return high


def softmax_lower(p: Tensor) -> Tensor:
    """A lower bound of the norm of J_p: max of p_(1) (1 - p_(1)), p_(2), (p_(1) + p_(2) - (p_(1) - p_(2))^2) / 2; shape (...).

    The three are Rayleigh quotients (a unit vector; two unit vectors' difference) and Cauchy interlacing.
    """
    q = _sorted(p)
    a, b = q[..., 0], q[..., 1]
    return torch.maximum(torch.maximum(a * (1 - a), b), (a + b - (a - b).square()) / 2)


def softmax_upper(p: Tensor) -> Tensor:
    """A closed upper bound of the norm of J_p: min of g_1, 1/2, 1 - |p|^2 (the trace) and the entropy in nats; (...)."""
    p = p.double()
    trace, entropy = 1 - p.square().sum(-1), -torch.xlogy(p, p).sum(-1)
    return torch.minimum(torch.minimum(softmax_gap(p), trace), entropy).clamp(0, 0.5)


def softmax_inf_norm(p: Tensor) -> Tensor:
    """The infinity norm (= 1-norm) of J_p, max_i 2 p_i (1 - p_i) <= 1/2; shape (...)."""
    p = p.double()
    return (2 * p * (1 - p)).amax(-1)
