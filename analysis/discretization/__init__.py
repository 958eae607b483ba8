"""Is the net the ODE it claims to be? Euler error estimates, observed order, linear stability, solver swaps, splittings."""

from .euler_bounds import classical_bound, euler_error, logarithmic_bound
from .richardson import observed_order
from .splitting import local_error_terms, splitting_error
from .stability import largest_step, stability_function, stability_region, step_stability
from .swaps import no_flip_radius, readout_input, solver_answers, solver_swap, tabulated

__all__ = [
    "classical_bound", "euler_error", "largest_step", "local_error_terms", "logarithmic_bound", "no_flip_radius",
    "observed_order", "readout_input", "solver_answers", "solver_swap", "splitting_error", "stability_function",
    "stability_region", "step_stability", "tabulated",
]  # fmt: skip
