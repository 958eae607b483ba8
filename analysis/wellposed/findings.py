"""Everything that the certificate's verdicts rest on, measured once along the trajectories of the given images.

At up to TIMES steps of the grid: ||J||, ||d step / dx||, mu(J), eigenvalues, a proven bound of ||J||; over the whole flow: the
largest singular value of dx(T)/dx(0), the solver's error, and the answers under other solvers.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from odevit.backbone import Backbone
from odevit.flow import find_method
from odevit.trajectory import TimeGrid, Trajectory
from odevit.vit import ViT

from ..discretization import euler_error, observed_order, solver_swap
from ..discretization.swaps import no_flip_radius, readout_input
from ..lipschitz import flow_bound, lipschitz, local_bound
from ..operators import Jacobian, explicit_attention, flow_jacobian, jacobian, linearize
from ..reports import DiscretizationReport, OrderReport, SwapReport
from ..spectra import (
    jacobian_spectrum,
    logarithmic_norm,
    singular_triplets,
    spectral_abscissa,
    structural_zeros,
)
from .growth import Growth, growth_constants, reach

TIMES = 7  # steps of the grid that are looked at, at most
MODES = 8  # eigenvalues of largest modulus at each of them
TOLERANCE = 1e-3  # relative residual of norms: three digits carry every verdict
BUDGET = 400  # products for each of them
LARGEST = 1e70  # radius of a ball on which bounds are computed: they hold its fourth power


@dataclass(frozen=True)
class Solve:
    """The model's own solve of the images: float64 model, trajectory with every step, steps that are looked at."""

    model: Backbone
    images: Tensor
    trajectory: Trajectory
    grid: TimeGrid
    method: str
    seed: int

    @property
    def discrete(self) -> bool:
        """Whether the model is a net of layers, whose field is only a way to read them."""
        return isinstance(self.model, ViT)

    @property
    def adaptive(self) -> bool:
        """Whether the solver chooses its own steps."""
        return find_method(self.method).kind == "adaptive"

    @property
    def looked_at(self) -> np.ndarray:
        """Indices of the saved times that are looked at, both ends included; of a discrete net the layers' inputs."""
        last = self.grid.steps - self.discrete
        return np.unique(np.linspace(0, last, min(TIMES, last + 1)).round().astype(int))


@dataclass(frozen=True)
class Findings:
    """What was found along one solve; arrays over (time, image) unless said otherwise.

    Attributes:
        solve: the solve.
        time: those looked at.   norm, local, mu, abscissa: ||J||, its proven bound, mu(J), largest Re lambda found.
        eigenvalues: (time, image, k).
        step_time, step_norm: start of each step looked at and the norm of the step's derivative; empty for adaptive solvers.
        growth: constants of the blocks.   radius, bound: largest token norm at every step of the grid, and its proven bound.
        upper: L on the ball of radius bound[-1].   layered: whether it goes through LayerNorm's global constant.
        sigma: of the flow, (image,).   product: of all step norms, (image,), NaN where steps were left out.
        integral: of mu(J) over [0, T], (image,), NaN for discrete nets.
        euler, order, swap: reports, None where they do not apply.
        flip: (image,) no-flip radius and shift of the readout's input along the Euler error, or None.
        zeros: structural zeros of J.   residual: largest relative residual of the norms.   late: values
            of `abscissa` that did not converge.   products: spent.
    """

    solve: Solve
    time: np.ndarray
    norm: np.ndarray
    local: np.ndarray
    mu: np.ndarray
    abscissa: np.ndarray
    eigenvalues: np.ndarray
    step_time: np.ndarray
    step_norm: np.ndarray
    growth: tuple[Growth, ...]
    radius: np.ndarray
    bound: np.ndarray
    upper: float
    layered: bool
    sigma: np.ndarray
    product: np.ndarray
    integral: np.ndarray
    euler: DiscretizationReport | None
    order: OrderReport | None
    swap: SwapReport
    flip: tuple[np.ndarray, np.ndarray] | None
    zeros: int
    residual: float
    late: int
    products: int


def find(solve: Solve, progress: Callable[[str], None]) -> Findings:
    """Measure everything; `progress` is told what comes next."""
    f, x = solve.model.field, solve.trajectory.x
    progress("growth")
    growth, radius, bound = _growth(solve)
    upper, layered = _on_ball(f, bound[-1], x.shape[-2], solve)
    progress("error of the solver")
    euler = None
    if solve.method == "euler":
        euler = euler_error(f, solve.trajectory, model=solve.model, batch_dims=1, tolerance=TOLERANCE, seed=solve.seed)
    rows, index = [], solve.looked_at
    for k in index:
        progress(f"Jacobian at t = {float(solve.trajectory.t[k]):g}")
        rows.append(_look(solve, int(k), euler))
    progress("flow")
    steps, lengths = _steps(solve, euler)
    phi = flow_jacobian(f, x[0], solve.grid, solve.method, batch_dims=1)
    sigma, gap = _largest(phi, solve)
    progress("other solvers")
    found = {name: np.stack([row[name] for row in rows]) for name in ("norm", "local", "mu", "abscissa", "eigenvalues")}
    time, complete = solve.trajectory.t.numpy()[index], len(steps) == solve.grid.steps
    return Findings(
        solve=solve, time=time, step_time=steps, step_norm=lengths, growth=growth, radius=radius, bound=bound, upper=upper,
        layered=layered, sigma=sigma, product=lengths.prod(0) if complete and len(steps) else np.full_like(sigma, np.nan),
        integral=_integral(solve, time, found["mu"]), euler=euler, order=_order(solve), swap=_swap(solve),
        flip=None if euler is None or solve.discrete else _flip(solve, euler), zeros=rows[0]["zeros"],
        late=sum(row["late"] for row in rows), residual=max(gap, *(row["residual"] for row in rows)),
        products=phi.products + sum(row["products"] for row in rows), **found,
    )  # fmt: skip


