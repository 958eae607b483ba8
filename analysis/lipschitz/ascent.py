"""Measured lower bounds of ||J||: power iteration at a state, gradient ascent of the largest stretch over a ball.

Power iteration v <- J^T J v / |.| has |J v_k| / |v_k| non-decreasing and never above ||J|| = sigma_1. Its derivative with
u = J v / |J v| and v frozen is that of u^T J(x) v (envelope theorem), one double backward pass; steps are projected onto
max_i |x_i| <= R.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..operators import explicit_attention, jacobian

POWER_BUDGET = 200  # products J v and J^T u at one state
ASCENT_BUDGET = 12  # products between two steps of the ascent, started from the last v
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Stretch:
    """The largest ||J v|| / ||v|| found: `value` and `residual` () or (B,), v and u = J v / ||J v|| of the state's shape."""

    value: Tensor
    residual: Tensor
    v: Tensor
    u: Tensor
    products: int


def _norms(x: Tensor, batch_dims: int) -> Tensor:
    """Norm of each sample, shaped so that it divides x."""
    flat = x.flatten(1) if batch_dims else x.reshape(1, -1)
    return flat.norm(dim=1).reshape((-1,) + (1,) * (x.dim() - 1) if batch_dims else (1,) * x.dim())


def largest_stretch(
    f, x: Tensor, t: float = 0.0, *, batch_dims: int = 0, seed: int = 0, budget: int = POWER_BUDGET, start: Tensor | None = None
) -> Stretch:
    """The largest ||J v|| / ||v|| that power iteration on J^T J finds at x: a lower bound of ||J||, monotone in the budget.

    Args:
        f: callable (t, x).   x: a state of any shape, or (B, ...) with batch_dims=1.
        seed: of the start vector, unless `start` is given.   budget: products J v and J^T u in all.

    Cost: 2 field evaluations, then about one for each product.
    """
    operator = jacobian(f, x, t, batch_dims=batch_dims)
    generator = torch.Generator().manual_seed(seed)
    v = torch.randn(x.shape, generator=generator, dtype=operator.dtype).to(x.device) if start is None else start
    v = v / _norms(v, batch_dims).clamp_min(1e-300)
    while True:
        w = operator.matvec(v)
        s = _norms(w, batch_dims)
        z = operator.rmatvec(w)
        residual = _norms(z - s.square() * v, batch_dims) / s.square().clamp_min(1e-300)
        if bool((residual <= TOLERANCE).all()) or operator.products + 2 > budget:
            break
        v = z / _norms(z, batch_dims).clamp_min(1e-300)
    flat = (lambda a: a.flatten()) if batch_dims else (lambda a: a.flatten()[0])
    return Stretch(flat(s), flat(residual), v, w / s.clamp_min(1e-300), operator.products)


def slope_of_stretch(f, x: Tensor, t: float, u: Tensor, v: Tensor) -> Tensor:
    """d/dx of u^T J(t, x) v, of the shape of x; zero where J does not depend on x."""
    with torch.enable_grad(), explicit_attention():
        at = x.detach().requires_grad_()
        (pulled,) = torch.autograd.grad((f(t, at) * u).sum(), at, create_graph=True)
        stretch = (pulled * v).sum()
        return torch.autograd.grad(stretch, at)[0] if stretch.requires_grad else torch.zeros_like(x)


def into_ball(x: Tensor, radius: float) -> Tensor:
    """x with every token (last axis) that is longer than the radius shortened to it."""
    return x * (radius / x.norm(dim=-1, keepdim=True).clamp_min(1e-300)).clamp_max(1.0)


def ascend(
    f, x: Tensor, radius: float, t: float = 0.0, *, batch_dims: int = 0, seed: int = 0, steps: int = 20
) -> tuple[Tensor, Tensor]:
    """Projected gradient ascent of the largest stretch in the ball: (best values, () or (B,); the states that have them).

    A value is what power iteration found at a state of the ball, so a lower bound of the supremum over it and no more: on the
    worst cases known for dot-product attention ascent is seen to get stuck.

    Args:
        x: start states, moved into the ball.   radius: of max_i |x_i|, tokens along the last axis.

    Cost: about (15 + ASCENT_BUDGET) field evaluations a step.
    """
    best_x = into_ball(x.detach(), radius)
    best = largest_stretch(f, best_x, t, batch_dims=batch_dims, seed=seed)
    value, u, v = best.value, best.u, best.v
    length = 0.3 * radius * torch.ones_like(value) * (x[..., 0].numel() / value.numel()) ** 0.5
    for _ in range(steps):
        slope = slope_of_stretch(f, best_x, t, u, v)
        size = _norms(slope, batch_dims)
        if not bool((size > 0).any()):
            break
        moved = into_ball(best_x + length.reshape(size.shape) * slope / size.clamp_min(1e-300), radius)
        tried = largest_stretch(f, moved, t, batch_dims=batch_dims, budget=ASCENT_BUDGET, start=v)
        better = tried.value > value
        length = torch.where(better, length * 1.2, length / 2)
        value, keep = torch.maximum(value, tried.value), better.reshape(size.shape)
        best_x, u, v = moved.where(keep, best_x), tried.u.where(keep, u), tried.v.where(keep, v)
    return value, best_x
