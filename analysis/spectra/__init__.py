"""The Jacobian at one point: leading eigenvalues and singular values, logarithmic norm, numerical range, influence of tokens."""

from .leading import jacobian_spectrum, leading_eigenvalues, spectral_abscissa
from .singular import logarithmic_norm, singular_triplets, singular_values, singular_values_of
from .zeros import center, centered_basis, has_center_norms, structural_zeros

__all__ = [
    "center", "centered_basis", "has_center_norms", "jacobian_spectrum", "leading_eigenvalues", "logarithmic_norm",
    "singular_triplets", "singular_values", "singular_values_of", "spectral_abscissa", "structural_zeros",
]  # fmt: skip
