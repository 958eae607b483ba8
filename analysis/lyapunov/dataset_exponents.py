"""Finite-time exponents of a model over a set of images: distribution, classes, right against wrong.

Does a larger expansion along an image's trajectory go with a wrong answer? AUC = P(lambda_1 of a wrong one > lambda_1 of a
right one), 0.5 = no relation.
"""

from collections.abc import Callable

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from odevit.errors import UserError
from odevit.trajectory import TimeGrid

from ..operators import as_float64, flow_jacobian, provenance
from ..reports import ExponentsOverReport
from .auc import auc_interval
from .continuing import system_name
from .finite_time import rates_of

TOLERANCE = 1e-4  # relative residual of a singular value: four digits say all that a distribution over images can


def exponents_over(
    model,
    images: Tensor,
    labels: Tensor | None = None,
    k: int = 1,
    *,
    grid: TimeGrid | None = None,
    method: str | None = None,
    batch_size: int = 16,
    tolerance: float = TOLERANCE,
    budget: int = 200,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> ExponentsOverReport:
    """The k largest finite-time exponents of every image, and how they go with classes, errors and confidence.

    Args:
        model: has initial_state, field, readout, grid and solver.method, as ODEViT and ViT.
        images: normalised, (M, C, H, W). labels: (M,) integers, or None.
        grid, method: the trained ones unless given, so that the exponents are those of the net as trained.
        batch_size: images at once; the results do not depend on it.
        tolerance: relative residual of a singular value; budget: products for each image.
        progress: called with the number of images done after each batch.

    Returns:
        ExponentsOverReport; AUC NaN where no labels are given or all answers are right or all wrong.

    Raises:
        UserError: no image, labels that do not fit. NonFiniteError: a weight, state or product that is not finite.

    Cost: for each batch 2 solves and one for each product, about 20 to 40 for k = 1. Memory: one solve of the batch in float64.
    """
    if images.ndim != 4 or len(images) == 0:
        raise UserError(f"images: shape {tuple(images.shape)}; at least one image (M, C, H, W) is needed")
    if labels is not None and tuple(labels.shape) != (len(images),):
        raise UserError(f"labels: shape {tuple(labels.shape)} for {len(images)} images")
    double = as_float64(model)
    grid, method = grid or model.grid, method or model.solver.method
    span, rows, residuals, logits, missing = abs(grid.t1 - grid.t0), [], [], [], 0
    for batch in images.split(batch_size):
        with torch.no_grad():
            x0 = double.initial_state(batch.to(torch.float64))
        phi = flow_jacobian(double.field, x0, grid, method, batch_dims=1)
        rates, gaps, converged = rates_of(phi, k, span, tolerance=tolerance, budget=budget, seed=seed)
        rows.append(rates.cpu())
        residuals.append(gaps.cpu())
        missing += int((~converged).sum())
        with torch.no_grad():
            logits.append(double.readout(phi.value).cpu())
        if progress is not None:
            progress(sum(map(len, rows)))
    notes = (f"{missing} of {len(images) * k} values not converged: lower bounds",) if missing else ()
    confidence, predicted = (a.numpy() for a in torch.cat(logits).softmax(-1).max(-1))
    truth = np.full(len(images), -1) if labels is None else labels.cpu().numpy().astype(int)
    return summarise(
        torch.cat(rows).numpy(), torch.cat(residuals).numpy(), predicted, confidence, truth, notes,
        system=system_name(grid, method), horizon=span, provenance=provenance(model, x0, seed),
    )  # fmt: skip


def summarise(exponents, residuals, predicted, confidence, labels, notes, **known) -> ExponentsOverReport:
    """The report of exponents (M, k) that are there already: statistics by class, AUC and rank correlation.

    Args:
        exponents, residuals: (M, k).   predicted, confidence: (M,).   labels: (M,), -1 throughout where none are given.
        notes: of the computation.   known: system, horizon and provenance.
    """
    given = bool((labels >= 0).all())
    correct, largest = predicted == labels, exponents[:, 0]
    auc = auc_interval(largest[~correct], largest[correct]) if given else auc_interval([], [])
    groups = labels if given else predicted
    classes = np.unique(groups)
    members = [largest[groups == c] for c in classes]
    varied = len(largest) > 2 and np.ptp(largest) > 0 and np.ptp(confidence) > 0
    return ExponentsOverReport(
        exponents=exponents, residuals=residuals, predicted=predicted, confidence=confidence, labels=labels, correct=correct,
        classes=classes, class_mean=np.array([m.mean() for m in members]), class_std=np.array([m.std() for m in members]),
        class_count=np.array([m.size for m in members]), mean=float(largest.mean()), std=float(largest.std()), auc=auc.value,
        auc_low=auc.low, auc_high=auc.high, notes=tuple(notes) + ((auc.remark,) if auc.remark and given else ()),
        confidence_rank_correlation=float(spearmanr(largest, confidence).statistic) if varied else float("nan"), **known,
    )  # fmt: skip
