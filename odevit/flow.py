"""The flow map: integrate dx/dt = f(t, x) over a grid and return a Trajectory.

Fixed-step Runge-Kutta methods are data (`Tableau`: nodes, weights, order); adaptive methods are torchdiffeq's. The splittings
solve dx/dt = F(x) + G(x) by sub-flows of F and G (Lie-Trotter; Strang 1968), each taking one step of a one-step method.
A fixed-step solve is its own discrete map: differentiating it gives the same method applied to the variational equation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from torchdiffeq import odeint
from torchdiffeq._impl.odeint import SOLVERS

from .config import nearest
from .errors import NonFiniteError, UserError
from .trajectory import TimeGrid, Trajectory, stack_states

State = Any  # a tensor, or a tuple of tensors
MAX_ADAPTIVE_STEPS = 20_000  # a solve that needs more is stiff or noisy beyond use; torchdiffeq's own default is 2^31 - 1


@dataclass(frozen=True)
class Tableau:
    """An explicit Runge-Kutta method: x1 = x + h sum_i b_i k_i, k_i = f(t + c_i h, x + h sum_j<i a_ij k_j)."""

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...]

    def stability(self, z):
        """R(z) = 1 + z b^T (I - zA)^-1 1, the factor of one step on dx/dt = lambda x with z = h lambda (NumPy, any shape)."""
        stages: list[Any] = []
        for row in self.a:
            stages.append(1 + z * sum((w * s for w, s in zip(row, stages)), 0 * z))
        return 1 + z * sum(w * s for w, s in zip(self.b, stages))


@dataclass(frozen=True)
class Method:
    """A solver as data: name, order of convergence, kind ("fixed", "adaptive" or "splitting") and tableau (None: a splitting)."""

    name: str
    order: int
    kind: str
    tableau: Tableau | None = None
    substep: "Method | None" = None


_FIXED = {
    "euler": Method("euler", 1, "fixed", Tableau(((),), (1.0,), (0.0,))),
    "midpoint": Method("midpoint", 2, "fixed", Tableau(((), (0.5,)), (0.0, 1.0), (0.0, 0.5))),
    "heun2": Method("heun2", 2, "fixed", Tableau(((), (1.0,)), (0.5, 0.5), (0.0, 1.0))),
    "heun3": Method("heun3", 3, "fixed", Tableau(((), (1 / 3,), (0.0, 2 / 3)), (0.25, 0.0, 0.75), (0.0, 1 / 3, 2 / 3))),
    "rk4": Method(
        "rk4", 4, "fixed",
        Tableau(((), (1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)), (1 / 8, 3 / 8, 3 / 8, 1 / 8), (0.0, 1 / 3, 2 / 3, 1.0)),
    ),
}  # fmt: skip  # rk4 is torchdiffeq's: Kutta's 3/8 rule
_SPLITTINGS = ("lie_trotter", "strang")


def _adaptive() -> dict[str, Method]:
    found = {}
    for name, solver in SOLVERS.items():
        raw = getattr(solver, "tableau", None)
        if raw is not None and hasattr(solver, "order"):
            rows = ((), *(tuple(row.tolist()) for row in raw.beta))
            tableau = Tableau(rows, tuple(raw.c_sol.tolist()), (0.0, *raw.alpha.tolist()))
            found[name] = Method(name, int(solver.order), "adaptive", tableau)
    return found


def methods() -> dict[str, Method]:
    """The solvers that work here, by name: one-step methods of the installed torchdiffeq, and our splittings."""
    fixed = {name: method for name, method in _FIXED.items() if name in SOLVERS}
    splittings = {name: find_method(name) for name in _SPLITTINGS}
    return fixed | _adaptive() | splittings


def unsupported() -> dict[str, str]:
    """Solvers of the installed torchdiffeq that are not offered, each with the reason."""
    reasons = {"scipy_solver": "runs in SciPy and returns no gradient"}
    known = {**_FIXED, **_adaptive()}
    other = "multistep or implicit: no one-step stability function"
    return {name: reasons.get(name, other) for name in SOLVERS if name not in known}


def find_method(name: str) -> Method:
    """The Method of this name; splittings take a sub-step method after a colon ("strang:midpoint", Euler unless given).

    Raises UserError with the nearest name and the list of those that work.
    """
    base, _, sub = name.partition(":")
    if base in _SPLITTINGS:
        substep = find_method(sub or "euler")
        if substep.kind != "fixed":
            raise UserError(f"method: {name!r} needs a fixed-step sub-step, not {sub!r}")
        order = min(substep.order, 1 if base == "lie_trotter" else 2)
        return Method(name, order, "splitting", None, substep)
    known = {n: m for n, m in _FIXED.items() if n in SOLVERS} | _adaptive()
    if name in known:
        return known[name]
    if name in unsupported():
        raise UserError(f"method: {name!r} is not supported ({unsupported()[name]})")
    names = [*known, *_SPLITTINGS]
    raise UserError(f"method: unknown {name!r}{nearest(name, names)} (installed: {', '.join(names)})")


def integrate(
    f: Callable[[Any, State], State],
    x0: State,
    grid: TimeGrid,
    method: str = "euler",
    *,
    rtol: float = 1e-6,
    atol: float = 1e-8,
    segments: int = 0,
) -> Trajectory:
    """Solve dx/dt = f(t, x), x(t0) = x0 over `grid` and return the states at its save times.

    Args:
        f: any callable of (t: 0-d tensor, x: state) -> state. A field that is smooth only piece by piece has `breaks` (interior
            times) and `piece(t)`, the smooth callable around t; steps must end at the breaks, an adaptive solve restarts there.
        x0: a tensor of any shape or a tuple of tensors, float32 or better.
        grid: times. A fixed-step method takes exactly grid.steps steps.
        method: see `methods()`.
        rtol, atol: tolerances of adaptive methods.
        segments: activation checkpointing over this many runs of steps: memory grows by one state a segment, time by one
            forward pass. 0 = off. Steps at which a state is saved also end a run.

    Returns:
        Trajectory with x of shape (K, *state). NFE: stages x steps; a splitting counts the part that is called more often.

    Raises:
        UserError: unknown method, half-precision state, steps that do not end at the breaks of f.
        NonFiniteError: an adaptive method cannot go on.
    """
    solver = find_method(method)
    for part in x0 if isinstance(x0, tuple) else (x0,):
        if part.dtype in (torch.float16, torch.bfloat16):
            raise UserError(f"state: {part.dtype} is too coarse for a solver; keep the state in float32 or float64")
    if solver.kind == "adaptive":
        states, nfe = _solve_adaptive(f, x0, grid, solver, rtol, atol)
        return Trajectory(torch.tensor(grid.save_times, dtype=torch.float64), stack_states(states), method, None, nfe)
    return _solve_fixed(f, x0, grid, solver, segments)


def _add(x: State, scale: float, k: State) -> State:
    """x + scale * k."""
    if isinstance(x, tuple):
        return tuple(_add(a, scale, b) for a, b in zip(x, k))
    return torch.add(x, k, alpha=scale)


def _runge_kutta_step(f, tableau: Tableau, t, h: float, x: State) -> State:
    stages: list[State] = []
    for row, node in zip(tableau.a, tableau.c):
        y = x
        for weight, k in zip(row, stages):
            y = _add(y, h * weight, k) if weight else y
        stages.append(f(t + node * h if node else t, y))
    for weight, k in zip(tableau.b, stages):
        x = _add(x, h * weight, k) if weight else x
    return x


def _splitting_step(f, method: Method, t, h: float, x: State) -> State:
    """Attention's sub-flow first, as in a sequential ViT block; Strang: F over h/2, G over h, F over h/2."""
    assert method.substep is not None and method.substep.tableau is not None
    tableau = method.substep.tableau

    def attention(s, y):
        return f.attention_part(y, s)

    def mlp(s, y):
        return f.mlp_part(y, s)

    if method.name.startswith("lie_trotter"):
        x = _runge_kutta_step(attention, tableau, t, h, x)
        return _runge_kutta_step(mlp, tableau, t, h, x)
    x = _runge_kutta_step(mlp, tableau, t, h / 2, x)
    x = _runge_kutta_step(attention, tableau, t, h, x)
    return _runge_kutta_step(mlp, tableau, t + h / 2, h / 2, x)


