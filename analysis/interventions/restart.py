"""Restart the flow in the middle: the state at a step of the grid, and what follows from it, with any state or field.

x(t) -> x(T) by the model's own method on the rest of its own grid; both the factual and the changed path are restarted, so that
a change of nothing has an effect of exactly nothing.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from odevit.backbone import Backbone
from odevit.errors import UserError
from odevit.flow import integrate
from odevit.trajectory import TimeGrid, Trajectory

from ..operators import as_float64, check_finite


@dataclass(frozen=True, eq=False)
class Moment:
    """A model's state at time t and the rest of its grid.

    Attributes:
        model: float64 copy.   t: a step of its grid.   x: (B, N, D).   rest: grid from t to T, None at T.
    """

    model: Backbone
    t: float
    x: Tensor
    rest: TimeGrid | None

    @property
    def times(self) -> tuple[float, ...]:
        """Times of the states that `solve` returns, from t to T."""
        return (self.t,) if self.rest is None else self.rest.times

    def solve(self, x: Tensor, field=None) -> Tensor:
        """States (K, B, N, D) from x (B, N, D) at t to T, by the model's field or another one."""
        if self.rest is None:
            return x[None]
        solver = self.model.solver
        return integrate(field or self.model.field, x, self.rest, solver.method, rtol=solver.rtol, atol=solver.atol).x

    def logits(self, x: Tensor, field=None) -> Tensor:
        """Logits (B, C) that follow from x (B, N, D) at t."""
        return self.model.readout(self.solve(x, field)[-1])

    @cached_property
    def margin_gradient(self) -> Tensor:
        """Gradient (B, N, D) of z_a - z_b with respect to the state at t; a, b: the first two classes of the factual logits."""
        with torch.enable_grad():
            x = self.x.detach().requires_grad_(True)
            logits = self.logits(x)
            first, second = logits.topk(2, dim=-1).indices.unbind(-1)
            margin = logits.gather(-1, first[:, None]) - logits.gather(-1, second[:, None])
            (gradient,) = torch.autograd.grad(margin.sum(), x)
        return gradient


def step_index(grid: TimeGrid, t: float) -> int:
    """Which step of the grid begins at t; raises UserError with the nearest one where none does."""
    k = min(range(grid.steps + 1), key=lambda i: abs(grid.times[i] - t))
    if not abs(grid.times[k] - t) <= grid.tolerance:
        raise UserError(f"t: {t:g} is not a step of the grid; the nearest is {grid.times[k]:g} (h = {grid.h:g})")
    return k


def moment(model, trajectory: Trajectory, t: float) -> Moment:
    """The moment t of a trajectory that has every step of model.grid saved.

    Args:
        model: float64 model, see `factual`.

    Raises UserError for a t that is not a step of the grid.
    """
    grid = model.grid
    k = step_index(grid, t)
    rest = TimeGrid(grid.times[k], grid.t1, grid.steps - k) if k < grid.steps else None
    return Moment(model, grid.times[k], trajectory.x[k], rest)


def factual(model, images: Tensor) -> tuple[Backbone, Tensor, Trajectory]:
    """(float64 model, images in float64 on its device, factual trajectory with every step saved).

    Raises UserError for what is not a model with tokenizer, field and readout, NonFiniteError for NaN images or weights.
    """
    if not isinstance(model, Backbone):
        raise UserError(f"model: interventions need tokenizer, field and readout; a {type(model).__name__} has not all of them")
    model = as_float64(model)
    images = images.to(next(model.parameters()))
    check_finite("images", images)
    with torch.no_grad():
        trajectory = model.trajectory(images)
    check_finite("trajectory", trajectory.x)
    return model, images, trajectory
