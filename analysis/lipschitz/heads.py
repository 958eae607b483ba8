"""The weights of one attention branch as the bounds need them: per head, in float64, the linear parts around it folded in.

A linear normalisation y = C x + beta belongs to the projections (W_q C x + W_q beta + b_q), LayerScale to the output
projection, so every bound can be taken in the state x itself, with the radius of the state. For LayerNorm C = I: maps act on
y - beta. Of the biases only the query's matters: softmax rows ignore q_i.b_k, covariances and distances ignore constant offsets
of v, and of q in l2.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from odevit.attention import COSINE_EPS, SelfAttention
from odevit.field import Block

from .matrix_norms import norm_matrix, norm_offset, spectral_norm


@dataclass(frozen=True)
class Heads:
    """One attention branch, heads apart; maps act on the input x (folded) or y (not).

    Attributes:
        kind: dot, l2 or cosine.
        q, k, v: (H, d, D); q of dot carries 1/sqrt(d); k is q for l2; v of l2 is the whole tied value map mix @ q.
        mix, value: (H, d, d) and (H, d, D), W_v W_q^T / sqrt(d) and W_v of l2, else None.
        q_bias, k_bias, v_bias: (H, d), offsets of q, k and v.
        out: (H, D, d), slices of LayerScale * W_o.
        tau, nu, eps: tau, |nu| and eps of cosine (1, 1, 0 otherwise).
    """

    kind: str
    q: Tensor
    k: Tensor
    v: Tensor
    mix: Tensor | None
    q_bias: Tensor
    k_bias: Tensor
    v_bias: Tensor
    out: Tensor
    value: Tensor | None = None
    tau: float = 1.0
    nu: float = 1.0
    eps: float = 0.0

    @property
    def dim(self) -> int:
        """Width d of a head."""
        return self.q.shape[1]

    def projected(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v of shape (H, N, d) at tokens x (N, D), before the cosine kind's normaliser."""
        return tuple(  # type: ignore[return-value]
            x @ w.transpose(1, 2) + b[:, None] for w, b in ((self.q, self.q_bias), (self.k, self.k_bias), (self.v, self.v_bias))
        )

    def norms(self, which: str) -> Tensor:
        """Spectral norms of q, k, v, mix or out per head, shape (H,)."""
        return spectral_norm(getattr(self, which), f"attn.{which}")

    def combined(self, per_head: Tensor) -> Tensor:
        """L <= |nu| min{||W_o|| sqrt(sum_h L_h^2), sum_h ||W_o^h|| L_h} from bounds L_h of the heads, (..., H) -> (...)."""
        whole = spectral_norm(torch.cat(list(self.out), 1), "attn.proj")
        together = whole * per_head.square().sum(-1).sqrt()
        return self.nu * torch.minimum(together, (per_head * self.norms("out")).sum(-1))


def read_heads(block: Block, offset: Tensor | None = None, *, fold: bool = True) -> Heads:
    """The attention branch of a float64 block.

    Args:
        offset: added to the normalised tokens (the field's time shift), (D,), or None.
        fold: take the normalisation's linear part and offsets into weights and biases, so that maps act on the state x
        (LayerNorm:
            on y - beta); else they act on y.
    """
    attn: SelfAttention = block.attn
    heads = attn.num_heads
    stacked, bias = attn.stacked()
    stacked = stacked.detach()
    bias = torch.zeros_like(stacked[:, 0]) if bias is None else bias.detach()
    if fold:
        shift = torch.zeros_like(stacked[0]) if offset is None else offset.detach()
        beta = norm_offset(block.norm1)
        bias = bias + stacked @ (shift if beta is None else shift + beta)
        if not isinstance(block.norm1, nn.LayerNorm):
            stacked = stacked @ norm_matrix(block.norm1, stacked)
    maps = stacked.unflatten(0, (-1, heads, attn.head_dim))
    biases = bias.unflatten(0, (-1, heads, attn.head_dim))
    q, k, v = (maps[0], maps[0], maps[1]) if len(maps) == 2 else maps
    qb, kb, vb = (biases[0], biases[0], biases[1]) if len(maps) == 2 else biases
    proj = attn.proj.weight.detach()
    if block.scale1 is not None:
        proj = block.scale1.detach()[:, None] * proj
    out = proj.unflatten(1, (heads, attn.head_dim)).movedim(1, 0)
    cosine = attn.tau is not None and attn.nu is not None
    scales = (float(attn.tau), abs(float(attn.nu)), COSINE_EPS) if cosine else (1.0, 1.0, 0.0)  # type: ignore[arg-type]
    value = attn.v.weight.detach().unflatten(0, (heads, attn.head_dim)) if attn.kind == "l2" else None
    return Heads(attn.kind, q, k, v, _mix(attn), qb, kb, vb, out, value, *scales)


def _mix(attn: SelfAttention) -> Tensor | None:
    """W_v W_q^T / sqrt(d) per head, (H, d, d), of the tied kind."""
    if attn.kind != "l2":
        return None
    q, v = (layer.weight.detach().unflatten(0, (attn.num_heads, attn.head_dim)) for layer in (attn.q, attn.v))
    return v @ q.transpose(1, 2) / math.sqrt(attn.head_dim)
