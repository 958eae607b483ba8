"""Lipschitz bounds of the MLP branch F(x) = W_2 g(W_1 n(x) + b_1) + b_2, in the 2-norm over all tokens.

J_F is block diagonal over tokens, J_ii = W_2 diag(g'(z_i)) W_1 C, so ||J_F|| = max_i ||J_ii||. All three activations have
g'(z) + g'(-z) = 1, so g' = 1/2 + (s - 1/2) e with |e| <= 1 and s = max g':
product ||F||_Lip <= s ||W_2|| ||W_1 C||;  centred <= ||W_2 W_1 C|| / 2 + (s - 1/2) ||W_2|| ||W_1 C||, never above the product.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .matrix_norms import spectral_norm

EXACT_PRODUCTS = 5e10  # tokens x D^3 above which the exact norm of every token is not worth its minutes of SVDs
_CHUNK = 2**25  # doubles held at once


@dataclass(frozen=True)
class Slope:
    """The range of an activation's derivative: low = min g', high = max g', low + high = 1."""

    low: float
    high: float


def _gelu_slope() -> Slope:
    """g = x Phi(x): g'' = phi(x) (2 - x^2), so the largest slope is Phi(sqrt 2) + sqrt 2 phi(sqrt 2), at sqrt 2."""
    high = (1 + math.erf(1.0)) / 2 + math.exp(-1.0) / math.sqrt(math.pi)
    return Slope(1 - high, high)


def _tanh_gelu_slope() -> Slope:
    """g = x (1 + tanh u) / 2, u = sqrt(2/pi) (x + 0.044715 x^3); g' is largest where g'' = 0, found by bisection in [1, 2].

    g'' = sech^2(u) (u' + x u'' / 2 - x u'^2 tanh u). At 1.4185, above the exact GELU's slope: that constant is unsound here.
    """
    a, c = math.sqrt(2 / math.pi), 0.044715
    low, high = 1.0, 2.0
    for _ in range(60):
        x = (low + high) / 2
        u, first, second = a * (x + c * x**3), a * (1 + 3 * c * x * x), 6 * a * c * x
        falling = first + x * second / 2 - x * first * first * math.tanh(u) < 0
        low, high = (low, x) if falling else (x, high)
    u, first = a * (low + c * low**3), a * (1 + 3 * c * low * low)
    slope = (1 + math.tanh(u)) / 2 + low * first / (2 * math.cosh(u) ** 2)
    return Slope(1 - slope, slope)


def _quick_gelu_slope() -> Slope:
    """g = x sigmoid(a x): g'(x) = h'(a x), h = u sigmoid(u); h'' = 0 iff v tanh v = 1 (v = u / 2), there h' = (1 + v) / 2.

    The factor 1.702 scales x only, so the slope is that of SiLU: v = 1.19967864.., largest slope 1.0998393201288669.
    """
    v = 1.2
    for _ in range(20):
        v -= (v * math.tanh(v) - 1) / (math.tanh(v) + v / math.cosh(v) ** 2)
    return Slope(1 - (1 + v) / 2, (1 + v) / 2)


SLOPES = {"gelu": _gelu_slope(), "gelu_tanh": _tanh_gelu_slope(), "quick_gelu": _quick_gelu_slope()}


def product_bound(w1: Tensor, w2: Tensor, slope: Slope) -> float:
    """s ||W_2|| ||W_1||, valid for all inputs.

    Args:
        w1: W_1 C, shape (r, D).   w2: shape (D, r).   slope: of the activation in use (`SLOPES`).

    >>> round(product_bound(torch.eye(2), torch.eye(2), SLOPES["gelu"]), 10)
    1.1289041452
    """
    return slope.high * float(spectral_norm(w1, "mlp.fc1")) * float(spectral_norm(w2, "mlp.fc2"))


def centred_bound(w1: Tensor, w2: Tensor, slope: Slope) -> float:
    """||W_2 W_1|| / 2 + (s - 1/2) ||W_2|| ||W_1||, valid for all inputs and never above `product_bound`; shapes as there."""
    spread = (slope.high - 0.5) * float(spectral_norm(w1, "mlp.fc1")) * float(spectral_norm(w2, "mlp.fc2"))
    return float(spectral_norm(w2 @ w1, "mlp")) / 2 + spread


def centred_log_norm_bound(w1: Tensor, w2: Tensor, slope: Slope) -> float:
    """mu(W_2 W_1) / 2 + (s - 1/2) ||W_2|| ||W_1||, an upper bound of J_F's logarithmic norm everywhere; may be negative."""
    product = (w2 @ w1).detach().to("cpu", torch.float64)
    spread = (slope.high - 0.5) * float(spectral_norm(w1, "mlp.fc1")) * float(spectral_norm(w2, "mlp.fc2"))
    return float(torch.linalg.eigvalsh((product + product.T) / 2)[-1]) / 2 + spread


def slopes_at(act, z: Tensor) -> Tensor:
    """g'(z) of the activation in use, shape of z."""
    with torch.enable_grad():
        at = z.detach().requires_grad_()
        return torch.autograd.grad(act(at).sum(), at)[0]


def token_norms(w1: Tensor, w2: Tensor, slopes: Tensor, inner: Tensor | None = None) -> Tensor:
    """The exact norm of W_2 diag(g'(z_i)) W_1 J_i of every token, by D x D singular values.

    Args:
        w1: (r, D).   w2: (D, r).   slopes: g'(z), shape (N, r).   inner: Jacobians of the normalisation, (N, D, D), or None.

    Returns:
        Shape (N,). Cost N D^3.
    """
    size = max(1, _CHUNK // max(w1.numel(), w2.shape[0] ** 2))
    found = []
    for start in range(0, len(slopes), size):
        part = slice(start, start + size)
        blocks = (w2 * slopes[part, None, :]) @ w1
        found.append(spectral_norm(blocks if inner is None else blocks @ inner[part], "mlp"))
    return torch.cat(found)


def exact_is_affordable(tokens: int, dim: int) -> bool:
    """Whether the norms of all tokens are worth computing (tokens x D^3 within EXACT_PRODUCTS)."""
    return tokens * dim**3 <= EXACT_PRODUCTS
