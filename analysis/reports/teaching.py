"""PairReport: a discrete teacher and the ODE student that it taught, on the same images."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .base import Report

_SCORES = ("parameters", "macs", "nfe", "accuracy")
_KNOWN = ("before", "after")  # what the training wrote down


@dataclass(frozen=True, kw_only=True, eq=False)
class PairReport(Report):
    """How far a student is from its teacher, whether they agree, and what each costs; L layers of the teacher.

    Attributes:
        teacher: kind and hash of the teacher; the student's stands in the provenance.   split: of the images.   images: n.
        control_times: (L + 1,) times at which the student shall be at h_0 .. h_L.   control: where they come from.
        horizon, steps: of the student.   temperature: of the control points, NaN where it is not known.
        moved: (L,) mean distance that the teacher moves in each layer; the control points follow from these.
        distance: (L + 1,) root of mean |x_k - y_k|^2 / mean |y_k|^2 of CLS at each control time; 0 = on the teacher, 1 = no
            better than zero.
        overlap: (L,) mean over images of sum_j min(p_j, q_j) of what CLS attends to, heads averaged; 1 = the same patches.
        agreement: share of images with the same prediction; NaN where the heads have other classes.
        parameters, macs, nfe, accuracy: (2,) of teacher and student; top-1 accuracy is NaN without labels.
        before, after: what pair.json says of the pair before and after training, on validation; empty where it is not known.
        time: (K,) saved times of the student.   student_cls, teacher_cls: (K, n, k), (L + 1, n, k) coordinates of CLS on the
            principal axes of both together.   basis_mean, basis_components, variances: those axes (D,), (k, D), and the
            variance along all of them (D,).
    """

    teacher: str
    split: str
    images: int
    control_times: np.ndarray
    control: str
    horizon: float
    steps: int
    temperature: float
    moved: np.ndarray
    distance: np.ndarray
    overlap: np.ndarray
    agreement: float
    parameters: np.ndarray
    macs: np.ndarray
    nfe: np.ndarray
    accuracy: np.ndarray
    before: dict[str, Any]
    after: dict[str, Any]
    time: np.ndarray
    student_cls: np.ndarray
    teacher_cls: np.ndarray
    basis_mean: np.ndarray
    basis_components: np.ndarray
    variances: np.ndarray

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "control_times": ("control",), "distance": ("control",), "moved": ("layer",), "overlap": ("layer",), "time": ("time",),
        "student_cls": ("time", "image", "component"), "teacher_cls": ("control", "image", "component"),
        **dict.fromkeys(_SCORES, ("model",)),
        **{f"{when}.{name}": ("control",) for when in _KNOWN for name in ("times", "distance")},
        **{f"{when}.overlap": ("layer",) for when in _KNOWN},
        **{f"{when}.{name}": ("model",) for when in _KNOWN for name in _SCORES[:3]},
    }  # fmt: skip
    units: ClassVar[dict[str, str]] = {
        "control_times": "t", "horizon": "t", "time": "t", "temperature": "state", "moved": "state", "student_cls": "state",
        "teacher_cls": "state",
    }  # fmt: skip

    def rows(self) -> list[dict[str, Any]]:
        """Teacher and student as rows of a table: model, parameters, MACs, NFE, accuracy."""
        columns = zip(("teacher", "student"), *(getattr(self, name).tolist() for name in _SCORES))
        return [dict(zip(("model", *_SCORES), row)) for row in columns]
