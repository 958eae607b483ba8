"""The Jacobian at one point: leading eigenvalues and singular values, logarithmic norm, numerical range, token influence."""

from .influence import block_influence, divergence
from .leading import jacobian_spectrum, leading_eigenvalues, spectral_abscissa
from .ranges import non_normality, numerical_range
from .rates import growth_rates
from .searching import checked_k
from .singular import logarithmic_norm, singular_triplets, singular_values, singular_values_of
from .weights import weight_spectra
from .zeros import center, centered_basis, has_center_norms, structural_zeros

__all__ = [
    "block_influence", "center", "centered_basis", "checked_k", "divergence", "growth_rates", "has_center_norms",
    "jacobian_spectrum", "leading_eigenvalues", "logarithmic_norm", "non_normality", "numerical_range", "singular_triplets",
    "singular_values", "singular_values_of", "spectral_abscissa", "structural_zeros", "weight_spectra",
]  # fmt: skip
