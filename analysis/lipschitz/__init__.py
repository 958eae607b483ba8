"""Lipschitz bounds of a field, lower <= true <= local <= upper, each with its region, norm and reference.

For f = F + G behind a linear normalisation, ||J(x)|| <= L_F + L_G at a state and on the ball max_i |x_i| <= R. Dot-product
attention is not globally Lipschitz (Kim et al. 2020, 2006.04710), so its bounds carry R; softmax's 1/2 is a constant of
softmax, not of f.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from odevit.errors import UserError
from odevit.field import Block, Piece, VectorField

from ..operators import as_float64, check_finite, prepared, provenance
from ..reports.bounds import LipschitzReport
from ..spectra.influence import block_influence, closed_block
from . import block_bounds as bounds
from .ascent import Stretch, ascend, largest_stretch
from .catalogue import describe, least
from .flow_bounds import flow_bound
from .softmax_norms import softmax_gap, softmax_norm

__all__ = ["flow_bound", "lipschitz", "local_bound", "softmax_gap", "softmax_norm"]

STARTS = 4  # states from which the ascent starts
INFLUENCE_PRODUCTS = 2e9  # N^2 D^3 above which the norms of all N^2 blocks of J take too long for a default


def lipschitz(
    field: Callable, x: Tensor | None = None, radius: float | None = None, *,
    t: float = 0.0, seed: int = 0, tokens: int | None = None, ascent_steps: int = 20,
) -> LipschitzReport:  # fmt: skip
    """Bounds of the spectral norm of df/dx at given states and on a ball, from below and above.

    Args:
        field: a VectorField or a piece of one (its block at time t is bounded), or any callable (t, x), of which no upper bound
            is known: local = upper = infinity.
        x: states (N, D) or (B, N, D) of a field; one state of any shape of a callable. None: only the ball.
        radius: R of the ball max_i |x_i| <= R, tokens along the last axis; None: the largest token of x.
        t: time.   seed: of start vectors.   tokens: N, where x is None.   ascent_steps: steps of gradient ascent, 0 for none.

    Returns:
        LipschitzReport; lower and local are floats for one state (N, D), arrays (B,) for (B, N, D), NaN without states.
        ascent <= upper, but it may exceed local, which belongs to the given states.

    Raises:
        UserError: neither states nor radius and tokens; states outside the ball.
        NonFiniteError: a weight, a state or the field is not finite; the message names it.

    Cost: up to 200 field evaluations at each state for `lower`, 30 x ascent_steps for `ascent`; SVDs of the weights; for
    each state and head O(N^2 d + N d^2 (N + d)), and singular values of D x D, N of them up to `mlp_bounds.EXACT_PRODUCTS` and
    N^2 up to `INFLUENCE_PRODUCTS`; beyond, these two bounds are left out.
    """
    block, shift, f = _structure(field, t)
    f, states = _states(f, block, x)
    radius, tokens = _region(states, radius, tokens)
    measured = None if states is None else largest_stretch(f, states, t, batch_dims=int(block is not None), seed=seed)
    values = {} if block is None else _bounds(f, block, states, radius, tokens, shift, t)
    local, upper = _whole(block, values, states is not None)
    nan = np.full(len(local), np.nan)
    lower, residual = (nan, nan) if measured is None else (_ordered(_array(measured.value), local), _array(measured.residual))
    starts = _starts(block, states, measured, radius, tokens, seed)
    ascent = (
        ascend(f, starts, radius, t, batch_dims=int(block is not None), seed=seed, steps=ascent_steps) if ascent_steps else None
    )
    highest = float("nan") if ascent is None else float(_ordered(_array(ascent[0].max()), np.array([upper]))[0])
    values |= {"lower": lower, "local": local, "upper": np.full_like(nan, upper), "ascent": np.full_like(nan, highest)}
    layered = block is not None and bounds.has_layer_norm(block)
    out = (lambda a: a) if block is not None and x is not None and x.dim() == 3 else (lambda a: float(a[0]))
    return LipschitzReport(
        lower=out(lower), local=out(local), residual=out(residual), upper=upper, ascent=highest, radius=radius, t=float(t),
        products=measured.products if measured else 0, vacuous=layered or not np.isfinite(upper),
        provenance=provenance(f.field if isinstance(f, Piece) else f, starts, seed), **describe(values, radius, layered),
    )  # fmt: skip


def local_bound(field: Callable, x: Tensor, t: float = 0.0) -> np.ndarray:
    """`local` of `lipschitz` alone, (B,): the proven bound of ||J|| at states x (B, N, D) of a field; no field evaluation."""
    block, shift, f = _structure(field, t)
    f, states = _states(f, block, x)
    if block is None or states is None:
        return np.array([np.inf])
    radius, tokens = _region(states, None, None)
    return _whole(block, _bounds(f, block, states, radius, tokens, shift, t), True)[0]


def _array(values: Tensor) -> np.ndarray:
    return values.detach().cpu().numpy().reshape(-1)


def _ordered(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """`low`, lowered to `high` where the two are one number but for rounding, so that equality never reads as a violation."""
    return np.where(low <= high * (1 + 1e-12), np.minimum(low, high), low)


def _structure(field, t: float) -> tuple[Block | None, bounds.Shift, Callable]:
    """(the float64 block that acts at t or None, its shift, the float64 callable)."""
    whole = field.field if isinstance(field, Piece) else field
    if not isinstance(whole, VectorField):
        return None, bounds.Shift(), field
    double = as_float64(whole)
    index = [b is field.block for b in whole.blocks].index(True) if isinstance(field, Piece) else whole.index_at(t)
    weight = double.time_weight
    pairs = None if weight is None else torch.stack(weight.chunk(2), 1)  # (M, 2, D): sine and cosine rows
    return double.blocks[index], bounds.Shift(double.shift(t), pairs), Piece(double, index)


def _states(f: Callable, block: Block | None, x: Tensor | None) -> tuple[Callable, Tensor | None]:
    """(f, states): (B, N, D) in float64 for a block, the state as it is for a callable, None without."""
    if block is None:
        if x is None:
            raise UserError("lipschitz: no bound is known of a plain callable; give a state x at which to measure it")
        return prepared(f, x)
    if x is None:
        return f, None
    width = block.mlp.fc1.in_features
    if x.dim() not in (2, 3) or x.shape[-1] != width:
        raise UserError(f"state x: shape {tuple(x.shape)}; this field takes (N, {width}) or (B, N, {width})")
    double = x.detach().to(torch.float64)
    return f, double if x.dim() == 3 else double[None]


def _region(states: Tensor | None, radius: float | None, tokens: int | None) -> tuple[float, int]:
    """(R, N), checked."""
    if radius is not None and not 0 <= radius < float("inf"):
        raise UserError(f"radius: {radius} must be a finite number, 0 or more")
    if states is None:
        if radius is None or not tokens:
            raise UserError("lipschitz: give states x, or radius and tokens (the number of tokens N) of the ball")
        return float(radius), tokens
    check_finite("state x", states)
    seen = float(states.norm(dim=-1).max())
    if radius is not None and seen > radius * (1 + 1e-9):
        raise UserError(f"radius: {radius:g} is smaller than the largest token of the given states, {seen:g}")
    return seen if radius is None else float(radius), states.shape[-2] if states.dim() > 1 else 1


def _bounds(
    f: Callable, block: Block, states: Tensor | None, radius: float, tokens: int, shift: bounds.Shift, t: float
) -> dict[str, np.ndarray]:
    """Every bound by name: those of the two branches, and of J by the norms of its blocks where that is cheap."""
    values = _branches(block, states, radius, tokens, shift)
    if states is not None and closed_block(f, t) is not None and tokens**2 * states.shape[-1] ** 3 <= INFLUENCE_PRODUCTS:
        values["J block influence"] = np.asarray(block_influence(f, states, t, batch_dims=1).bound)
    return values


def _branches(block: Block, states: Tensor | None, radius: float, tokens: int, shift: bounds.Shift) -> dict[str, np.ndarray]:
    """Every bound of the two branches by name, each over the states."""
    count = 1 if states is None else len(states)
    ball = (
        bounds.mlp_everywhere(block)
        | bounds.attention_on_ball(block, tokens, radius, shift)
        | bounds.attention_inf(block, tokens)
    )
    rows = []
    with torch.no_grad():
        for x in () if states is None else states:
            seen = x + block.attention_part(x, shift.now) if block.sequential else x
            rows.append(bounds.mlp_local(block, seen, shift.now) | bounds.attention_local(block, x, shift.now))
    at_states = {name: np.array([row[name] for row in rows]) for name in (rows[0] if rows else ())}
    return at_states | {name: np.full(count, value) for name, value in ball.items()}


def _whole(block: Block | None, values: dict[str, np.ndarray], stated: bool) -> tuple[np.ndarray, float]:
    """(local over the states, upper) of the whole field from the smallest valid bounds of its branches."""
    if block is None:
        return np.array([np.inf if stated else np.nan]), float("inf")
    upper = float(bounds.combine(block, least(values, "F", local=False), least(values, "G", local=False))[0])
    if not stated:
        return np.array([np.nan]), upper
    local = bounds.combine(block, least(values, "F", local=True), least(values, "G", local=True))
    return np.minimum(np.minimum(local, values.get("J block influence", local)), upper), upper


def _starts(
    block: Block | None, states: Tensor | None, measured: Stretch | None, radius: float, tokens: int, seed: int
) -> Tensor:
    """Where the ascent starts: the most stretching states, or random ones on the sphere without states."""
    if states is not None and measured is not None:
        return states if block is None else states[measured.value.argsort(descending=True)[:STARTS]]
    generator, weight = torch.Generator().manual_seed(seed), block.mlp.fc1.weight  # type: ignore[union-attr]
    drawn = torch.randn(STARTS, tokens, weight.shape[1], generator=generator, dtype=torch.float64).to(weight.device)
    return radius * drawn / drawn.norm(dim=-1, keepdim=True)
