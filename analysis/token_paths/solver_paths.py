"""The path of one image under several solvers: where do they go, and how far from the solution of the ODE?

The solution is a fine solve by rk4, whose own error is estimated by Richardson: ||x_h - x_{2h}|| / (2^4 - 1).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from odevit.errors import UserError
from odevit.flow import find_method, integrate
from odevit.trajectory import TimeGrid, Trajectory

from ..operators import as_float64, check_finite, explicit_attention, provenance
from ..reports import SolverPathsReport
from .bases import array, principal_basis

REFINE = 8  # steps of the reference, times the largest number of steps that is asked for and the trained one
ADAPTIVE_TIMES = 32  # saved times of an adaptive solve


def solver_paths(model, image: Tensor, solvers: Sequence[tuple[str, int]]) -> SolverPathsReport:
    """The path of an image under each solver, every step saved, beside a fine reference.

    Args:
        model: ODEViT or ViT; a float64 copy is used.   image: normalised, (1, C, H, W).
        solvers: (method, steps); adaptive methods use the model's tolerances and not the steps.

    Returns:
        SolverPathsReport, the reference first.

    Raises:
        UserError: more than one image, unknown method, steps that do not end at the breaks of the field.
        NonFiniteError: a solve that blows up.

    Cost: the sum of the solves and 6 REFINE times the largest number of steps for the reference; again 4 REFINE times
    for a solve whose times are none of its steps.
    """
    if image.ndim != 4 or len(image) != 1:
        raise UserError(f"image: shape {tuple(image.shape)}; one image (1, C, H, W) is needed")
    double = as_float64(model)
    image = image.to(double.head.weight)
    finest = _lattice(double.grid.steps, [s for m, s in solvers if find_method(m).kind != "adaptive"])
    solves = [_solve(double, image, method, steps) for method, steps in solvers]
    reference, half = (_solve(double, image, "rk4", finest // r) for r in (1, 2))
    error = float((reference.x[-1] - half.x[-1]).norm()) / (2**4 - 1)
    basis = principal_basis(reference.x[:, 0, 0], k=2)
    rows = [reference, *solves]
    gaps = [(s.x - _at(double, reference, s)).flatten(1).norm(dim=1) for s in rows]
    return SolverPathsReport(
        name=np.array([f"rk4, {finest} steps (reference)", *(solver_in_words(m, s) for m, s in solvers)]),
        method=np.array(["rk4", *(m for m, _ in solvers)]), nfe=np.array([s.nfe for s in rows]),
        steps=np.array([finest, *(0 if find_method(m).kind == "adaptive" else s for m, s in solvers)]),
        time=_padded([array(s.t) for s in rows]), plane=_padded([basis.apply(s.x[:, 0, 0]) for s in rows]),
        share=basis.explained, distance=_padded([array(g) for g in gaps]), reference_error=error,
        logits=np.stack([array(double.readout(s.x[-1])[0]) for s in rows]), provenance=provenance(model, reference.x),
    )  # fmt: skip


def solver_in_words(method: str, steps: int) -> str:
    """A solver's name, such as "euler, 3 steps"; an adaptive one has no steps."""
    if find_method(method).kind == "adaptive":
        return method
    return f"{method}, {steps} step{'' if steps == 1 else 's'}"


def _lattice(trained: int, steps: Sequence[int]) -> int:
    """Steps of the reference: REFINE times the largest number, and the trained steps divide it."""
    largest = max([trained, *steps])
    return REFINE * trained * -(-largest // trained)


def _solve(model, image: Tensor, method: str, steps: int) -> Trajectory:
    adaptive = find_method(method).kind == "adaptive"
    grid = TimeGrid(model.grid.t0, model.grid.t1, ADAPTIVE_TIMES if adaptive else steps)
    with torch.no_grad(), explicit_attention():
        x0, solver = model.initial_state(image), model.solver
        solved = integrate(model.field, x0, grid, method, rtol=solver.rtol, atol=solver.atol)
    check_finite("trajectory", solved.x, f"with {solver_in_words(method, steps)}")
    return solved


def _at(model, reference: Trajectory, solved: Trajectory) -> Tensor:
    """The reference at the times of another solve: its own states, or a solve with the same steps saved there."""
    near = (solved.t[:, None] - reference.t).abs().min(dim=1)
    if bool((near.values < model.grid.tolerance).all()):
        return reference.x[near.indices]
    grid = TimeGrid(model.grid.t0, model.grid.t1, len(reference.t) - 1, save=solved.t.tolist())
    with torch.no_grad(), explicit_attention():
        return integrate(model.field, reference.x[0], grid, "rk4").x


def _padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of different lengths as one, NaN where a row has ended."""
    most = max(map(len, rows))
    padding = [((0, most - len(row)), *((0, 0),) * (row.ndim - 1)) for row in rows]
    return np.stack([np.pad(row, pad, constant_values=np.nan) for row, pad in zip(rows, padding)])
