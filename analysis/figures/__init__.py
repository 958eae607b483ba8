"""Report(s) -> matplotlib Figure, one function per figure of a paper; `FIGURES` lists them all.

Every function draws Reports only, takes `ax=` where it is one axes, and has the caption that we would print as its docstring.
"""

from collections.abc import Callable
from typing import NamedTuple

from matplotlib.figure import Figure

from .bound_plots import lipschitz_over_time, lipschitz_parts
from .exponent_plots import (
    exponents_by_class,
    exponents_confidence,
    exponents_histogram,
    exponents_right_wrong,
    lyapunov_convergence,
    lyapunov_spectrum,
)
from .influence_plots import block_influence, effect_map, effect_on_patches, influence_on_patches
from .solver_plots import error_along, euler_error, solver_accuracy, solver_flips
from .spectrum_plots import jacobian_eigenvalues, norms_over_time, numerical_range
from .style import paper, save
from .teacher_plots import control_points, match_distance
from .verdict_plots import certificate_table, jasmin_bounds, token_growth


class Entry(NamedTuple):
    """A figure of the list: its function, and the reports that it draws in the order of its arguments.

    Reports are named as `analysis.run` names its files; "NAME-*" stands for all reports NAME-1, NAME-2 .. as one list, and a
    name with a question mark may be missing.
    """

    function: Callable[..., Figure]
    reports: tuple[str, ...]


FIGURES: dict[str, Entry] = {
    "certificate": Entry(certificate_table, ("certificate",)),
    "token_growth": Entry(token_growth, ("certificate",)),
    "jacobian_eigenvalues": Entry(jacobian_eigenvalues, ("certificate", "region?")),
    "norms_over_time": Entry(norms_over_time, ("certificate", "flow?")),
    "numerical_range": Entry(numerical_range, ("range",)),
    "lipschitz_over_time": Entry(lipschitz_over_time, ("lipschitz-*",)),
    "lipschitz_parts": Entry(lipschitz_parts, ("lipschitz",)),
    "exponents_histogram": Entry(exponents_histogram, ("exponents",)),
    "exponents_by_class": Entry(exponents_by_class, ("exponents",)),
    "exponents_right_wrong": Entry(exponents_right_wrong, ("exponents",)),
    "exponents_confidence": Entry(exponents_confidence, ("exponents",)),
    "lyapunov_spectrum": Entry(lyapunov_spectrum, ("lyapunov", "finite?")),
    "lyapunov_convergence": Entry(lyapunov_convergence, ("lyapunov",)),
    "euler_error": Entry(euler_error, ("euler-*", "order?")),
    "error_along": Entry(error_along, ("euler",)),
    "solver_accuracy": Entry(solver_accuracy, ("sweep",)),
    "solver_flips": Entry(solver_flips, ("sweep",)),
    "block_influence": Entry(block_influence, ("influence", "paths?")),
    "influence_on_patches": Entry(influence_on_patches, ("influence-*", "paths")),
    "effect_map": Entry(effect_map, ("effects",)),
    "effect_on_patches": Entry(effect_on_patches, ("effects", "paths")),
    "match_distance": Entry(match_distance, ("match",)),
    "jasmin_bounds": Entry(jasmin_bounds, ()),
}

__all__ = [
    "FIGURES", "Entry", "block_influence", "certificate_table", "control_points", "effect_map", "effect_on_patches",
    "error_along", "euler_error", "exponents_by_class", "exponents_confidence", "exponents_histogram",
    "exponents_right_wrong", "influence_on_patches", "jacobian_eigenvalues", "jasmin_bounds", "lipschitz_over_time",
    "lipschitz_parts", "lyapunov_convergence", "lyapunov_spectrum", "match_distance", "norms_over_time", "numerical_range",
    "paper", "save", "solver_accuracy", "solver_flips", "token_growth",
]  # fmt: skip
