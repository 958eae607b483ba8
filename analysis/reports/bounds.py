"""LipschitzReport and FlowBoundReport: how strongly a field and its flow can stretch, from which side, on which region."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import Report


@dataclass(frozen=True)
class Part:
    """One bound: `values` over states (equal entries where it does not depend on the state) and what it means.

    side: lower, local or upper.   region: where it holds.   norm: 2, inf, or mu_2 (the logarithmic norm).
    status: proven, measured or vacuous.
    """

    values: np.ndarray
    side: str
    region: str
    norm: str
    reference: str
    status: str

    @property
    def value(self) -> float:
        """The largest value over the states."""
        return float(self.values.max())


@dataclass(frozen=True, kw_only=True, eq=False)
class LipschitzReport(Report):
    """Bounds of ||J(t, x)||, the spectral norm of df/dx: lower <= true <= local at the states, local <= upper on the ball.

    Attributes:
        lower: largest ||J v|| / ||v|| found at each state; NaN without states.
        local: proven upper bound of ||J|| at each state; infinite where no bound is known.
        upper: proven bound on the ball max_i ||x_i|| <= radius, at time t (at all times of the piece for a moving shift).
        ascent: the largest stretch that gradient ascent found in the ball; a measured lower bound of what `upper` bounds.
        residual: relative residual ||J^T J v - s^2 v|| / s^2 of `lower`.
        radius, t: the ball and the time.   products: J v and J^T u spent on each state's `lower`.
        part, side, region, norm, reference, status: one entry for each bound; `value` (part, state) its values.
        vacuous: whether `upper` says nothing (LayerNorm's global constant, or no bound known).
    """

    lower: float | np.ndarray
    local: float | np.ndarray
    upper: float
    ascent: float
    residual: float | np.ndarray
    radius: float
    t: float
    products: int
    vacuous: bool
    part: np.ndarray
    value: np.ndarray
    side: np.ndarray
    region: np.ndarray
    norm: np.ndarray
    reference: np.ndarray
    status: np.ndarray

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "part": ("part",), "value": ("part", "state"), "side": ("part",), "region": ("part",), "norm": ("part",),
        "reference": ("part",), "status": ("part",),
    }  # fmt: skip
    units: ClassVar[dict[str, str]] = {
        "lower": "1/t", "local": "1/t", "upper": "1/t", "ascent": "1/t", "value": "1/t", "radius": "state", "t": "t",
    }  # fmt: skip

    @property
    def parts(self) -> dict[str, Part]:
        """Every bound by name, the published ones beside ours."""
        rows = zip(self.part, self.value, self.side, self.region, self.norm, self.reference, self.status)
        return {str(name): Part(values, *map(str, words)) for name, values, *words in rows}


@dataclass(frozen=True, kw_only=True, eq=False)
class FlowBoundReport(Report):
    """Stretch of the flow map along one trajectory from logarithmic norms: least <= sigma_n(Phi) <= sigma_1(Phi) <= most.

    Attributes:
        t: saved times, (K,).   expansion: mu(J(x(t))), (K,) or (B, K).   contraction: mu(-J(x(t))), as expansion.
        most: exp of the integral of mu(J) by the trapezoid rule.   least: exp of minus that of mu(-J).
        residual: largest residual of the logarithmic norms, which are Ritz values (measured, not proven).
    """

    t: np.ndarray
    expansion: np.ndarray
    contraction: np.ndarray
    most: float | np.ndarray
    least: float | np.ndarray
    residual: float

    axes: ClassVar[dict[str, tuple[str, ...]]] = {"t": ("t",), "expansion": ("t",), "contraction": ("t",)}
    units: ClassVar[dict[str, str]] = {
        "t": "t",
        "expansion": "1/t",
        "contraction": "1/t",
        "most": "1",
        "least": "1",
        "residual": "1/t",
    }