def _largest(operator: Jacobian, solve: Solve) -> tuple[np.ndarray, float]:
    """(largest singular value of each sample, largest relative residual)."""
    _, values, _, gap = singular_triplets(operator, 1, tolerance=TOLERANCE, budget=BUDGET, seed=solve.seed)
    return values[:, 0].cpu().numpy(), float((gap[:, 0] / values[:, 0].clamp_min(1e-300)).max())


def _growth(solve: Solve) -> tuple[tuple[Growth, ...], np.ndarray, np.ndarray]:
    """(constants of the blocks, largest token norm at each saved time, its proven bound there)."""
    radius = solve.trajectory.x.norm(dim=-1).amax((1, 2)).cpu().numpy()
    growth = growth_constants(solve.model.field)
    return growth, radius, np.array(reach(growth, float(radius[0]), solve.grid.times, steps=solve.discrete))


def _on_ball(f, radius: float, tokens: int, solve: Solve) -> tuple[float, bool]:
    """(L on the ball, over all blocks, and whether LayerNorm's constant is in it); infinite where the radius is."""
    if not radius < LARGEST:
        return math.inf, False
    ends = [solve.grid.t0, *f.breaks]
    found = [lipschitz(f, None, radius, t=t, tokens=tokens, ascent_steps=0, seed=solve.seed) for t in ends]
    return max(r.upper for r in found), any(r.vacuous for r in found)


def _look(solve: Solve, k: int, euler: DiscretizationReport | None) -> dict:
    """What is measured at the k-th saved time, by name; arrays over images."""
    f, x, t = solve.model.field, solve.trajectory.x[k], float(solve.trajectory.t[k])
    how: dict[str, Any] = {"batch_dims": 1, "tolerance": TOLERANCE, "budget": BUDGET, "seed": solve.seed}
    operator = jacobian(f, x, t, batch_dims=1)
    zeros = structural_zeros(f, operator, t)
    if euler is None:
        norm, residual = _largest(operator, solve)
    else:
        norm, residual = euler.jacobian_norm[:, k], euler.residual
    mu, right = logarithmic_norm(f, x, t, **how), spectral_abscissa(f, x, t, **how)
    modes = jacobian_spectrum(f, x, t, min(MODES, operator.n - zeros), **how)
    values = np.full((len(x), MODES + 1), complex(np.nan, np.nan))
    assert modes.eigenvalues is not None
    values[:, : modes.eigenvalues.shape[1]] = modes.eigenvalues
    largest = np.fmax(right.value, np.nanmax(values.real, axis=-1))
    spent = operator.products + mu.products + right.products + modes.products
    late = int((right.residual > 2 * TOLERANCE * np.nanmax(np.abs(values), -1)).sum())
    return {
        "norm": norm, "local": local_bound(f, x, t), "mu": mu.value, "abscissa": largest, "eigenvalues": values, "zeros": zeros,
        "residual": residual, "late": late, "products": spent,
    }  # fmt: skip


def _steps(solve: Solve, euler: DiscretizationReport | None) -> tuple[np.ndarray, np.ndarray]:
    """(start times, norms of the derivative of the step from there (step, image)); all steps for Euler, none if adaptive."""
    times, x = solve.grid.times, solve.trajectory.x
    if euler is not None:
        return np.array(times[:-1]), euler.step_norm.T
    if solve.adaptive:
        return np.empty(0), np.empty((0, x.shape[1]))
    index, norms = [int(k) for k in solve.looked_at if k < solve.grid.steps], []
    for k in index:
        one = flow_jacobian(solve.model.field, x[k], TimeGrid(times[k], times[k + 1], 1), solve.method, batch_dims=1)
        norms.append(_largest(one, solve)[0])
    return np.array([times[k] for k in index]), np.stack(norms)


def _integral(solve: Solve, time: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """The integral of mu(J) over [0, T] by the trapezoid rule, inside the pieces of the field."""
    if solve.discrete:
        return np.full(mu.shape[1], np.nan)
    if solve.model.field.breaks:
        return np.log(flow_bound(solve.model.field, solve.trajectory, batch_dims=1).most)
    return np.trapezoid(mu, time, axis=0)


def _order(solve: Solve) -> OrderReport | None:
    """Observed order on the grid of the model; None where the solver has no step to halve, or the net no solver."""
    if solve.adaptive or solve.discrete:
        return None
    return observed_order(solve.model.field, solve.trajectory.x[0], solve.grid, solve.method, batch_dims=1)


def _swap(solve: Solve) -> SwapReport:
    """Answers with twice and four times the steps, and by rk4 (an adaptive solve is compared with rk4 only)."""
    own: Sequence[str] = () if solve.adaptive or solve.method == "rk4" else (solve.method,)
    steps = [solve.grid.steps * factor for factor in (1, 2, 4)]
    return solver_swap(solve.model, solve.images, (*own, "rk4"), steps)


def _flip(solve: Solve, euler: DiscretizationReport) -> tuple[np.ndarray, np.ndarray]:
    """(no-flip radius, norm of the readout input's shift along the principal error), each over images."""
    x = solve.trajectory.x[-1]
    with explicit_attention():
        _, push, _ = linearize(lambda y: readout_input(solve.model, y), x)
    shift = push(torch.from_numpy(euler.direction).to(x))
    return no_flip_radius(solve.model, x).cpu().numpy(), shift.norm(dim=-1).cpu().numpy()
