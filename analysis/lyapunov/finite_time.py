"""Finite-time Lyapunov exponents: growth rates of the flow's own most expanding directions over [0, T].

lambda_i(T) = (1/T) log sigma_i(Phi),  Phi = dx(T)/dx(0)   (Oseledets 1968; Shadden et al. 2005). Positive = expansion.
Phi is the exact derivative of the solver's map, so the exponents are those of the net as it is computed; those of the ODE need
a fine or adaptive solve (`net_and_ode`). CenterNorm's structural zeros are no values of Phi: nothing is projected out here.
"""

import numpy as np
import torch
from torch import Tensor

from odevit.trajectory import TimeGrid

from ..operators import Field, Jacobian, flow_jacobian, prepared, provenance
from ..reports import LyapunovReport
from ..spectra import singular_triplets
from .continuing import along_flow, continued, system_name
from .dimension import kaplan_yorke


def finite_time_exponents(
    f: Field,
    x0: Tensor,
    grid: TimeGrid,
    method: str = "euler",
    k: int = 1,
    *,
    horizon: float | None = None,
    batch_dims: int = 0,
    tolerance: float = 1e-6,
    budget: int = 400,
    seed: int = 0,
) -> LyapunovReport:
    """The k largest finite-time exponents, (1/T) log of the leading singular values of the flow Jacobian.

    Args:
        f: callable (t, x) -> dx/dt of the shape of x.
        x0: state of any shape, or (B, ...) with batch_dims=1.
        grid, method: the solver whose map is differentiated.
        k: number of exponents, 1 <= k <= n.
        horizon: total time, beyond T for an autonomous field; T unless given.
        tolerance, budget, seed: of the iteration (`singular_triplets`); dense below 512 dimensions.

    Returns:
        LyapunovReport with exponents (k,) or (B, k), unit 1/t, descending; -inf for a direction that the map collapses. Values
        that are not converged are lower bounds and come with their residuals.

    Raises:
        UserError: k or horizon out of range. NonFiniteError: a state or product that is not finite.

    Cost: 2 solves, then about 1 for each product (n dense, else about 10k). Memory for the whole solve.
    """
    given = f
    f, x0 = prepared(f, x0)
    grid = continued(f, x0, grid, horizon)
    phi = flow_jacobian(f, x0, grid, method, batch_dims=batch_dims)
    span = abs(grid.t1 - grid.t0)
    exponents, residuals, converged = rates_of(phi, k, span, tolerance=tolerance, budget=budget, seed=seed)
    rate, note = along_flow(f, x0, phi.value, grid, batch_dims)
    reached = f"{int(converged.sum())} of {converged.numel()} converged within {budget} products; the others are lower bounds"
    return lyapunov_report(
        quantity="finite-time exponents (SVD)", system=system_name(grid, method), exponents=exponents, residuals=residuals,
        converged=converged, along=rate, n=phi.n, horizon=span, products=phi.products, batched=bool(batch_dims),
        notes=tuple(filter(None, (note, "" if bool(converged.all()) else reached))), origin=provenance(given, x0, seed),
    )  # fmt: skip


def rates_of(phi: Jacobian, k: int, span: float, **options) -> tuple[Tensor, Tensor, Tensor]:
    """(log sigma / span, relative residuals, converged) of a flow Jacobian, each (B, k); NaN where the budget found fewer."""
    _, values, _, residuals = singular_triplets(phi, k, **options)
    values, residuals = (v.reshape(phi.batch or 1, -1) for v in (values, residuals))
    relative = torch.where(values > 0, residuals / values, residuals)
    found = torch.stack([values.log() / span, relative])
    found = torch.nn.functional.pad(found, (0, k - values.shape[1]), value=torch.nan)
    return found[0], found[1], found[1] <= 2 * options["tolerance"]  # measured anew, so not to be held against the last digit


def lyapunov_report(
    *, quantity: str, system: str, exponents: Tensor, residuals: Tensor, converged: Tensor, along: Tensor, n: int,
    horizon: float, products: int, notes: tuple[str, ...], batched: bool, origin, time=(), history: Tensor | None = None,
    zeros: int = 0,
) -> LyapunovReport:  # fmt: skip
    """A LyapunovReport from tensors with the samples first, (B, k); the sample axis is dropped where none was given."""
    dimensions = [kaplan_yorke(row[~np.isnan(row)], n) for row in exponents.cpu().numpy()]

    def out(values) -> np.ndarray:
        array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
        return array if batched else array[0]

    if history is None:
        history = exponents.new_empty(exponents.shape[0], 0, exponents.shape[1])
    return LyapunovReport(
        quantity=quantity, system=system, exponents=out(exponents), residuals=out(residuals), converged=out(converged),
        time=np.asarray(time, dtype=float), history=out(history), along_flow=along.cpu().numpy() if batched else float(along),
        kaplan_yorke=out([d.value for d in dimensions]), kaplan_yorke_exact=out([d.exact for d in dimensions]), dimensions=n,
        zeros_removed=zeros, horizon=horizon, products=products, notes=notes, provenance=origin,
    )  # fmt: skip


def net_and_ode(
    f: Field, x0: Tensor, grid: TimeGrid, method: str = "euler", k: int = 1, *, refine: int = 8, batch_dims: int = 0
) -> dict[str, LyapunovReport]:
    """Finite-time exponents of the net as trained ("net") and of the ODE that it discretises ("ode").

    The ODE is solved by rk4 with `refine` times the steps. The two agree to O(h): Euler shows log|1 + h lambda| / h where the
    ODE has Re lambda. Cost: 1 + 4 refine times that of `finite_time_exponents`.
    """
    fine = TimeGrid(grid.t0, grid.t1, grid.steps * refine)
    return {
        "net": finite_time_exponents(f, x0, grid, method, k, batch_dims=batch_dims),
        "ode": finite_time_exponents(f, x0, fine, "rk4", k, batch_dims=batch_dims),
    }


def as_states(columns: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Tangents (k, *shape) from the columns of (B, n, k)."""
    return columns.permute(2, 0, 1).reshape(-1, *shape)


def as_columns(tangents: Tensor, samples: int) -> Tensor:
    """The columns (B, n, k) of tangents (k, *state)."""
    return torch.movedim(tangents.reshape(len(tangents), samples, -1), 0, 2)
