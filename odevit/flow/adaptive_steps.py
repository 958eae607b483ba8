"""Adaptive solves by torchdiffeq (Chen et al. 2018, 1806.07366), restarted where the field changes its block.

The solver's times are float64 whatever the state is, so close save times stay apart.
"""

import torch
from torchdiffeq import odeint

from ..errors import NonFiniteError
from ..trajectory import TimeGrid
from .fixed_steps import State, piece_at
from .solvers import Method

MAX_STEPS = 20_000  # a solve that needs more is stiff or noisy beyond use; torchdiffeq's own default is 2^31 - 1
BLOW_UP = 1e6  # a state that grew by this factor has blown up


class _Counted:
    """The field of one piece; counts its calls and remembers the last, to say where a solve stopped."""

    def __init__(self, f):
        self.f, self.calls, self.last = f, 0, (0.0, None)

    def __call__(self, t, x: State) -> State:
        self.calls += 1
        self.last = (t, x)
        return self.f(t, x)


def solve_adaptive(f, x0: State, grid: TimeGrid, method: Method, rtol: float, atol: float) -> tuple[list[State], int]:
    """States at the save times and the calls of f; arguments and errors as in `integrate`."""
    sign, close = (1.0 if grid.h > 0 else -1.0), grid.tolerance
    breaks = [b for b in getattr(f, "breaks", ()) if sign * (b - grid.t0) > close and sign * (grid.t1 - b) > close]
    edges = [grid.t0, *sorted(breaks, reverse=grid.h < 0), grid.t1]
    found, x, calls = {grid.t0: x0}, x0, 0
    for a, b in zip(edges, edges[1:]):
        inside = _Counted(piece_at(f, (a + b) / 2))
        wanted = [a, *(t for t in grid.save_times if sign * (t - a) > close and sign * (b - t) > close), b]
        states = _odeint(inside, x, wanted, method.name, rtol, atol)
        found |= dict(zip(wanted, states))
        x, calls = states[-1], calls + inside.calls
    return [found[min(found, key=lambda s: abs(s - t))] for t in grid.save_times], calls


def _odeint(f: _Counted, x: State, times: list[float], name: str, rtol: float, atol: float) -> list[State]:
    first = x[0] if isinstance(x, tuple) else x
    t = torch.tensor(times, dtype=torch.float64, device=first.device)
    try:
        out = odeint(f, x, t, rtol=rtol, atol=atol, method=name, options={"max_num_steps": MAX_STEPS})
    except AssertionError as error:
        where = f"{name} stopped at t = {float(f.last[0]):.4g} after {f.calls} evaluations"
        raise NonFiniteError(f"{where}: {_cause(f, x, t[0], error)}") from error
    return list(zip(*out)) if isinstance(out, tuple) else list(out)


def _parts(x: State) -> tuple:
    return x if isinstance(x, tuple) else (x,)


def _finite(x: State) -> bool:
    return all(bool(torch.isfinite(p).all()) for p in _parts(x))


@torch.no_grad()
def _cause(f: _Counted, x: State, t, error: Exception) -> str:
    """Why an adaptive solve stopped, in words: the start state, the weights, the field, a blow-up, or stiffness."""
    if not _finite(x):
        return "the start state is not finite (look at the input and the tokenizer's weights)"
    weights = getattr(f.f, "parameters", None)
    if callable(weights) and not all(bool(torch.isfinite(w).all()) for w in weights()):
        return "the field's weights hold NaN or infinite values"
    last = f.last[1]
    if not _finite(f.f(t.to(_parts(x)[0].dtype), x)):
        return "the field is not finite at the start state"
    start, end = (max(float(p.abs().max()) for p in _parts(s)) for s in (x, last))
    if not _finite(last) or end > BLOW_UP * max(start, 1.0):
        return f"the state blows up (from {start:.3g} at the start to {end:.3g})"
    reason = f"more than {MAX_STEPS} steps" if "max_num_steps" in str(error) else "the step size shrinks to nothing"
    return f"{reason}; the field is stiff or rough there, a fixed-step method or larger tolerances may do"
