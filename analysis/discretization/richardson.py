"""Observed order of a solver: does the net, at its step size, behave like an ODE at all?

p_obs = log2(||x_h - x_{h/2}|| / ||x_{h/2} - x_{h/4}||) -> p as h -> 0, and ||x_{h/2} - x|| = ||x_h - x_{h/2}|| / (2^p - 1) to
leading order (Richardson 1911; Roache 1998). Where p_obs is far from p, h is too large for the
ODE's theory to speak about the net.
"""

import torch
from torch import Tensor

from odevit.errors import UserError
from odevit.flow import find_method, integrate
from odevit.trajectory import TimeGrid

from ..operators import Field, check_finite, prepared, provenance
from ..reports import OrderReport

REGIME = 0.3  # distance of the observed from the expected order up to which the step is in the ODE's regime


def observed_order(f: Field, x0: Tensor, grid: TimeGrid, method: str = "euler", *, batch_dims: int = 0) -> OrderReport:
    """Order by solves with h, h/2 and h/4, and the error of x_{h/2} that follows.

    Args:
        f: callable (t, x) -> dx/dt; with parts attention_part, mlp_part for a splitting.
        x0: state of any shape, or (B, ...) with batch_dims=1.
        grid: [t0, t1] and the coarsest number of steps.
        method: fixed-step method or splitting.

    Returns:
        OrderReport.

    Raises:
        UserError: an adaptive method, which has no step size to halve. NonFiniteError: a solve that blows up.

    Cost: 7 times the field evaluations of one solve.
    """
    solver = find_method(method)
    if solver.kind == "adaptive":
        raise UserError(f"method: {method!r} chooses its own steps; the observed order needs a fixed step")
    given = f
    f, x0 = prepared(f, x0)
    ends = []
    for factor in (1, 2, 4):
        with torch.no_grad():
            ends.append(integrate(f, x0, TimeGrid(grid.t0, grid.t1, grid.steps * factor, save=1), method).x[-1])
        check_finite("x(t1)", ends[-1], f"with {grid.steps * factor} steps of {method}")
    rows = [e.reshape(x0.shape[0] if batch_dims else 1, -1) for e in ends]
    coarse, fine = (rows[0] - rows[1]).norm(dim=1), (rows[1] - rows[2]).norm(dim=1)
    noise = 1e3 * torch.finfo(x0.dtype).eps * rows[2].norm(dim=1)
    observed = torch.where(fine > noise, torch.log2(coarse / fine), torch.full_like(fine, torch.nan))
    inside = (observed - solver.order).abs() <= REGIME
    error = coarse / (2**solver.order - 1)

    def out(values: Tensor):
        return values.cpu().numpy() if batch_dims else values[0].item()

    return OrderReport(
        method=method, steps=grid.steps, h=grid.h, expected=solver.order, observed=out(observed), difference=out(coarse),
        error=out(error), in_ode_regime=out(inside), verdict=_verdict(observed, inside, solver.order, grid.h),
        provenance=provenance(given, x0),
    )  # fmt: skip


def _verdict(observed: Tensor, inside: Tensor, order: int, h: float) -> str:
    known = observed[~torch.isnan(observed)]
    if not len(known):
        return "the three solves agree to rounding: the method is exact here and shows no order"
    worst = float(known[(known - order).abs().argmax()])
    if bool(inside[~torch.isnan(observed)].all()):
        return f"observed order {worst:.2f} of {order}: at h = {abs(h):g} the net is in the ODE regime"
    return f"observed order {worst:.2f} instead of {order}: at h = {abs(h):g} the net is not in the ODE regime"
