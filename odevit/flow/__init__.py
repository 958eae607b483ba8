"""The flow map: integrate dx/dt = f(t, x) over a grid and return a Trajectory.

Fixed-step Runge-Kutta methods and splittings are ours (`solvers`, `fixed_steps`), adaptive methods are torchdiffeq's
(`adaptive_steps`). A fixed-step solve is its own discrete map: differentiating it gives the same method applied to the
variational equation.
"""

from collections.abc import Callable
from typing import Any

import torch

from ..errors import UserError
from ..trajectory import TimeGrid, Trajectory, stack_states
from .adaptive_steps import solve_adaptive
from .fixed_steps import State, piece_at, solve_fixed, step
from .solvers import Method, Tableau, calls_per_step, find_method, methods, unsupported

__all__ = [
    "Method", "Tableau", "calls_per_step", "find_method", "integrate", "methods", "piece_at", "step", "unsupported",
]  # fmt: skip


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
        Trajectory with x of shape (K, *state). NFE: stages x steps, and 2 for each step that a saved time falls into; a
        splitting counts the part that is called more often.

    Raises:
        UserError: unknown method, half-precision state, steps that do not end at the breaks of f, segments that cannot be.
        NonFiniteError: an adaptive method cannot go on.

    >>> solved = integrate(lambda t, x: -x, torch.ones(1, dtype=torch.float64), TimeGrid(0.0, 1.0, steps=2))
    >>> solved.x.flatten().tolist(), solved.nfe
    ([1.0, 0.5, 0.25], 2)
    """
    solver = find_method(method)
    for part in x0 if isinstance(x0, tuple) else (x0,):
        if part.dtype in (torch.float16, torch.bfloat16):
            raise UserError(f"state: {part.dtype} is too coarse for a solver; keep the state in float32 or float64")
    if segments < 0 or (segments and solver.kind == "adaptive"):
        raise UserError(f"segments: {segments} with {method}; needs 0 or more, and a fixed-step method, whose steps are known")
    if solver.kind == "adaptive":
        states, nfe = solve_adaptive(f, x0, grid, solver, rtol, atol)
        return Trajectory(torch.tensor(grid.save_times, dtype=torch.float64), stack_states(states), method, None, nfe)
    return solve_fixed(f, x0, grid, solver, segments)
