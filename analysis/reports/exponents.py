"""Reports on Lyapunov exponents: rates in 1/t, positive = expansion; those of one layer are the same numbers times h."""

from dataclasses import dataclass

import numpy as np

from .base import Report


@dataclass(frozen=True, kw_only=True, eq=False)
class LyapunovReport(Report):
    """Exponents of one flow, with the samples first where there are several.

    Attributes:
        quantity: "finite-time exponents (SVD)" or "averaged log |R_ii| (QR)": they differ at finite T.
        system: the map they belong to, such as "6 steps of euler, h = 1": a solver's exponents are its own, not the ODE's.
        exponents: unit 1/t. SVD: descending. QR: in the order of the columns, descending in the limit.
        residuals: of the singular values, relative; NaN for QR, which has none.
        converged: True where the residual is within the tolerance.
        time, history: cumulative exponents up to these times (QR), empty for SVD.
        along_flow: (1/T) log(||f(x(T))|| / ||f(x0)||), NaN where the field depends on t or vanishes at an end.
        kaplan_yorke, kaplan_yorke_exact: dimension, or a lower bound of it ("> k") where exact is False.
        dimensions: n, those of the state that the exponents describe. zeros_removed: structural zeros projected out.
        horizon: T in units of t. products: tangents and cotangents propagated through the whole solve, per sample.
        notes: what a reader must know.
    """

    quantity: str
    system: str
    exponents: np.ndarray
    residuals: np.ndarray
    converged: np.ndarray
    time: np.ndarray
    history: np.ndarray
    along_flow: float | np.ndarray
    kaplan_yorke: float | np.ndarray
    kaplan_yorke_exact: bool | np.ndarray
    dimensions: int
    zeros_removed: int
    horizon: float
    products: int
    notes: tuple[str, ...] = ()

    axes = {
        "exponents": ("k",), "residuals": ("k",), "converged": ("k",), "time": ("time",), "history": ("time", "k"),
        "along_flow": (), "kaplan_yorke": (), "kaplan_yorke_exact": (),
    }  # fmt: skip
    units = {"exponents": "1/t", "history": "1/t", "along_flow": "1/t", "time": "t", "horizon": "t"}


@dataclass(frozen=True, kw_only=True, eq=False)
class ExponentsOverReport(Report):
    """Largest finite-time exponents of a model over a set of images, against what the model says of them.

    Attributes:
        system: the map they belong to. horizon: T.
        exponents: (image, k), unit 1/t. residuals: relative, of the singular values.
        predicted, confidence: class with the largest logit and its softmax probability.
        labels: true classes, -1 where none were given. correct: predicted == labels, False where none were given.
        classes, class_mean, class_std, class_count: of the largest exponent, by true class (by predicted class without labels).
        mean, std: of the largest exponent over all images.
        auc, auc_low, auc_high: probability that a wrongly classified image has a larger exponent than a right one, with a 95 %
            interval (DeLong); 0.5 = the exponent says nothing about errors.
        confidence_rank_correlation: Spearman's, of largest exponent and confidence.
    """

    system: str
    horizon: float
    exponents: np.ndarray
    residuals: np.ndarray
    predicted: np.ndarray
    confidence: np.ndarray
    labels: np.ndarray
    correct: np.ndarray
    classes: np.ndarray
    class_mean: np.ndarray
    class_std: np.ndarray
    class_count: np.ndarray
    mean: float
    std: float
    auc: float
    auc_low: float
    auc_high: float
    confidence_rank_correlation: float
    notes: tuple[str, ...] = ()

    axes = {
        "exponents": ("image", "k"), "residuals": ("image", "k"), "predicted": ("image",), "confidence": ("image",),
        "labels": ("image",), "correct": ("image",), "classes": ("class",), "class_mean": ("class",), "class_std": ("class",),
        "class_count": ("class",),
    }  # fmt: skip
    units = {"exponents": "1/t", "class_mean": "1/t", "class_std": "1/t", "mean": "1/t", "std": "1/t", "horizon": "t"}
