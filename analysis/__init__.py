"""Exact, matrix-free numerics on (field, trajectory); every analysis returns a Report of NumPy arrays."""

from .attention_maps import attention_along
from .discretization import (
    euler_error,
    no_flip_radius,
    observed_order,
    solver_swap,
    splitting_error,
    stability_region,
    step_stability,
)
from .interventions import KnockOut, KnockOutHead, Patch, Perturb, effect_map, intervene
from .lipschitz import flow_bound, lipschitz
from .lyapunov import exponents_over, finite_time_exponents, kaplan_yorke, lyapunov_spectrum, net_and_ode
from .operators import Jacobian, as_float64, flow_jacobian, jacobian, second_derivative, tangent_flow
from .pairs import pair, pair_reports
from .running import run
from .spectra import (
    block_influence,
    divergence,
    jacobian_spectrum,
    logarithmic_norm,
    non_normality,
    numerical_range,
    singular_values,
    spectral_abscissa,
    weight_spectra,
)
from .token_paths import logit_lens, plane_field, principal_basis, procrustes_distance, teacher_student, token_paths
from .wellposed import certificate

__all__ = [
    "Jacobian", "KnockOut", "KnockOutHead", "Patch", "Perturb", "as_float64", "attention_along", "block_influence",
    "certificate", "divergence", "effect_map", "euler_error", "exponents_over", "finite_time_exponents", "flow_bound",
    "flow_jacobian", "intervene", "jacobian", "jacobian_spectrum", "kaplan_yorke", "lipschitz", "logarithmic_norm",
    "logit_lens", "lyapunov_spectrum", "net_and_ode", "no_flip_radius", "non_normality", "numerical_range", "observed_order",
    "pair", "pair_reports", "plane_field", "principal_basis", "procrustes_distance", "run", "second_derivative",
    "singular_values", "solver_swap", "spectral_abscissa", "splitting_error", "stability_region", "step_stability",
    "tangent_flow", "teacher_student", "token_paths", "weight_spectra",
]  # fmt: skip
