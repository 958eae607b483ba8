"""Reports on answers and paths under another solver than the trained one, image by image."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .base import Report


@dataclass(frozen=True, kw_only=True, eq=False)
class AnswersReport(Report):
    """What a model answers to each image under another solver, beside the trained one.

    Attributes:
        method, steps, nfe: of the other solver; steps is 0 for adaptive methods.   trained_method, trained_steps, trained_nfe.
        logits, trained_logits: (image, class).   labels: (image,), -1 where they are not known.
        shift: how far the readout's input moves.   radius: no-flip radius under the trained solver; shift < radius proves that
            the prediction stays.
        broken: why there is no answer, where the other solver's state blew up; logits and shift are NaN then.
    """

    method: str
    steps: int
    nfe: int
    trained_method: str
    trained_steps: int
    trained_nfe: int
    logits: np.ndarray
    trained_logits: np.ndarray
    labels: np.ndarray
    shift: np.ndarray
    radius: np.ndarray
    broken: str = ""

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "logits": ("image", "class"), "trained_logits": ("image", "class"),
        **dict.fromkeys(("labels", "shift", "radius"), ("image",)),
    }  # fmt: skip
    units: ClassVar[dict[str, str]] = {"shift": "readout input", "radius": "readout input"}

    @property
    def flips(self) -> np.ndarray:
        """Numbers of the images whose prediction changes; none where there is no answer."""
        changed = self.logits.argmax(-1) != self.trained_logits.argmax(-1)
        return np.flatnonzero(changed & np.isfinite(self.logits).all(-1))

    @classmethod
    def joined(cls, parts: Sequence["AnswersReport"]) -> "AnswersReport":
        """Reports on different images under the same solver as one; an adaptive solver's NFE is the largest."""
        names = ("logits", "trained_logits", "labels", "shift", "radius")
        columns: dict[str, Any] = {name: np.concatenate([getattr(p, name) for p in parts]) for name in names}
        first, nfe = parts[0], max(p.nfe for p in parts)
        broken = next((p.broken for p in parts if p.broken), "")
        return replace(first, nfe=nfe, broken=broken, **columns)


@dataclass(frozen=True, kw_only=True, eq=False)
class SolverPathsReport(Report):
    """The path of one image under several solvers, in one plane, and its distance to the solution of the ODE.

    Attributes:
        name, method, steps, nfe: of each solve; steps is 0 for adaptive methods. The first is the reference, a fine solve.
        time: (solve, time), the solve's own times; NaN after the last.
        plane: (solve, time, 2): CLS on the two principal axes of the reference's CLS path.   share: of its variance, (2,).
        distance: (solve, time): to the reference, over all tokens.   reference_error: of the reference itself at T, estimated.
        logits: (solve, class).
    """

    name: np.ndarray
    method: np.ndarray
    steps: np.ndarray
    nfe: np.ndarray
    time: np.ndarray
    plane: np.ndarray
    share: np.ndarray
    distance: np.ndarray
    reference_error: float
    logits: np.ndarray

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        **dict.fromkeys(("name", "method", "steps", "nfe"), ("solve",)), "time": ("solve", "place"),
        "plane": ("solve", "place", "axis"), "distance": ("solve", "place"), "share": ("axis",), "logits": ("solve", "class"),
    }  # fmt: skip
    units: ClassVar[dict[str, str]] = {"time": "t", "plane": "state", "distance": "state", "reference_error": "state"}
