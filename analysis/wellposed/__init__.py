"""The well-posedness certificate: does a trajectory exist, is it unique, is it computed right, how much does it amplify?

Existence and uniqueness follow from linear growth and smoothness (Picard-Lindelof); every other statement is measured along the
trajectories of the given images, and says so. e^{LT} is called vacuous where it is.
"""

from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import torch
from torch import Tensor

from odevit.backbone import Backbone
from odevit.checkpoint import model_hash
from odevit.errors import UserError

from ..operators import as_float64, check_finite, explicit_attention, provenance
from ..reports.verdicts import CertificateReport, Verdict
from .findings import Findings, Solve, find
from .growth import Growth, growth_constants
from .judgements import QUESTIONS

__all__ = ["Growth", "certificate", "growth_constants"]


def certificate(
    model: Backbone, images: Tensor, *, seed: int = 0, progress: Callable[[str], None] | None = None
) -> CertificateReport:
    """Everything that can be claimed of a model at the given images, each claim as proven, measured or vacuous.

    Args:
        model: an ODEViT (any blocks, norm, attention, solver) or a discrete ViT, whose layers are read as steps; statements
            that make no sense for it are left out, and this is said. A float64 copy is used.
        images: normalised, (B, C, H, W); a handful.
        seed: of the start vectors.
        progress: told what is measured next.

    Returns:
        CertificateReport with `.verdicts`, `.to_markdown()`, `.to_text()`.

    Raises:
        UserError: no images, or of another size. NonFiniteError: a weight, pixel or state that is not finite.

    Cost: for each image about 300 field evaluations at each of at most 7 times, and 2 x 40 for every Euler step.
    """
    if not isinstance(model, Backbone):
        raise UserError(f"model: a {type(model).__name__} has no tokens and readout; a certificate needs an ODEViT or a ViT")
    if images.ndim != 4 or len(images) == 0:
        raise UserError(f"images: shape {tuple(images.shape)}; at least one image (B, C, H, W) is needed")
    double = as_float64(model)
    if images.is_floating_point():
        check_finite("images", images)
    with torch.no_grad(), explicit_attention():
        trajectory = double.trajectory(images.to(double.head.weight) if images.is_floating_point() else images)
    check_finite("trajectory", trajectory.x)
    solve = Solve(double, images, trajectory, double.grid, double.solver.method, seed)
    found = find(solve, progress or (lambda what: None))
    answers = [question(found) for question in QUESTIONS]
    verdicts = [a for a in answers if isinstance(a, Verdict)]
    skipped = tuple(a for a in answers if isinstance(a, str))
    origin = provenance(double, trajectory.x, seed)
    return _report(found, verdicts, skipped, replace(origin, model=f"{type(model).__name__} {model_hash(model)}"))


def _report(found: Findings, verdicts: list[Verdict], skipped: tuple[str, ...], origin) -> CertificateReport:
    columns = {f.name: np.array([getattr(v, f.name) for v in verdicts]) for f in fields(Verdict) if f.name != "holds"}
    columns["holds"] = np.array([-1 if v.holds is None else int(v.holds) for v in verdicts])
    x = found.solve.trajectory.x
    complete = ~np.isnan(found.product)
    return CertificateReport(
        subject=f"{origin.model}", solve=_solver(found.solve), images=x.shape[1], tokens=x.shape[2], dim=x.shape[3],
        skipped=skipped, notes=_notes(found), time=found.time, jacobian_norm=found.norm, local=found.local,
        logarithmic_norm=found.mu, abscissa=found.abscissa, eigenvalues=found.eigenvalues, step_time=found.step_time,
        step_norm=found.step_norm, grid_time=np.array(found.solve.grid.times), radius=found.radius, radius_bound=found.bound,
        sigma=found.sigma, sigma_bound=np.where(complete, found.product, np.exp(found.integral)), products=found.products,
        provenance=origin, **columns,
    )  # fmt: skip


def _solver(solve: Solve) -> str:
    grid = solve.grid
    if solve.discrete:
        return f"{grid.steps} layers"
    blocks = len(solve.model.field.blocks)
    made = f", {blocks} blocks" if blocks > 1 else ""
    steps = "steps of its own" if solve.adaptive else f"{grid.steps} steps of h = {grid.h:.3g}"
    return f"{solve.method}, {steps} on [{grid.t0:g}, {grid.t1:g}]{made}"


def _notes(found: Findings) -> tuple[str, ...]:
    """What a reader must know to read the numbers right."""
    solve = found.solve
    notes = [
        f"norms and eigenvalues are found by iteration from below, relative residual {found.residual:.1g}"
        if found.residual
        else "norms and eigenvalues are those of the full matrices, exact to rounding",
        "measured statements hold at the states looked at, not between them and not for other images",
    ]
    if found.late:
        notes.append(f"{found.late} of {found.abscissa.size} largest real parts did not converge: Ritz values, no bounds")
    if len(found.time) < solve.grid.steps + (not solve.discrete):
        notes.append(f"{len(found.time)} of {solve.grid.steps + 1} grid times were looked at")
    if solve.model.field.breaks and not solve.discrete:
        notes.append("the field changes its block in time: growth and smoothness are stated piece by piece")
    if not solve.discrete and not np.isnan(found.integral).all():
        notes.append("exp int mu dt bounds the exact flow along the computed path, by the trapezoid rule over these times")
    return tuple(notes)
