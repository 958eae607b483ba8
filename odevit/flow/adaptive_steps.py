"""Adaptive solves by torchdiffeq (Chen et al. 2018, 1806.07366), restarted where the field changes its block.

The solver's times are float64 whatever the state is, so close save times stay apart. The last step ends at the end: torchdiffeq
alone steps over it and interpolates, with an error that the tolerance does not know of.
"""

import torch
from torchdiffeq import odeint

from ..errors import NonFiniteError
from ..trajectory import TimeGrid
from .fixed_steps import State, piece_at
from .solvers import Method

MAX_CALLS = 20_000  # a solve that would need more is stiff or rough beyond use; a trained field takes a few hundred
PATIENCE = 500  # calls before the rest is extrapolated from the progress
BLOW_UP = 1e6  # a state that grew by this factor has blown up


class _GivenUp(Exception):
    """The solve would take more than MAX_CALLS."""


class _Counted:
    """The field; counts its calls over all pieces and remembers the last, to say where a solve stopped."""

    def __init__(self, f, grid: TimeGrid):
        self.f, self.grid, self.calls = f, grid, 0
        self.last: tuple = (grid.t0, None)

    def enter(self, a: float, b: float) -> None:
        """From now on, the piece between times a and b."""
        self.inside = piece_at(self.f, (a + b) / 2)

    def __call__(self, t, x: State) -> State:
        self.calls += 1
        self.last = (t.detach(), x)
        if self.calls > PATIENCE and self.calls > MAX_CALLS * self.progress():
            raise _GivenUp
        return self.inside(t, x)

    def progress(self) -> float:
        """The share of the interval behind the last call."""
        return (float(self.last[0]) - self.grid.t0) / (self.grid.t1 - self.grid.t0)


def solve_adaptive(f, x0: State, grid: TimeGrid, method: Method, rtol: float, atol: float) -> tuple[list[State], int]:
    """States at the save times and the calls of f; arguments and errors as in `integrate`."""
    sign, close = (1.0 if grid.h > 0 else -1.0), grid.tolerance
    breaks = [b for b in getattr(f, "breaks", ()) if sign * (b - grid.t0) > close and sign * (grid.t1 - b) > close]
    edges = [grid.t0, *sorted(breaks, reverse=grid.h < 0), grid.t1]
    counted, found, x = _Counted(f, grid), {grid.t0: x0}, x0
    for a, b in zip(edges, edges[1:]):
        counted.enter(a, b)
        wanted = [a, *(t for t in grid.save_times if sign * (t - a) > close and sign * (b - t) > close), b]
        states = _odeint(counted, x, wanted, method.name, rtol, atol)
        found |= dict(zip(wanted, states))
        x = states[-1]
    return [found[min(found, key=lambda s: abs(s - t))] for t in grid.save_times], counted.calls


def _odeint(f: _Counted, x: State, times: list[float], name: str, rtol: float, atol: float) -> list[State]:
    first = x[0] if isinstance(x, tuple) else x
    t = torch.tensor(times, dtype=torch.float64, device=first.device)
    try:
        out = odeint(f, x, t, rtol=rtol, atol=atol, method=name, options={"step_t": t[-1:]})
    except (AssertionError, _GivenUp) as error:
        where = f"{name} stopped at t = {float(f.last[0]):.4g} after {f.calls} evaluations"
        raise NonFiniteError(f"{where}: {_cause(f, x, t[0], isinstance(error, _GivenUp))}") from error
    return list(zip(*out)) if isinstance(out, tuple) else list(out)


def _parts(x: State) -> tuple:
    return x if isinstance(x, tuple) else (x,)


def _finite(x: State) -> bool:
    return all(bool(torch.isfinite(p).all()) for p in _parts(x))


def _largest(x: State) -> float:
    return max(float(p.abs().max()) for p in _parts(x))


@torch.no_grad()
def _cause(f: _Counted, x: State, t, given_up: bool) -> str:
    """Why an adaptive solve stopped, in words: the start state, the weights, the field, a blow-up, or stiffness."""
    if not _finite(x):
        return "the start state is not finite (look at the input and the tokenizer's weights)"
    weights = getattr(f.f, "parameters", None)
    if callable(weights) and not all(bool(torch.isfinite(w).all()) for w in weights()):
        return "the field's weights hold NaN or infinite values"
    dtype, (_, last) = _parts(x)[0].dtype, f.last
    if not _finite(f.inside(t.to(dtype), x)):
        return "the field is not finite at the start state"
    start, end = _largest(x), _largest(last)
    if not _finite(last) or end > BLOW_UP * max(start, 1.0):
        return f"the state blows up (from {start:.3g} to {end:.3g})"
    speed = _largest(f.inside(f.last[0].to(dtype), last))
    reason = f"more than {MAX_CALLS} are needed" if given_up else "the step size shrinks to nothing"
    return f"{reason}; the field is too large, stiff or rough (|dx/dt| {speed:.3g} at |x| {end:.3g}, |x(t0)| {start:.3g})"
