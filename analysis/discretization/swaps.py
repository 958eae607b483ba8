"""Does the answer survive another solver or number of steps? Swaps of both on a trained model, and a sound no-flip radius.

A prediction a cannot change while the readout's input moves by less than r = min_j (z_a - z_j) / ||w_a - w_j||, since
z_a - z_j changes by at most ||w_a - w_j|| ||dx||. The input is CLS, after the final norm where the readout has one.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from odevit.errors import NonFiniteError, UserError
from odevit.flow import find_method, integrate
from odevit.trajectory import TimeGrid

from ..operators import as_float64, check_finite, provenance
from ..reports import AnswersReport, SwapReport


def readout_input(model, x: Tensor) -> Tensor:
    """What the linear head sees of a state (..., N, D): CLS after the final norm, where there is one; shape (..., D)."""
    return model.readout_input(x)


def no_flip_radius(model, x: Tensor) -> Tensor:
    """Distance that the readout's input may move before the prediction can change.

    Args:
        model: with a linear `head` on `norm`(CLS), as ODEViT and ViT.
        x: final states, (..., N, D).

    Returns:
        (...,), in the space of `readout_input`: for a model with a final norm that is the normalised CLS token, not the state.
        In that space it is exact, the length of the smallest move that ties two logits; 0 for a tie.

    Raises:
        UserError: a head that is not linear.
    """
    if not isinstance(model.head, torch.nn.Linear):
        raise UserError(f"model: its head is a {type(model.head).__name__}; the no-flip radius needs a linear head")
    with torch.no_grad():
        logits, weight = model.head(readout_input(model, x)), model.head.weight
        winner = logits.argmax(-1, keepdim=True)
        margin = logits.gather(-1, winner) - logits  # (..., C), 0 for the winner
        apart = (weight[winner] - weight).norm(dim=-1)  # ||w_a - w_j||
        never = torch.where(margin > 0, torch.inf, 0.0).to(margin)  # classes with equal rows keep their distance
        radius = torch.where(apart > 0, margin / apart, never)
        return radius.scatter(-1, winner, torch.inf).amin(-1)


def solver_swap(
    model,
    images: Tensor,
    methods: Sequence[str] = ("euler", "midpoint", "rk4", "dopri5"),
    steps: Sequence[int] | None = None,
    *,
    labels: Tensor | None = None,
    batch_size: int = 128,
) -> SwapReport:
    """Change of logits, predictions and accuracy for every method and number of steps, against the trained solver.

    Args:
        model: ODEViT (or ViT, whose layers then are steps of a piecewise field).
        images: normalised, (M, C, H, W). labels: (M,), for accuracies.
        methods: solver names; adaptive ones are run once, with the model's tolerances.
        steps: numbers of steps; half, once, twice and four times the trained number unless given.

    Returns:
        SwapReport, one row for each solve. flip_rate is never above 1 - certain_rate: a theorem, not a measurement.

    Raises:
        UserError: unknown method, steps that do not end at the field's breaks, labels that do not fit.

    Cost: the sum of the rows' nfe, in float64, for each image.
    """
    _check(images, labels)
    double, trained = as_float64(model), model.grid.steps
    if steps is None:
        steps = sorted({max(1, trained // 2), trained, 2 * trained, 4 * trained})
    rows = [(m, s) for m in methods for s in (steps if find_method(m).kind != "adaptive" else (0,))]
    base = _solve(double, images, model.solver.method, trained, batch_size)
    return tabulated([_answers(double, images, m, s or trained, labels, batch_size, base) for m, s in rows])


def tabulated(answers: Sequence[AnswersReport]) -> SwapReport:
    """The table of answers to the same images under several solvers, a row each; NaN in a row whose state blew up."""
    table = [_row(report) for report in answers]
    first = answers[0]
    columns = {name: np.array([row[name] for row in table]) for name in table[0]}
    return SwapReport(
        trained_method=first.trained_method, trained_steps=first.trained_steps, images=len(first.logits),
        method=np.array([r.method for r in answers]), steps=np.array([r.steps for r in answers]),
        nfe=np.array([r.nfe for r in answers]), radius=first.radius, provenance=first.provenance, **columns,
    )  # fmt: skip


def solver_answers(
    model, images: Tensor, method: str, steps: int, *, labels: Tensor | None = None, batch_size: int = 128
) -> AnswersReport:
    """The logits of every image under one other solver beside those of the trained one: which predictions flip?

    Args:
        model, images, labels: as in `solver_swap`.   method, steps: the other solver; steps are not used by adaptive methods.

    Returns:
        AnswersReport.

    Raises:
        UserError: as `solver_swap`. NonFiniteError: the trained solver's state blows up; the other's is reported as `broken`.

    Cost: one solve of each kind for each image, in float64.
    """
    _check(images, labels)
    double = as_float64(model)
    base = _solve(double, images, model.solver.method, model.grid.steps, batch_size)
    try:
        return _answers(double, images, method, steps, labels, batch_size, base)
    except NonFiniteError as error:
        lost = _Answers(base.logits * np.nan, base.inputs * np.nan, base.radius, 0)
        return replace(_report(double, images, method, steps, labels, lost, base), broken=str(error))


def _check(images: Tensor, labels: Tensor | None) -> None:
    if images.ndim != 4 or len(images) == 0:
        raise UserError(f"images: shape {tuple(images.shape)}; at least one image (M, C, H, W) is needed")
    if labels is not None and tuple(labels.shape) != (len(images),):
        raise UserError(f"labels: shape {tuple(labels.shape)} for {len(images)} images")


class _Answers(NamedTuple):
    """Logits (M, C), readout inputs (M, D), no-flip radii (M,) and NFE of one solve."""

    logits: Tensor
    inputs: Tensor
    radius: Tensor
    nfe: int


def _solve(model, images: Tensor, method: str, steps: int, batch_size: int) -> _Answers:
    grid, found, nfe = TimeGrid(model.grid.t0, model.grid.t1, steps, save=1), [], 0
    for batch in images.split(batch_size):
        with torch.no_grad():
            x0 = model.initial_state(batch.to(torch.float64))
            solved = integrate(model.field, x0, grid, method, rtol=model.solver.rtol, atol=model.solver.atol)
            x = solved.x[-1]
            check_finite("x(T)", x, f"with {steps} steps of {method}")
            found.append((model.readout(x), readout_input(model, x), no_flip_radius(model, x)))
            nfe = max(nfe, solved.nfe)
    logits, inputs, radius = (torch.cat(parts) for parts in zip(*found))
    return _Answers(logits, inputs, radius, nfe)


def _answers(model, images: Tensor, method: str, steps: int, labels, batch_size: int, base: _Answers) -> AnswersReport:
    return _report(model, images, method, steps, labels, _solve(model, images, method, steps, batch_size), base)


def _report(model, images: Tensor, method: str, steps: int, labels, new: _Answers, base: _Answers) -> AnswersReport:
    adaptive = find_method(method).kind == "adaptive"
    plain = (model.solver.method, model.grid.steps)
    return AnswersReport(
        method=method, steps=0 if adaptive else steps, nfe=new.nfe, trained_method=plain[0], trained_steps=plain[1],
        trained_nfe=base.nfe, logits=new.logits.cpu().numpy(), trained_logits=base.logits.cpu().numpy(),
        shift=(new.inputs - base.inputs).norm(dim=-1).cpu().numpy(), radius=base.radius.cpu().numpy(),
        labels=np.full(len(images), -1) if labels is None else labels.cpu().numpy().astype(int),
        provenance=provenance(model, images),
    )  # fmt: skip


def _row(report: AnswersReport) -> dict[str, float]:
    """What a row of the table says of the answers under one solver."""
    now, before = report.logits.argmax(-1), report.trained_logits.argmax(-1)
    known, nan = bool((report.labels >= 0).all()), float("nan")
    accuracy, trained = (float((p == report.labels).mean()) if known else nan for p in (now, before))
    found = {
        "max_logit_change": float(np.abs(report.logits - report.trained_logits).max()),
        "max_shift": float(report.shift.max()),
        "flip_rate": len(report.flips) / len(now),
        "certain_rate": float((report.shift < report.radius).mean()),
        "accuracy": accuracy,
        "accuracy_change": accuracy - trained,
    }
    return dict.fromkeys(found, nan) if report.broken else found
