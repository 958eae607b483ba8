r"""How far apart the paths of an image and its perturbed copy go, and what bounds it.

With the solver's step psi_k and d_k = ||x'_k - x_k||, by the mean value theorem

    d_{k+1} <= int_0^1 ||D psi_k(x_k + s (x'_k - x_k))|| ds  d_k            between the two paths: any distance
    d_{k+1} <= (||D psi_k(x_k)|| + O(d_k)) d_k                              along one of them: first order in the distance
    d_{k+1} <= (1 + h L_k) d_k,   ||J|| <= L_k on max_i ||x_i|| <= R_k      Euler; R_k: the largest token of both, proven

(Euler: D psi = I + hJ), and for the ODE itself d(t) <= d(0) exp(int mu(J(x(s))) ds), to first order (Dahlquist 1958,
Soderlind 2006, BIT 46). The first needs the norms on the whole segment and has them at three points of it (Simpson).
"""

import numpy as np
import torch
from torch import Tensor

from odevit.errors import UserError
from odevit.flow import find_method, piece_at
from odevit.trajectory import TimeGrid, Trajectory

from ..discretization import no_flip_radius, readout_input
from ..interventions.restart import factual
from ..lipschitz import lipschitz
from ..operators import flow_jacobian, provenance
from ..reports import PerturbationReport, StretchReport
from ..spectra import logarithmic_norm
from ..spectra.singular import singular_triplets

NODES = (0.0, 0.5, 1.0)
SIMPSON, TRAPEZOID = np.array([1, 4, 1]) / 6, np.array([1, 2, 1]) / 4
TOLERANCE = 1e-4  # relative residual of the norms: four digits of a bound are enough


def perturbation_growth(model, image: Tensor, changed: Tensor) -> PerturbationReport:
    """The distance of two paths over t, in parts, with the proven bound and the predictions before and after.

    Args:
        model: ODEViT or ViT; a float64 copy is used.   image, changed: normalised, (1, C, H, W).

    Returns:
        PerturbationReport. Distances are those of the solver's own states.

    Raises:
        UserError: more than one image, shapes that differ. NonFiniteError: weights, images or states that are not finite.

    Cost: two solves; SVDs of the weights for the proven bound.
    """
    model, pair, solved = _solved(model, image, changed)
    x, y = solved.x[:, 0], solved.x[:, 1]  # (K, N, D)
    gap = (y - x).norm(dim=-1)
    with torch.no_grad():
        before, after = model.readout(solved.x[-1])
        seen = readout_input(model, solved.x[-1])
        radius = float(no_flip_radius(model, x[-1]))
    parts = {name: _numbers(gap[:, getattr(model.layout, name)].norm(dim=-1)) for name in ("cls", "patches", "registers")}
    bound, notes = _ball_bounds(model, solved)
    distance = _numbers(gap.norm(dim=-1))
    return PerturbationReport(
        method=model.solver.method, steps=model.grid.steps, time=_numbers(solved.t), registers=model.layout.num_registers,
        patch_grid=model.layout.grid, token_distance=_numbers(gap), distance=distance, distance_cls=parts["cls"],
        distance_patches=parts["patches"],
        distance_registers=parts["registers"] if model.layout.num_registers else np.zeros(0),
        reach=_numbers(x.flatten(1).norm(dim=1) + y.flatten(1).norm(dim=1)), pixels=float((pair[1] - pair[0]).norm()),
        logits_before=_numbers(before), logits_after=_numbers(after), shift=float((seen[1] - seen[0]).norm()), radius=radius,
        lipschitz=bound, notes=notes, provenance=provenance(model, x),
        proven=distance[0] * np.cumprod(np.append(1.0, 1 + abs(model.grid.h) * bound)) if len(bound) else np.zeros(0),
    )  # fmt: skip


def step_stretch(model, image: Tensor, changed: Tensor, step: int, *, seed: int = 0) -> StretchReport:
    """The stretch of one step, at the path of the image and between the two paths.

    Args:
        model, image, changed: as in `perturbation_growth`.   step: k, from 0.   seed: start vectors.

    Returns:
        StretchReport of one step; `StretchReport.joined` puts several together. With an adaptive method the step is the solve
        between two saved times, its accepted steps held fixed.

    Cost: two solves; norms of D psi at three states and logarithmic norms at two, dense up to 512 dimensions, else about 40
    products each.
    """
    model, _, solved = _solved(model, image, changed)
    grid = model.grid
    if not 0 <= step < grid.steps:
        raise UserError(f"step: {step} is outside 0 to {grid.steps - 1}")
    x, y = solved.x[step]
    segment = torch.stack([x + s * (y - x) for s in NODES])  # (3, N, D)
    begin, end = grid.times[step : step + 2]
    psi = flow_jacobian(model.field, segment, TimeGrid(begin, end, 1), model.solver.method, batch_dims=1)
    _, norms, _, residuals = singular_triplets(psi, 1, tolerance=TOLERANCE, seed=seed)
    piece = piece_at(model.field, (begin + end) / 2)
    rates = [
        logarithmic_norm(piece, solved.x[k, 0], t, tolerance=TOLERANCE, seed=seed) for k, t in ((step, begin), (step + 1, end))
    ]
    values = norms[:, 0].cpu().numpy()
    between, coarse = SIMPSON @ values, TRAPEZOID @ values
    return StretchReport(
        step=np.array([step]), time=np.array([[begin, end]]), along=values[:1], between=np.array([between]),
        largest=np.array([values.max()]), rate=np.array([np.mean([float(r) for r in rates])]),
        residual=float((residuals / norms.clamp(min=1e-300)).max()), quadrature=float(abs(between - coarse) / between),
        provenance=provenance(model, x, seed),
    )  # fmt: skip


def _solved(model, image: Tensor, changed: Tensor) -> tuple:
    """(float64 model, the two images, the solve of both, every step saved)."""
    if image.shape != changed.shape or image.ndim != 4 or len(image) != 1:
        raise UserError(f"images: shapes {tuple(image.shape)} and {tuple(changed.shape)}; two of (1, C, H, W) are needed")
    return factual(model, torch.cat([image, changed.to(image)]))


def _ball_bounds(model, solved: Trajectory) -> tuple[np.ndarray, tuple[str, ...]]:
    """(L_k of each Euler step on the ball that holds both states, notes); no bound for other methods."""
    grid = model.grid
    if solved.method not in ("euler", "discrete"):
        adaptive = find_method(solved.method).kind == "adaptive"
        why = "chooses other steps for each of the two" if adaptive else "has stages that leave it"
        return np.zeros(0), (f"no proven bound: it follows Euler steps on a ball around both states, {solved.method} {why}",)
    radii = solved.x.norm(dim=-1).amax((1, 2))
    found = [
        lipschitz(model.field, radius=float(r), tokens=model.layout.size, t=(a + b) / 2, ascent_steps=0)
        for r, a, b in zip(radii, grid.times, grid.times[1:])
    ]
    loose = any(report.vacuous for report in found)
    return np.array([r.upper for r in found]), ("LayerNorm's global constant enters the proven bound",) if loose else ()


def _numbers(values: Tensor) -> np.ndarray:
    return values.detach().double().cpu().numpy()