def step(f, method: Method, t, h: float, x: State) -> State:
    """One step of a fixed-step method or splitting from (t, x)."""
    if method.kind == "splitting":
        return _splitting_step(f, method, t, h, x)
    assert method.tableau is not None
    return _runge_kutta_step(f, method.tableau, t, h, x)


def calls_per_step(method: Method) -> int:
    """Calls of the field in one step; for a splitting, of the part that is called more often."""
    if method.substep is not None and method.substep.tableau is not None:
        return len(method.substep.tableau.b) * (1 if method.name.startswith("lie_trotter") else 2)
    assert method.tableau is not None
    return len(method.tableau.b)


def piece_at(f, t: float):
    """The smooth piece of f around time t; f itself where f has no pieces."""
    return f.piece(t) if getattr(f, "breaks", ()) else f


def _check_breaks(f, grid: TimeGrid) -> None:
    for time in getattr(f, "breaks", ()):
        position = (time - grid.t0) / grid.h
        if 0 < position < grid.steps and abs(position - round(position)) > 1e-6:
            raise UserError(f"steps: with {grid.steps} steps no step ends at t = {time:g}, where the field changes its block")


def _times(x0: State, grid: TimeGrid) -> Tensor:
    first = x0[0] if isinstance(x0, tuple) else x0
    return torch.tensor(grid.times, dtype=first.dtype, device=first.device)


