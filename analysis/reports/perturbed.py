"""Reports on pairs of paths: an image and its perturbed copy, and how far one step can drive them apart."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import Report


@dataclass(frozen=True, kw_only=True, eq=False)
class PerturbationReport(Report):
    """Distance of the paths of an image and of its perturbed copy, under the model's own solver.

    Attributes:
        method, steps: the solver.   time: the K grid times.   registers, patch_grid: of the token layout.
        token_distance: ||x'_i - x_i|| of every token.   distance: of the whole state; distance_cls, distance_patches,
            distance_registers (empty without registers): of its parts.
        reach: ||x|| + ||x'||, the distance that the sizes alone allow; a bound above it is vacuous.
        pixels: norm of the change of the normalised image.
        logits_before, logits_after: at T.   shift: how far the readout's input moved.   radius: no-flip radius, below which
            the prediction cannot have changed.
        lipschitz: proven bound of ||J|| on the ball that holds both states, for each step of Euler; empty for other methods.
        proven: distance(0) times the product of 1 + h lipschitz, at each time: holds for these two paths.
        notes: what a reader must know.
    """

    method: str
    steps: int
    time: np.ndarray
    registers: int
    patch_grid: tuple[int, int]
    token_distance: np.ndarray
    distance: np.ndarray
    distance_cls: np.ndarray
    distance_patches: np.ndarray
    distance_registers: np.ndarray
    reach: np.ndarray
    pixels: float
    logits_before: np.ndarray
    logits_after: np.ndarray
    shift: float
    radius: float
    lipschitz: np.ndarray
    proven: np.ndarray
    notes: tuple[str, ...] = ()

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "token_distance": ("time", "token"), "lipschitz": ("step",),
        **dict.fromkeys(("logits_before", "logits_after"), ("class",)),
        **dict.fromkeys(
            ("time", "distance", "distance_cls", "distance_patches", "distance_registers", "reach", "proven"), ("time",)
        ),
    }  # fmt: skip
    units: ClassVar[dict[str, str]] = {
        "time": "t", "lipschitz": "1/t", "pixels": "normalised pixels",
        **dict.fromkeys(
            ("token_distance", "distance", "distance_cls", "distance_patches", "distance_registers", "reach", "proven", "shift",
             "radius"), "state",
        ),
    }  # fmt: skip

    @property
    def growth(self) -> float:
        """distance(T) / distance(0); NaN where the two start as one."""
        return float(self.distance[-1] / self.distance[0]) if self.distance[0] > 0 else math.nan

    @property
    def rate(self) -> float:
        """(1/T) log growth, unit 1/t: this perturbation's own finite-time rate."""
        return math.log(self.growth) / abs(float(self.time[-1] - self.time[0])) if self.growth > 0 else math.nan

    def vacuous(self, bound: np.ndarray) -> np.ndarray:
        """Where a bound of the distance says no more than the sizes of the two states do."""
        return bound >= self.reach


@dataclass(frozen=True, kw_only=True, eq=False)
class StretchReport(Report):
    """How far single steps can stretch a distance: on one path (to first order), and between two (for finite distances).

    Attributes:
        step: their numbers k.   time: where they begin and end, (step, 2).
        along: ||D psi_k(x_k)||, psi_k the solver's step: ||I + h J|| for Euler. To first order in the distance.
        between: the integral of ||D psi_k|| over the segment from x_k to x'_k, by Simpson's rule: holds for these two paths.
        largest: the largest of the three norms on the segment.
        rate: mean of mu(J) at both ends of the step, unit 1/t: the ODE's growth, to first order in the distance.
        residual: largest relative residual of the norms, which are values found from below.
        quadrature: relative difference of Simpson's and the trapezoid rule in `between`, the largest: a sign of its error.
    """

    step: np.ndarray
    time: np.ndarray
    along: np.ndarray
    between: np.ndarray
    largest: np.ndarray
    rate: np.ndarray
    residual: float
    quadrature: float

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "time": ("step", "end"), **dict.fromkeys(("step", "along", "between", "largest", "rate"), ("step",)),
    }  # fmt: skip
    units: ClassVar[dict[str, str]] = {"time": "t", "rate": "1/t"}

    @classmethod
    def joined(cls, parts: Sequence["StretchReport"]) -> "StretchReport":
        """The steps of several reports as one, in order."""
        order = np.argsort(np.concatenate([p.step for p in parts]), kind="stable")
        names = ("step", "time", "along", "between", "largest", "rate")
        columns = {name: np.concatenate([getattr(p, name) for p in parts])[order] for name in names}
        residual, quadrature = (max(getattr(p, name) for p in parts) for name in ("residual", "quadrature"))
        return cls(residual=residual, quadrature=quadrature, provenance=parts[0].provenance, **columns)

    def bounds(self, start: float) -> dict[str, np.ndarray]:
        """What a distance `start` at the first step can become, at each of the K times, by name.

        "along": start times the product of `along`.   "between": of `between`.   "logarithmic": of exp(h rate).
        """
        spans = np.abs(np.diff(self.time, axis=1))[:, 0]
        logs = {"along": np.log(self.along), "between": np.log(self.between), "logarithmic": spans * self.rate}
        return {name: start * np.exp(np.concatenate([[0.0], np.cumsum(values)])) for name, values in logs.items()}
