"""Multi-head self-attention y -> G(y) of three kinds, with explicit maps or torch's fused kernel.

Per head (d = D / H, rows of y are tokens), P = row-wise softmax of the scores:

* dot:    scores q_i.k_j / sqrt(d),            out_i = sum_j P_ij v_j            (Vaswani et al. 2017)
* l2:     scores -|q_i - q_j|^2 / sqrt(d),     out = P y W_Q W_Q^T W_V / sqrt(d)   (tied, Kim et al. 2020, 2006.04710)
* cosine: scores tau q^_i.k^_j, u^ = u / sqrt(|u|^2 + eps),  out_i = nu sum_j P_ij v^_j   (LipsFormer, 2304.09856)

Softmax subtracts the row maximum, so rows stay stochastic at any distance. Nothing is stored: maps are computed when asked for.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

COSINE_EPS = 1e-3  # the normaliser's Lipschitz constant is eps^-1/2, so this is what makes cosine attention usefully Lipschitz
COSINE_TAU = 10.0


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype | None) -> Tensor:
    """x W^T + b with the product in `dtype` (None: as x is); x (..., in), weight (out, in)."""
    if dtype is None:
        return F.linear(x, weight, bias)
    return F.linear(x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype))


def spectral_init_(weight: Tensor) -> Tensor:
    """Xavier-normal, then divided by the largest singular value of the (out, rest) matrix, in place."""
    nn.init.xavier_normal_(weight)
    with torch.no_grad():
        return weight.div_(torch.linalg.matrix_norm(weight.flatten(1).double(), ord=2).to(weight.dtype))


def unit(u: Tensor) -> Tensor:
    """u / sqrt(|u|^2 + eps) along the last axis."""
    return u * torch.rsqrt(u.square().sum(-1, keepdim=True) + COSINE_EPS)


class SelfAttention(nn.Module):
    """Self-attention on normalised tokens y, shape (..., N, D).

    Attributes:
        q, k, v, proj: linear maps D -> D, heads are consecutive slices of d rows; k is None for l2, which ties it to q.
        tau, nu: learned temperature and output scale of the cosine kind, else None.
        fused: use torch's fused kernel for the dot product; it has no forward-mode derivative, so analyses leave it off.
    """

    def __init__(self, dim: int, num_heads: int, kind: str = "dot", bias: bool = False):
        super().__init__()
        self.num_heads, self.head_dim, self.kind, self.fused = num_heads, dim // num_heads, kind, False
        self.q = nn.Linear(dim, dim, bias=bias)
        self.k = None if kind == "l2" else nn.Linear(dim, dim, bias=bias)
        self.v = nn.Linear(dim, dim, bias=bias and kind != "l2")
        self.proj = nn.Linear(dim, dim, bias=bias)
        self.tau = nn.Parameter(torch.tensor(COSINE_TAU)) if kind == "cosine" else None
        self.nu = nn.Parameter(torch.tensor(1.0)) if kind == "cosine" else None
        for layer in (self.q, self.k, self.v, self.proj):
            if layer is not None:
                spectral_init_(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def stacked(self) -> tuple[Tensor, Tensor | None]:
        """The maps that act on y, one below the other, with constant factors folded in: weight (n D, D) and bias (n D) or None.

        dot: [W_q / sqrt(d); W_k; W_v], cosine: [W_q; W_k; W_v], l2: [W_q; W_v W_q^T W_q / sqrt(d)] per head.
        """
        if self.k is None:
            value, shift = self._tied_value()
            weights, biases = [self.q.weight, value], [self.q.bias, shift]
        else:
            scale = 1 / math.sqrt(self.head_dim) if self.kind == "dot" else 1.0
            weights = [self.q.weight * scale, self.k.weight, self.v.weight]
            biases = [None if self.q.bias is None else self.q.bias * scale, self.k.bias, self.v.bias]
        if biases[0] is None:
            return torch.cat(weights), None
        return torch.cat(weights), torch.cat([b for b in biases if b is not None])

    def _tied_value(self) -> tuple[Tensor, Tensor | None]:
        """W_v W_q^T W_q / sqrt(d) per head, stacked (D, D), and what it makes of q's bias."""
        heads, d = self.num_heads, self.head_dim
        q = self.q.weight.unflatten(0, (heads, d))  # (H, d, D)
        mix = self.v.weight.unflatten(0, (heads, d)) @ q.transpose(1, 2) / math.sqrt(d)  # (H, d, d)
        bias = None if self.q.bias is None else (mix @ self.q.bias.view(heads, d, 1)).flatten()
        return (mix @ q).flatten(0, 1), bias

    def split(self, stacked: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v of shape (..., H, N, d) from the product with `stacked()`, (..., N, n D)."""
        parts = stacked.unflatten(-1, (-1, self.num_heads, self.head_dim)).transpose(-4, -2).unbind(-3)
        q, k, v = parts if len(parts) == 3 else (parts[0], parts[0], parts[1])
        return (unit(q), unit(k), unit(v)) if self.kind == "cosine" else (q, k, v)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Scores before the softmax, (..., H, N, N), up to a constant per row."""
        dots = q @ k.transpose(-2, -1)
        if self.kind == "l2":
            return (2 * dots - k.square().sum(-1).unsqueeze(-2)) / math.sqrt(self.head_dim)
        return dots if self.tau is None else self.tau.to(dots.dtype) * dots

    def mix(self, stacked: Tensor) -> tuple[Tensor, Tensor]:
        """Heads side by side, (..., N, D), before the output projection, and the maps (..., H, N, N)."""
        q, k, v = self.split(stacked)
        maps = self.scores(q, k).softmax(-1)
        return self.joined(maps @ v), maps

    def joined(self, heads: Tensor) -> Tensor:
        """(..., H, N, d) as (..., N, D), scaled by nu where there is one."""
        if self.nu is not None:
            heads = heads * self.nu.to(heads.dtype)
        return heads.transpose(-3, -2).flatten(-2)

    def heads(self, stacked: Tensor) -> Tensor:
        """As `mix` without the maps, by the fused kernel where that is on."""
        if not (self.fused and self.kind == "dot"):
            return self.mix(stacked)[0]
        q, k, v = self.split(stacked)
        return self.joined(F.scaled_dot_product_attention(q, k, v, scale=1.0))

    def forward(self, y: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """G(y), shape (..., N, D); products in `dtype`."""
        return linear(self.heads(linear(y, *self.stacked(), dtype)), self.proj.weight, self.proj.bias, dtype)

    def maps(self, y: Tensor) -> Tensor:
        """The attention maps P, (..., H, N, N): row = query, rows sum to 1."""
        q, k, _ = self.split(F.linear(y, *self.stacked()))
        return self.scores(q, k).softmax(-1)