def _solve_fixed(f, x0: State, grid: TimeGrid, method: Method, segments: int) -> Trajectory:
    _check_breaks(f, grid)
    if method.kind == "splitting" and not hasattr(f, "attention_part"):
        raise UserError(f"method: {method.name!r} splits F + G, but this field has no attention_part and mlp_part")
    times, h = _times(x0, grid), grid.h

    def run(x: State, first: int, last: int) -> State:
        for k in range(first, last):
            x = step(piece_at(f, grid.t0 + (k + 0.5) * h), method, times[k], h, x)
        return x

    positions = [_position(grid, t) for t in grid.save_times]
    stops = {p for position in positions for p in (int(position), -int(-position // 1))} | {grid.steps}
    if segments:
        stops |= {round(i * grid.steps / segments) for i in range(1, segments)}
    at_step, k, x = {0: x0}, 0, x0
    for stop in sorted(stops - {0}):
        x = checkpoint(run, x, k, stop, use_reentrant=False, preserve_rng_state=False) if segments else run(x, k, stop)
        k, at_step[stop] = stop, x
    states = [at_step[int(p)] if p == int(p) else _hermite(f, grid, times, at_step, p) for p in positions]
    between = [p != int(p) for p in positions]
    nfe = grid.steps * calls_per_step(method) + 2 * sum(between)
    saved = torch.tensor(grid.save_times, dtype=torch.float64)
    mask = torch.tensor(between) if any(between) else None
    return Trajectory(saved, stack_states(states), method.name, h, nfe, interpolated=mask)


def _position(grid: TimeGrid, t: float) -> float:
    """Where t lies in units of steps; a whole number where t is a step."""
    position = (t - grid.t0) / grid.h
    return float(round(position)) if abs(t - (grid.t0 + round(position) * grid.h)) <= grid.tolerance else position


def _hermite(f, grid: TimeGrid, times: Tensor, at_step: dict, position: float) -> State:
    """Cubic Hermite interpolation inside a step, with the field's values at both ends; error O(h^4)."""
    k, s = int(position), position - int(position)
    inside, h = piece_at(f, grid.t0 + (k + 0.5) * grid.h), grid.h
    x, y = at_step[k], at_step[k + 1]
    v, w = inside(times[k], x), inside(times[k + 1], y)
    rise = _add(y, -1.0, x)
    out = _add(x, s * s * (3 - 2 * s), rise)
    return _add(_add(out, h * s * (1 - s) ** 2, v), h * s * s * (s - 1), w)


def _solve_adaptive(f, x0: State, grid: TimeGrid, method: Method, rtol: float, atol: float):
    breaks = [b for b in getattr(f, "breaks", ()) if min(grid.t0, grid.t1) < b < max(grid.t0, grid.t1)]
    edges = [grid.t0, *sorted(breaks, reverse=grid.h < 0), grid.t1]
    calls, found, x = 0, {grid.t0: x0}, x0
    sign = 1.0 if grid.h > 0 else -1.0
    for a, b in zip(edges, edges[1:]):
        inside = piece_at(f, (a + b) / 2)

        def counted(t, y, inside=inside):
            nonlocal calls
            calls += 1
            return inside(t, y)

        wanted = [a, *(t for t in grid.save_times if sign * (t - a) > 0 and sign * (b - t) > 0), b]
        states = _odeint(counted, x, wanted, method.name, rtol, atol)
        found |= dict(zip(wanted, states))
        x = states[-1]
    return [found[min(found, key=lambda s: abs(s - t))] for t in grid.save_times], calls


def _odeint(f, x: State, times: list[float], name: str, rtol: float, atol: float) -> list[State]:
    first = x[0] if isinstance(x, tuple) else x
    t = torch.tensor(times, dtype=first.dtype, device=first.device)
    try:
        out = odeint(f, x, t, rtol=rtol, atol=atol, method=name, options={"max_num_steps": MAX_ADAPTIVE_STEPS})
    except AssertionError as error:
        where = f"{name} stopped between t = {times[0]:g} and {times[-1]:g}"
        raise NonFiniteError(f"{where}: {explain(f, x, t[0], error)}") from error
    return list(zip(*out)) if isinstance(out, tuple) else list(out)


def explain(f, x: State, t, error: Exception) -> str:
    """Why an adaptive solve stopped, in words: the start state, the field there, or a step size that shrank to nothing."""
    parts = x if isinstance(x, tuple) else (x,)
    if not all(bool(torch.isfinite(p).all()) for p in parts):
        return "the start state is not finite (look at the input and the tokenizer's weights)"
    weights = getattr(getattr(f, "__self__", f), "parameters", None)
    if callable(weights) and not all(bool(torch.isfinite(w).all()) for w in weights()):
        return "the field's weights hold NaN or infinite values"
    value = f(t, x)
    parts = value if isinstance(value, tuple) else (value,)
    if not all(bool(torch.isfinite(p).all()) for p in parts):
        return "the field is not finite at the start state (look at its weights)"
    largest = max(float(p.abs().max()) for p in parts)
    return f"the step size underflows, so the state blows up or is stiff (|dx/dt| up to {largest:.3g} at the start; {error})"
