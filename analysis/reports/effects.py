"""Reports on interventions along t: one change, and a map of effects over times and regions."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import Report

_CELL = ("time", "region", "image")


@dataclass(frozen=True, kw_only=True, eq=False)
class InterventionReport(Report):
    """What a change at time t does to the logits and to the rest of the path.

    Attributes:
        change: in words.   t: when.   time: times from t to T (K',).
        size: norm of the change of the state, (B,); 0 where only the field was changed.
        logits_before, logits_after: (B, C).   kl: KL(p_before || p_after), nats, (B,).   flipped: prediction changed, (B,).
        token_distance: ||x_i'(s) - x_i(s)|| for every token, (K', B, N).
        restart_gap: largest difference between the model's logits and those of the unchanged restart; rounding, or an adaptive
            solver's tolerance.
    """

    change: str
    t: float
    time: np.ndarray
    size: np.ndarray
    logits_before: np.ndarray
    logits_after: np.ndarray
    kl: np.ndarray
    flipped: np.ndarray
    token_distance: np.ndarray
    restart_gap: float

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "time": ("time",), "size": ("image",), "logits_before": ("image", "class"), "logits_after": ("image", "class"),
        "kl": ("image",), "flipped": ("image",), "token_distance": ("time", "image", "token"),
    }  # fmt: skip
    units: ClassVar[dict[str, str]] = {"t": "t", "time": "t", "size": "state", "kl": "nat", "token_distance": "state"}

    @property
    def delta_logits(self) -> np.ndarray:
        """Logits after minus before, (B, C)."""
        return self.logits_after - self.logits_before

    @property
    def distance(self) -> np.ndarray:
        """||x'(s) - x(s)|| over all tokens, (K', B)."""
        return np.linalg.norm(self.token_distance, axis=-1)


@dataclass(frozen=True, kw_only=True, eq=False)
class EffectMapReport(Report):
    """The effect of a change at every time and region.

    Attributes:
        change: in words (its tokens or head stand for each region in turn).   time: (T,).   regions: names (R,).
        size: norm of the change of the state.   kl: nats.   flipped: prediction changed.
        logit_change: of the class predicted before.   margin_change: of its lead over the best other class. All (T, R, B).
    """

    change: str
    time: np.ndarray
    regions: tuple[str, ...]
    size: np.ndarray
    kl: np.ndarray
    flipped: np.ndarray
    logit_change: np.ndarray
    margin_change: np.ndarray

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "time": ("time",), **dict.fromkeys(("size", "kl", "flipped", "logit_change", "margin_change"), _CELL),
    }  # fmt: skip
    units: ClassVar[dict[str, str]] = {"time": "t", "size": "state", "kl": "nat"}
