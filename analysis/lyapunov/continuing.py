"""Whether a field depends on time, and its grid continued beyond T, the only way to asymptotic exponents.

An autonomous flow can be continued: Phi_{T+s} = Phi_s Phi_T, and Phi_T f(x0) = f(x(T)). Neither holds for a field that depends
on t or changes its block, so such fields are not continued and have no exponent along the flow.
"""

import math

import torch
from torch import Tensor

from odevit.errors import UserError
from odevit.flow import Method, find_method
from odevit.trajectory import TimeGrid

from ..operators import Field

PROBES = (0.0, 0.381966, 0.729)  # shares of [t0, t1] at which a callable without `autonomous` is compared with itself


def is_autonomous(f: Field, x: Tensor, grid: TimeGrid) -> bool:
    """True where f does not depend on t: what the field says of itself, else found by comparing f(t, x) at three times."""
    if getattr(f, "breaks", ()):
        return False
    declared = getattr(f, "autonomous", None)
    if declared is not None:
        return bool(declared)
    with torch.no_grad():
        values = [f(torch.tensor(grid.t0 + p * (grid.t1 - grid.t0), dtype=x.dtype, device=x.device), x) for p in PROBES]
    return all(torch.equal(values[0], v) for v in values[1:])


def continued(f: Field, x: Tensor, grid: TimeGrid, horizon: float | None) -> TimeGrid:
    """The grid with the same step size over [t0, t0 + horizon] (in the direction of the grid); as it is for None.

    Raises UserError where the horizon is no whole number of steps, or reaches beyond T for a field that is not autonomous.
    """
    if horizon is None:
        return grid
    steps = abs(horizon / grid.h)
    if not (math.isfinite(steps) and horizon > 0 and round(steps) >= 1 and abs(steps - round(steps)) < 1e-6 * steps):
        raise UserError(f"horizon: {horizon} is not a positive whole number of steps of {abs(grid.h):g}")
    if round(steps) > grid.steps and not is_autonomous(f, x, grid):
        raise UserError(
            f"horizon: {horizon:g} is beyond T = {abs(grid.t1 - grid.t0):g}, and this field depends on t (blocks or time)"
        )
    return TimeGrid(grid.t0, grid.t0 + round(steps) * grid.h, round(steps))


def along_flow(f: Field, x0: Tensor, x1: Tensor, grid: TimeGrid, batch_dims: int) -> tuple[Tensor, str]:
    """(1/T) log(||f(x(T))|| / ||f(x0)||), the exponent along f, shape (B,) or (); and a note where it is NaN.

    Exact for the ODE, where Phi f(x0) = f(x(T)); of first order in h for a solver's map.
    """
    if not is_autonomous(f, x0, grid):
        return _per_sample(x0, batch_dims).sum(-1) * math.nan, "no exponent along the flow: the field depends on t"
    with torch.no_grad():
        t0, t1 = (torch.tensor(t, dtype=x0.dtype, device=x0.device) for t in (grid.t0, grid.t1))
        first, last = (_per_sample(f(t, x), batch_dims).norm(dim=-1) for t, x in ((t0, x0), (t1, x1)))
    rate = (last / first).log() / abs(grid.t1 - grid.t0)
    still = ~torch.isfinite(rate)
    note = "no exponent along the flow: f vanishes at an end" if bool(still.any()) else ""
    return torch.where(still, torch.full_like(rate, math.nan), rate), note


def _per_sample(x: Tensor, batch_dims: int) -> Tensor:
    return x.reshape(x.shape[0], -1) if batch_dims else x.reshape(-1)


def system_name(grid: TimeGrid, method: str) -> str:
    """The map that exponents belong to, in words."""
    solver: Method = find_method(method)
    if solver.kind == "adaptive":
        return f"the ODE, by {method} over T = {abs(grid.t1 - grid.t0):g}"
    return f"the discrete map: {grid.steps} steps of {method}, h = {grid.h:g}"
