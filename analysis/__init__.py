"""Exact, matrix-free numerics on (field, trajectory); every analysis returns a Report of NumPy arrays."""

from .operators import Jacobian, as_float64, flow_jacobian, jacobian, second_derivative, tangent_flow

__all__ = [
    "Jacobian", "as_float64", "flow_jacobian", "jacobian", "second_derivative", "tangent_flow",
]  # fmt: skip
