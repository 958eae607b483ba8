"""Fixed-step solves: Runge-Kutta steps and splittings on a uniform grid, saved times in between by cubic Hermite interpolation.

Splittings solve dx/dt = F(x) + G(x) by sub-flows of F and G (Lie-Trotter; Strang 1968), each one step of a one-step method.
"""

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..errors import UserError
from ..trajectory import TimeGrid, Trajectory, stack_states
from .solvers import Method, Tableau, calls_per_step

State = Any  # a tensor, or a tuple of tensors


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


def piece_at(f, t: float):
    """The smooth piece of f around time t; f itself where f has no pieces."""
    return f.piece(t) if getattr(f, "breaks", ()) else f


def _check(f, grid: TimeGrid, method: Method) -> None:
    for time in getattr(f, "breaks", ()):
        position = (time - grid.t0) / grid.h
        if 0 < position < grid.steps and abs(position - round(position)) > 1e-6:
            raise UserError(f"steps: with {grid.steps} steps no step ends at t = {time:g}, where the field changes its block")
    if method.kind == "splitting" and not hasattr(f, "attention_part"):
        raise UserError(f"method: {method.name!r} splits F + G, but this field has no attention_part and mlp_part")


def _times(x0: State, grid: TimeGrid) -> Tensor:
    first = x0[0] if isinstance(x0, tuple) else x0
    return torch.tensor(grid.times, dtype=first.dtype, device=first.device)


def solve_fixed(f, x0: State, grid: TimeGrid, method: Method, segments: int) -> Trajectory:
    """The solution of a fixed-step method or splitting; arguments and errors as in `integrate`."""
    _check(f, grid, method)
    times, h = _times(x0, grid), grid.h

    def run(x: State, first: int, last: int) -> State:
        for k in range(first, last):
            x = step(_piece_of_step(f, grid, k), method, times[k], h, x)
        return x

    positions = [_position(grid, t) for t in grid.save_times]
    stops = {p for position in positions for p in (int(position), -int(-position // 1))} | {grid.steps}
    if segments:
        stops |= {round(i * grid.steps / segments) for i in range(1, segments)}
    at_step, k, x = {0: x0}, 0, x0
    for stop in sorted(stops - {0}):
        x = checkpoint(run, x, k, stop, use_reentrant=False, preserve_rng_state=False) if segments else run(x, k, stop)
        k, at_step[stop] = stop, x
    between = [p != int(p) for p in positions]
    cubics = {k: _cubic(f, grid, times, at_step, k) for k in sorted({int(p) for p in positions if p != int(p)})}
    states = [cubics[int(p)](p - int(p)) if inside else at_step[int(p)] for p, inside in zip(positions, between)]
    nfe = grid.steps * calls_per_step(method) + 2 * len(cubics)
    saved = torch.tensor(grid.save_times, dtype=torch.float64)
    mask = torch.tensor(between) if any(between) else None
    return Trajectory(saved, stack_states(states), method.name, h, nfe, interpolated=mask)


def _piece_of_step(f, grid: TimeGrid, k: int):
    """The piece of f in which step k lies; its middle decides, so a stage at a break uses the block of its own step."""
    return piece_at(f, grid.t0 + (k + 0.5) * grid.h)


def _position(grid: TimeGrid, t: float) -> float:
    """Where t lies in units of steps; a whole number where t is a step."""
    position = (t - grid.t0) / grid.h
    return float(round(position)) if abs(t - (grid.t0 + round(position) * grid.h)) <= grid.tolerance else position


def _cubic(f, grid: TimeGrid, times: Tensor, at_step: dict, k: int):
    """Cubic Hermite interpolation of step k as a function of s in [0, 1]; takes the field at both ends, error O(h^4)."""
    inside, h = _piece_of_step(f, grid, k), grid.h
    x, y = at_step[k], at_step[k + 1]
    v, w = inside(times[k], x), inside(times[k + 1], y)
    rise = _add(y, -1.0, x)

    def at(s: float) -> State:
        out = _add(x, s * s * (3 - 2 * s), rise)
        return _add(_add(out, h * s * (1 - s) ** 2, v), h * s * s * (s - 1), w)

    return at
