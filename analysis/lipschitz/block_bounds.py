"""All bounds of one block by name: at a state (per input) and on a ball, the published forms beside the ones derived here.

Parallel block: L <= L_F + L_G. Sequential layer of a ViT, velocity G(x) + F(x + G(x)): L <= L_G + L_F (1 + L_G). Published
forms live after the normalisation: L(R_y) ||C|| with R_y = ||C|| R + ||beta(t)||; ours take C into the weights and the
radius R of the state.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from odevit.field import Block, CenterNorm

from . import ball_bounds as ball
from . import mlp_bounds as mlp
from .attention_bounds import attention_map_bounds, block_norm_bound
from .heads import read_heads
from .matrix_norms import layer_norm_global, layer_norm_jacobians, layer_norm_norms, norm_matrix, norm_offset, spectral_norm

Values = dict[str, float]


@dataclass(frozen=True)
class Shift:
    """What the field adds to the normalised tokens.

    now: at time t, (D,), or None.   pairs: its sine and cosine rows, (M, 2, D), or None.
    """

    now: Tensor | None = None
    pairs: Tensor | None = None

    def supremum(self) -> float:
        """A bound of ||shift(t)|| over all t: the sum of the spectral norms of the pairs."""
        return 0.0 if self.pairs is None else float(spectral_norm(self.pairs, "time_weight").sum())


def mlp_weights(block: Block) -> tuple[Tensor, Tensor]:
    """(W_1 C, LayerScale W_2) of the MLP branch; C = I for LayerNorm."""
    w1, w2 = block.mlp.fc1.weight.detach(), block.mlp.fc2.weight.detach()
    if isinstance(block.norm2, CenterNorm):
        w1 = w1 @ norm_matrix(block.norm2, w1)
    return w1, w2 if block.scale2 is None else block.scale2.detach()[:, None] * w2


def mlp_everywhere(block: Block) -> Values:
    """Bounds of the MLP branch that hold everywhere; for LayerNorm times its global constant."""
    w1, w2 = mlp_weights(block)
    slope = mlp.SLOPES[block.mlp.activation]
    scale = layer_norm_global(block.norm2) if isinstance(block.norm2, nn.LayerNorm) else 1.0
    values = {"F product": scale * mlp.product_bound(w1, w2, slope), "F centred": scale * mlp.centred_bound(w1, w2, slope)}
    if not isinstance(block.norm2, nn.LayerNorm):
        values["F logarithmic norm"] = mlp.centred_log_norm_bound(w1, w2, slope)
    return values


def mlp_local(block: Block, x: Tensor, shift: Tensor | None) -> Values:
    """Bounds of ||J_F|| at one state x (N, D) that the MLP branch sees."""
    w1, w2 = mlp_weights(block)
    layer = block.norm2 if isinstance(block.norm2, nn.LayerNorm) else None
    values = {}
    if layer is not None:
        largest = float(layer_norm_norms(layer, x).max())
        values["F centred, LayerNorm at the state"] = largest * mlp.centred_bound(w1, w2, mlp.SLOPES[block.mlp.activation])
    if mlp.exact_is_affordable(*x.shape):
        y = block.norm2(x) if shift is None else block.norm2(x) + shift
        slopes = mlp.slopes_at(block.mlp.act, block.mlp.fc1(y))
        inner = None if layer is None else layer_norm_jacobians(layer, x)
        values["F exact per token"] = float(mlp.token_norms(w1, w2, slopes, inner).max())
    return values


def attention_local(block: Block, x: Tensor, shift: Tensor | None) -> Values:
    """Bounds of ||J_G|| at one state x (N, D)."""
    heads, norms, inner = read_heads(block, shift), None, x
    if isinstance(block.norm1, nn.LayerNorm):
        norms, beta = layer_norm_norms(block.norm1, x), norm_offset(block.norm1)
        inner = block.norm1(x) if beta is None else block.norm1(x) - beta
    values = {"G block norm": float(heads.combined(block_norm_bound(heads, inner, norms)))}
    if heads.kind == "dot":
        scale = 1.0 if norms is None else float(norms.max())
        for form, bound in attention_map_bounds(heads, inner, scale).items():
            values[f"G attention map, {form}"] = float(heads.combined(bound))
    return values


@dataclass(frozen=True)
class Frame:
    """What stands before the projections on the ball: norms and radii seen from x (ours) and from y (published forms).

    outer: norm of dy/dx, for bounds in y.   inner: what is left of it when its linear part is in the weights (1, or
    LayerNorm's).
    radius: of what the folded maps act on.   radius_y: of y, for all times.
    """

    outer: float
    inner: float
    radius: float
    radius_y: float


def frame(norm: nn.Module, like: Tensor, radius: float, shift: Shift) -> Frame:
    """The frame of a normalisation on max_i |x_i| <= radius; LayerNorm puts out a ball of its own, max|gamma| sqrt D."""
    beta = norm_offset(norm)
    offsets = (0.0 if beta is None else float(beta.norm())) + shift.supremum()
    if isinstance(norm, nn.LayerNorm):
        inside, vacuous = float(norm.weight.detach().abs().max()) * like.shape[-1] ** 0.5, layer_norm_global(norm)
        return Frame(vacuous, vacuous, inside, inside + offsets)
    c = float(spectral_norm(norm_matrix(norm, like), "norm1.gamma"))
    return Frame(c, 1.0, radius, c * radius + offsets)


def attention_on_ball(block: Block, tokens: int, radius: float, shift: Shift) -> Values:
    """Bounds of the attention branch on max_i |x_i| <= radius, for all times of the shift."""
    plain, folded = read_heads(block, fold=False), read_heads(block)
    seen = frame(block.norm1, plain.q, radius, shift)
    c, n = seen.outer, tokens
    if plain.kind == "l2":
        forms = {"G Kim et al.": c * ball.kim_two(plain, n), "G tied L2, sharper": seen.inner * ball.l2_sharp(folded, n)}
    elif plain.kind == "cosine":
        forms = {
            "G LipsFormer": c * ball.lipsformer(plain, n),
            "G LipsFormer, refined": c * ball.lipsformer(plain, n, refined=True),
            "G cosine, sharper": seen.inner * ball.cosine_sharp(folded, n),
        }
    else:
        moving = None if shift.pairs is None else torch.einsum("mpi,hdi->mhpd", shift.pairs, plain.q)
        ours = ball.dot_ball(folded, n, seen.radius, ball.query_offsets(folded, moving))
        forms = {"G ball": c * ball.dot_ball(plain, n, seen.radius_y), "G ball, norm folded": seen.inner * ours}
        if not bool(plain.q_bias.any()):
            forms["G Castin et al."] = c * ball.castin(plain, n, seen.radius_y)
    return {name: float(plain.combined(value)) for name, value in forms.items()}


def attention_inf(block: Block, tokens: int) -> Values:
    """Kim et al.'s bound of tied L2 attention in the infinity norm, everywhere; empty for other kinds and for LayerNorm."""
    if block.attn.kind != "l2" or isinstance(block.norm1, nn.LayerNorm):
        return {}
    heads = read_heads(block, fold=False)
    c = float(norm_matrix(block.norm1, heads.q).abs().sum(1).max())
    return {"G Kim et al., infinity norm": c * ball.kim_inf(heads, tokens)}


def combine(block: Block, mlp_bound: np.ndarray, attention_bound: np.ndarray) -> np.ndarray:
    """L_F + L_G of a parallel block, L_G + L_F (1 + L_G) of a sequential one, over the states."""
    return attention_bound + mlp_bound * (1 + attention_bound if block.sequential else 1.0)


def has_layer_norm(block: Block) -> bool:
    """Whether a LayerNorm stands before a branch, so that bounds beyond the states are vacuous."""
    return any(isinstance(norm, nn.LayerNorm) for norm in (block.norm1, block.norm2))
