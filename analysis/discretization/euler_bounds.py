"""Global error of Euler's method on [0, T] along a computed trajectory, estimated in four ways.

With x'' = d_t f + J f, M = max ||x''||, L = max ||J||, gamma_h = (max ||I + hJ|| - 1) / h:

    (i)   classical     ||e(T)|| <= h M (e^{LT} - 1) / (2L)
    (ii)  logarithmic   ||e(T)|| <= h M ((1 + h gamma_h)^n - 1) / (2 gamma_h)
    (iii) stepwise      E_{k+1} = ||I + hJ_k|| E_k + h^2 M_k / 2
    (iv)  principal     e' = Je - x''/2, e(0) = 0,  x_h(T) - x(T) = h e(T) + O(h^2)

(Hairer, Norsett & Wanner I, ch. II.3, II.8.) (i) to (iii) are bounds where the maxima are taken over a tube around solution and
polygon; with values on the trajectory they hold to first order in h. (iv) is a signed estimate with a direction.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from odevit.errors import UserError
from odevit.flow import integrate, piece_at
from odevit.trajectory import TimeGrid, Trajectory

from ..operators import Field, Jacobian, as_float64, jacobian, linearize, prepared, provenance, second_derivative
from ..reports import DiscretizationReport
from ..spectra import singular_triplets

VACUOUS = 50.0  # LT above which e^{LT} says nothing


def euler_error(
    f: Field,
    trajectory: Trajectory,
    *,
    model=None,
    refine: int = 0,
    batch_dims: int = 0,
    tolerance: float = 1e-3,
    seed: int = 0,
) -> DiscretizationReport:
    """The four estimates for a trajectory of Euler steps (or of a discrete ViT's layers, whose field is piecewise in t).

    Args:
        f: the field of the trajectory.
        trajectory: every step saved, method "euler" or "discrete".
        model: gives the shift of its logits along h e(T), by the derivative of `model.readout` at x(T).
        refine: compare with rk4 on `refine` times the steps, 0 = no comparison; its own error is estimated from half of that.
        batch_dims: 1 where the states are (B, ...) and each sample has an error of its own.
        tolerance: relative residual of the operator norms; they enter a bound, three digits do.

    Returns:
        DiscretizationReport.

    Raises:
        UserError: adaptive, interpolated or thinned trajectories, other methods than Euler. NonFiniteError: broken states.

    Cost: for each step one linearisation, 2 JVPs and the norms of J and I + hJ (n products dense up to 512 dimensions, else
    about 20 products each); `refine`: 4 * 1.5 * refine evaluations a step.
    """
    given, model = f, None if model is None else as_float64(model)
    f, _ = prepared(f, trajectory.x[0])
    grid = _grid(trajectory)
    states = [prepared(f, x)[1] for x in trajectory.x]
    walk = _Walk(f, grid, states, batch_dims, tolerance, seed)
    for k in range(grid.steps):
        walk.step(k)
    walk.finish()
    return _report(walk, model, refine, provenance(given, states[0], seed))


def _grid(trajectory: Trajectory) -> TimeGrid:
    """The step grid of a trajectory of Euler steps; UserError where it is none."""
    if trajectory.h is None:
        raise UserError(f"trajectory: {trajectory.method} chose its own steps; the Euler error needs method 'euler'")
    if trajectory.method not in ("euler", "discrete"):
        raise UserError(f"trajectory: solved with {trajectory.method!r}; the Euler error belongs to trajectories of 'euler'")
    if trajectory.interpolated is not None and bool(trajectory.interpolated.any()):
        raise UserError(f"trajectory: {int(trajectory.interpolated.sum())} states are interpolated; use save=None")
    t = trajectory.t
    if not torch.allclose(t.diff(), torch.full_like(t[1:], trajectory.h), rtol=1e-6):
        spacing = float(t.diff().abs().max())
        raise UserError(f"trajectory: saved every {spacing:g} with steps of {abs(trajectory.h):g}; save every step (save=None)")
    return TimeGrid(float(t[0]), float(t[-1]), len(t) - 1)


@dataclass
class _Walk:
    """What is collected while the states are visited in order; lists hold one (B,) tensor a time."""

    f: Field
    grid: TimeGrid
    states: list[Tensor]
    batch_dims: int
    tolerance: float
    seed: int
    norms: list[Tensor] = field(default_factory=list)
    step_norms: list[Tensor] = field(default_factory=list)
    accelerations: list[Tensor] = field(default_factory=list)
    largest: list[Tensor] = field(default_factory=list)
    bounds: list[Tensor] = field(default_factory=list)
    errors: list[Tensor] = field(default_factory=list)
    residual: float = 0.0

    def __post_init__(self):
        self.times = torch.tensor(self.grid.times, dtype=self.states[0].dtype, device=self.states[0].device)
        self.arrival = torch.empty(0)
        self.errors = [torch.zeros_like(self.states[0])]
        self.bounds = [self.size(self.errors[0])]

    def size(self, x: Tensor) -> Tensor:
        """Norm of each sample, (B,)."""
        return x.reshape(x.shape[0] if self.batch_dims else 1, -1).norm(dim=1)

    def norm(self, operator: Jacobian) -> Tensor:
        """Largest singular value of each sample, (B,)."""
        _, values, _, residuals = singular_triplets(operator, 1, tolerance=self.tolerance, seed=self.seed)
        share = residuals / torch.where(values > 0, values, torch.ones_like(values))
        self.residual = max(self.residual, float(share.max()))
        return values.reshape(-1)

    def linearised(self, piece: Field, k: int) -> Jacobian:
        """J at the k-th time, which f is given as a 0-d tensor, as the solver does."""
        t = self.times[k]
        return jacobian(lambda _, y: piece(t, y), self.states[k], float(t), batch_dims=self.batch_dims)

    def step(self, k: int) -> None:
        """Step k: norms at its start, x'' at both ends inside its own piece of the field, and the two recursions."""
        h, x = self.grid.h, self.states
        piece = piece_at(self.f, self.grid.t0 + (k + 0.5) * h)
        j = self.linearised(piece, k)
        step = self.linearised(lambda t, y: y + h * piece(t, y), k)  # I + hJ
        breaks = getattr(self.f, "breaks", ())
        if k == 0 or breaks:
            self.arrival = second_derivative(piece, x[k], self.grid.times[k])
        start, self.arrival = self.arrival, second_derivative(piece, x[k + 1], self.grid.times[k + 1])
        curvature = torch.maximum(self.size(start), self.size(self.arrival))
        self.norms.append(self.norm(j))
        self.step_norms.append(self.norm(step))
        self.accelerations.append(self.size(start))
        self.largest.append(curvature)
        self.bounds.append(self.step_norms[-1] * self.bounds[-1] + h * h / 2 * curvature)
        e = self.errors[-1]
        self.errors.append(e + h * (j.matvec(e) - start / 2))

    def finish(self) -> None:
        """Values at T, in the last piece of the field."""
        piece = piece_at(self.f, self.grid.t1 - 0.5 * self.grid.h)
        self.norms.append(self.norm(self.linearised(piece, self.grid.steps)))
        self.accelerations.append(self.size(self.arrival))


def classical_bound(h: float, horizon: float, lipschitz: Tensor, curvature: Tensor) -> Tensor:
    """(i) h M (e^{LT} - 1) / (2L), with its limit h M T / 2 at L = 0; inf where e^{LT} overflows.

    Args: h, horizon: step size and T, unit t, positive. lipschitz, curvature: L and M, any shape.

    >>> float(classical_bound(0.5, 2.0, torch.tensor(0.0), torch.tensor(3.0)))
    1.5
    """
    growth = torch.where(lipschitz > 0, torch.expm1(lipschitz * horizon) / lipschitz.clamp(min=1e-300), horizon)
    return h * curvature / 2 * growth


def logarithmic_bound(h: float, steps: int, gamma: Tensor, curvature: Tensor) -> Tensor:
    """(ii) h M ((1 + h gamma)^n - 1) / (2 gamma), with its limit h M T / 2 at gamma = 0.

    The sum that the steps make, not its bound by e^{gamma T}, which for negative gamma would be none.
    """
    small = gamma.abs() * h < 1e-12
    safe = torch.where(small, torch.ones_like(gamma), gamma)
    grown = torch.expm1(steps * torch.log1p((h * safe).clamp(min=-1.0))) / safe
    return h * curvature / 2 * torch.where(small, torch.full_like(gamma, h * steps), grown)


def _report(walk: _Walk, model, refine: int, origin) -> DiscretizationReport:
    grid, single = walk.grid, not walk.batch_dims
    h, span = abs(grid.h), abs(grid.t1 - grid.t0)
    norms, step_norms, largest = (torch.stack(v, 1) for v in (walk.norms, walk.step_norms, walk.largest))
    lipschitz, curvature, gamma = norms.amax(1), largest.amax(1), (step_norms.amax(1) - 1) / h
    shift = grid.h * walk.errors[-1]
    error, own, cosine = _true_error(walk, refine, shift)

    def out(values: Tensor):
        array = values.detach().cpu().numpy()
        return array[0] if single else array

    return DiscretizationReport(
        h=grid.h, steps=grid.steps, horizon=span, time=np.array(grid.times), jacobian_norm=out(norms),
        step_norm=out(step_norms), acceleration=out(torch.stack(walk.accelerations, 1)), lipschitz=out(lipschitz),
        gamma=out(gamma), curvature=out(curvature), classical=out(classical_bound(h, span, lipschitz, curvature)),
        logarithmic=out(logarithmic_bound(h, grid.steps, gamma, curvature)), stepwise=out(torch.stack(walk.bounds, 1)),
        principal=out(h * torch.stack([walk.size(e) for e in walk.errors], 1)), direction=shift.cpu().numpy(),
        logits_shift=_logits_shift(model, walk.states[-1], shift).cpu().numpy(), true_error=out(error),
        reference_error=out(own), cosine=out(cosine), vacuous=out(lipschitz * span > VACUOUS), residual=walk.residual,
        notes=_notes(walk), provenance=origin,
    )  # fmt: skip


def _notes(walk: _Walk) -> tuple[str, ...]:
    notes = ["bounds use the largest values on the trajectory, not on a tube around it: accurate to first order in h"]
    if getattr(walk.f, "breaks", ()):
        notes.append("the field changes its block in time: each step uses its own piece")
    return tuple(notes)


def _logits_shift(model, x: Tensor, shift: Tensor) -> Tensor:
    """Derivative of the readout at x along `shift`, (B, C) or (C,): W h e_cls for a linear head on CLS."""
    if model is None:
        return x.new_empty(0)
    return linearize(model.readout, x)[1](shift)


def _true_error(walk: _Walk, refine: int, shift: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(error at each time (B, K), the reference's own at T (B,), cosine of error and `shift` (B,)); empty and NaN without."""
    nothing = torch.full_like(walk.size(shift), math.nan)
    if not refine:
        return nothing.new_empty(len(nothing), 0), nothing, nothing
    grid = walk.grid
    if refine < 2 or int(refine) != refine:
        raise UserError(f"refine: {refine} must be an integer of at least 2, or 0 for no reference solve")
    with torch.no_grad():
        fine, half = (
            integrate(walk.f, walk.states[0], TimeGrid(grid.t0, grid.t1, grid.steps * r, save=grid.steps), "rk4").x
            for r in (2 * (refine // 2), refine // 2)
        )
    gaps = [x - y for x, y in zip(walk.states, fine)]
    own = walk.size(fine[-1] - half[-1]) / (2**4 - 1)
    product = (gaps[-1] * shift).reshape(len(nothing), -1).sum(1)
    return torch.stack([walk.size(g) for g in gaps], 1), own, product / (walk.size(gaps[-1]) * walk.size(shift))
