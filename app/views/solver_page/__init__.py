"""Solver: is the net the ODE it claims to be? Other solvers and steps, what flips, errors with bounds, largest steps."""

import streamlit as st

from analysis.token_paths import solver_in_words
from app import panels
from app.state import Visit
from odevit.flow import find_method

from .one_solver import other
from .solver_table import table
from .step_errors import errors, limits

SECTIONS = {"One other solver": other, "Error of Euler's method": errors, "Largest stable steps": limits}


def show(visit: Visit) -> None:
    """The numbers; all solvers on some images; one solver on this image and on those that flip; errors and largest steps."""
    panels.head("Solver", "Can it take half the steps? What changes under other solvers, and the bounds that say why.")
    numbers, said = st.empty(), [_trained(visit)]
    with panels.section():
        table(visit)
    for title, part in SECTIONS.items():
        with numbers.container():
            panels.numbers(said)
        with panels.section(title):
            said += part(visit)
    with numbers.container():
        panels.numbers(said)


def _trained(visit: Visit) -> tuple[str, str, str]:
    solver, grid = visit.model.solver, visit.model.grid
    step = "" if find_method(solver.method).kind == "adaptive" else f"h = {grid.h:.4g}, "
    return "Trained solver", solver_in_words(solver.method, solver.steps), f"{step}T = {solver.horizon:g}."
