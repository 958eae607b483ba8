"""How far tokens can get: an a-priori growth bound of the field, from its weights alone.

With r(t) = max_i |x_i(t)|, attention rows that are convex combinations and |g(z)| <= |z| (true of the exact GELU, of its tanh
form and of z sigmoid(1.702 z): each is z times a number in [0, 1]),

    D+ r <= a r + b,   a = ||W_2|| ||W_1 C|| + sum_h ||W_o^h W_v^h C||,   b from the biases,

so that r(t) <= e^{at} r(0) + b (e^{at} - 1) / a: no blow-up in finite time, although dot-product attention is not globally
Lipschitz. Behind LayerNorm (|y| <= max|gamma| sqrt(D)) and for cosine attention (unit values) a branch is bounded: a = 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from odevit.field import Block, VectorField

from ..lipschitz.block_bounds import Shift, mlp_weights
from ..lipschitz.heads import Heads, read_heads
from ..lipschitz.matrix_norms import norm_offset, spectral_norm
from ..operators import as_float64


@dataclass(frozen=True)
class Growth:
    """D+ r <= a r + b of the largest token norm r, everywhere and at all times; also |f_i(t, x)| <= a max_j |x_j| + b.

    >>> Growth(0.0, 2.0).after(1.0, 3.0), Growth(0.0, 2.0).step(1.0, 0.5)
    (7.0, 2.0)
    """

    a: float
    b: float

    def after(self, radius: float, duration: float) -> float:
        """Bound of r after `duration` from r = radius: e^{at} r + b (e^{at} - 1) / a; inf where that overflows."""
        exponent = self.a * duration
        if exponent > 700:
            return math.inf
        return radius * math.exp(exponent) + self.b * (math.expm1(exponent) / self.a if self.a > 0 else duration)

    def step(self, radius: float, h: float) -> float:
        """Bound of r after one Euler step, (1 + h a) r + h b; never above `after`."""
        return radius + h * (self.a * radius + self.b)


def growth_constants(field: VectorField) -> tuple[Growth, ...]:
    """The growth constants of every block of a field, in the order in which they act; they hold for all t of a block.

    Cost: singular values of the weights, no field evaluation.
    """
    double = as_float64(field)
    weight = double.time_weight
    pairs = None if weight is None else torch.stack(weight.chunk(2), 1)
    with torch.no_grad():
        return tuple(block_growth(block, Shift(None, pairs)) for block in double.blocks)


def block_growth(block: Block, shift: Shift) -> Growth:
    """Growth constants of one block: G + F, or of a sequential layer G(x) + F(x + G(x))."""
    mlp, attention = _mlp_growth(block, shift), _attention_growth(block, shift)
    if not block.sequential:
        return Growth(mlp.a + attention.a, mlp.b + attention.b)
    return Growth(attention.a + mlp.a * (1 + attention.a), attention.b + mlp.a * attention.b + mlp.b)


def reach(growth: Sequence[Growth], radius: float, times: Sequence[float], *, steps: bool) -> list[float]:
    """Bound of r at each time, from r(times[0]) = radius; block i acts on the i-th equal part of [times[0], times[-1]].

    Args:
        growth: constants of the blocks.   times: ascending, with every change of block among them.
        steps: follow Euler steps from time to time instead of the exact flow (a discrete net, one block a step).
    """
    found = [radius]
    start, span = times[0], times[-1] - times[0]
    for before, now in zip(times, times[1:]):
        share = ((before + now) / 2 - start) / span
        constants = growth[min(int(share * len(growth)), len(growth) - 1)]
        found.append((constants.step if steps else constants.after)(found[-1], now - before))
    return found


def _mlp_growth(block: Block, shift: Shift) -> Growth:
    first, second = mlp_weights(block)
    raw, beta, bias = block.mlp.fc1.weight, norm_offset(block.norm2), block.mlp.fc1.bias
    constant = torch.zeros_like(raw[:, 0]) if beta is None else raw @ beta
    moved = float((constant if bias is None else constant + bias).norm()) + _supremum(raw, shift)
    out = float(spectral_norm(second, "mlp.fc2"))
    rest = out * moved + _output_bias(block.mlp.fc2.bias, block.scale2)
    if isinstance(block.norm2, nn.LayerNorm):
        inner = float(spectral_norm(first * block.norm2.weight, "mlp.fc1"))
        return Growth(0.0, rest + out * inner * math.sqrt(raw.shape[1]))
    return Growth(out * float(spectral_norm(first, "mlp.fc1")), rest)


def _attention_growth(block: Block, shift: Shift) -> Growth:
    heads, plain = read_heads(block), read_heads(block, fold=False)
    rest = _output_bias(block.attn.proj.bias, block.scale1)
    if heads.kind == "cosine":
        return Growth(0.0, rest + heads.nu * float(spectral_norm(heads.out, "attn.proj").sum()))
    rest += float((heads.out @ heads.v_bias[..., None]).norm(dim=1).sum())
    rest += sum(_supremum(value, shift) for value in heads.out @ plain.v)
    if isinstance(block.norm1, nn.LayerNorm):
        return Growth(0.0, rest + _value_norms(heads, block.norm1.weight) * math.sqrt(plain.v.shape[-1]))
    return Growth(_value_norms(heads), rest)


def _value_norms(heads: Heads, gamma: Tensor | None = None) -> float:
    """sum_h ||W_o^h W_v^h diag(gamma)||."""
    maps = heads.v if gamma is None else heads.v * gamma
    return float(spectral_norm(heads.out @ maps, "attn.v, attn.proj").sum())


def _supremum(weight: Tensor, shift: Shift) -> float:
    """A bound of ||weight s(t)|| over all t, s(t) = sum_m a_m sin + b_m cos."""
    return 0.0 if shift.pairs is None else float(spectral_norm(shift.pairs @ weight.T, "time_weight").sum())


def _output_bias(bias: Tensor | None, scale: Tensor | None) -> float:
    if bias is None:
        return 0.0
    return float((bias if scale is None else scale * bias).norm())
