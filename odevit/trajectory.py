"""Integration time as data (`TimeGrid`) and the one type that carries the dynamics (`Trajectory`).

`steps` is configured, the step size is derived here and nowhere else: h = (t1 - t0) / steps. Save times never change the steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .errors import UserError
from .layout import TokenLayout

ON_GRID = 1e-9  # two times closer than this, relative to the larger of |t0| and |t1|, are the same time


def _finite(name: str, value) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UserError(f"{name}: {value!r} is not a number") from None
    if not math.isfinite(number):
        raise UserError(f"{name}: {number} is not a finite time")
    return number


def _count(name: str, value) -> int:
    try:
        good = not isinstance(value, bool) and int(value) == value and value >= 1
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        raise UserError(f"{name}: {value!r} is not a positive integer")
    return int(value)


@dataclass(frozen=True)
class TimeGrid:
    """The interval [t0, t1] in `steps` equal steps, and the times to be saved.

    Args:
        t0, t1: start and end; t1 < t0 integrates backwards. One unit is one layer of a discrete ViT.
        steps: number of steps (an adaptive method chooses its own; there it sets the default save times only).
        save: None = every step; an integer K = K + 1 equally spaced times, t0 and t1 included; or a sequence of times,
            strictly monotone from t0 towards t1. Times between steps are interpolated, the steps stay.

    >>> TimeGrid(0.0, 12.0, steps=24).h
    0.5
    >>> TimeGrid(0.0, 1.0, steps=4, save=1).save_times
    (0.0, 1.0)
    """

    t0: float
    t1: float
    steps: int
    save: int | Sequence[float] | None = None

    def __post_init__(self):
        for name in ("t0", "t1"):
            object.__setattr__(self, name, _finite(name, getattr(self, name)))
        if self.t0 == self.t1:
            raise UserError(f"horizon: t0 = t1 = {self.t0:g}, there is nothing to integrate")
        object.__setattr__(self, "steps", _count("steps", self.steps))
        save = getattr(self.save, "tolist", lambda: self.save)()  # NumPy arrays, tensors
        if isinstance(save, Sequence):
            object.__setattr__(self, "save", self._checked(save))
        elif save is not None:
            object.__setattr__(self, "save", _count("save", save))

    def _checked(self, save: Sequence[float]) -> tuple[float, ...]:
        times = tuple(_finite("save", t) for t in save)
        if len(times) < 2:
            raise UserError(f"save: {len(times)} time(s); at least 2 are needed, from t0 to t1")
        sign = math.copysign(1.0, self.t1 - self.t0)
        for a, b in zip(times, times[1:]):
            if sign * (b - a) <= self.tolerance:
                raise UserError(f"save: times {a:g}, {b:g} repeat or run against the direction from {self.t0:g} to {self.t1:g}")
        if sign * (times[0] - self.t0) < -self.tolerance or sign * (times[-1] - self.t1) > self.tolerance:
            raise UserError(f"save: times {times[0]:g} .. {times[-1]:g} leave the interval [{self.t0:g}, {self.t1:g}]")
        return times

    @property
    def tolerance(self) -> float:
        """Times closer than this are the same time; always far below a step."""
        return min(ON_GRID * max(abs(self.t0), abs(self.t1)), abs(self.h) / 1000)

    @property
    def h(self) -> float:
        """Step size (t1 - t0) / steps; negative when time runs backwards."""
        return (self.t1 - self.t0) / self.steps

    @property
    def times(self) -> tuple[float, ...]:
        """The steps + 1 grid times; the last is t1 exactly."""
        return self._spaced(self.steps)

    @property
    def save_times(self) -> tuple[float, ...]:
        """The K times at which states are kept."""
        if self.save is None:
            return self.times
        return self._spaced(self.save) if isinstance(self.save, int) else tuple(self.save)

    def _spaced(self, n: int) -> tuple[float, ...]:
        return tuple(self.t0 + (self.t1 - self.t0) * k / n for k in range(n)) + (self.t1,)

    def with_save(self, save: int | Sequence[float] | None) -> "TimeGrid":
        """The same steps with other save times."""
        return replace(self, save=save)


@dataclass(frozen=True)
class Trajectory:
    """Saved states of one solve.

    Attributes:
        t: (K,) saved times, float64.
        x: (K, *state); (K, B, N, D) for tokens. A tuple of such tensors where the state was a tuple.
        method: name of the solver, or "discrete" for the layers of a ViT.
        h: step size, None for adaptive methods.
        nfe: calls of the vector field in this solve.
        layout: names of the token positions, None where the state is not made of tokens.
        interpolated: (K,) True where the saved time is not a step and the state was filled by cubic Hermite interpolation.
    """

    t: Tensor
    x: Tensor
    method: str
    h: float | None
    nfe: int
    layout: TokenLayout | None = None
    interpolated: Tensor | None = None

    @property
    def cls(self) -> Tensor:
        """States of the [CLS] token, (K, B, 1, D)."""
        return self.x[..., self._named().cls, :]

    @property
    def patches(self) -> Tensor:
        """States of the patch tokens, (K, B, rows * columns, D)."""
        return self.x[..., self._named().patches, :]

    @property
    def registers(self) -> Tensor:
        """States of the register tokens, (K, B, R, D)."""
        return self.x[..., self._named().registers, :]

    def at(self, time: float):
        """The saved state at `time` (a tuple where the state is one); raises UserError where that time was not saved."""
        gap = (self.t - time).abs()
        k = int(gap.argmin())
        if not gap[k] <= ON_GRID * max(1.0, float(self.t.abs().max())):
            raise UserError(f"time: {time:g} was not saved; the nearest saved time is {float(self.t[k]):g}")
        return tuple(part[k] for part in self.x) if isinstance(self.x, tuple) else self.x[k]

    def _named(self) -> TokenLayout:
        if self.layout is None:
            raise ValueError("this trajectory has no token layout: its state is not made of tokens")
        return self.layout


def stack_states(states: list) -> Tensor:
    """Stack K states along a new first axis; tuples of tensors are stacked part by part."""
    if isinstance(states[0], tuple):
        return tuple(torch.stack(parts) for parts in zip(*states))  # type: ignore[return-value]
    return torch.stack(states)
