"""What the searches for leading values share: dense or not, start vectors, flat states, and the report."""

import numpy as np
import torch
from torch import Tensor

from odevit.errors import UserError

from ..operators import Jacobian, provenance
from ..reports import SpectrumReport

DENSE_BELOW = 512


def checked_k(k: int, dimension: int) -> int:
    """k as an int; UserError unless 1 <= k <= dimension."""
    if isinstance(k, bool) or int(k) != k or not 1 <= k <= dimension:
        raise UserError(f"k: {k} values asked of an operator with {dimension} dimensions; give 1 to {dimension}")
    return int(k)


def is_dense(n: int, k: int) -> bool:
    """Whether k of n values are found by LAPACK: few dimensions, or nearly all values wanted."""
    return n < DENSE_BELOW or 2 * k + 16 >= n


def on_vectors(product, operator: Jacobian):
    """A product of the operator as a map on (..., B, n); B = 1 without a batch axis."""

    def apply(v: Tensor) -> Tensor:
        return product(v.reshape(*v.shape[:-2], *operator.shape_state)).reshape(v.shape)

    return apply


def starts(operator: Jacobian, seed: int) -> tuple[Tensor, torch.Generator]:
    """Start vectors (B, n), the same for every sample, and the source of later directions."""
    generator = torch.Generator().manual_seed(seed)
    draw = torch.randn(operator.n, generator=generator, dtype=torch.float64).to(operator.value)
    return draw.expand(operator.batch or 1, -1), generator


def matrices(operator: Jacobian) -> np.ndarray:
    """The dense operator as float64 (B, n, n) on the CPU, checked to be finite."""
    return operator.dense().double().cpu().numpy().reshape(-1, operator.n, operator.n)


def spectrum_report(
    f, operator: Jacobian, k: int, residuals, sizes, dense: bool, seed: int, budget: int, **values
) -> SpectrumReport:
    """Assemble the report: count what converged, drop the sample axis where there was none."""
    scale = np.nanmax(sizes, axis=1, keepdims=True) if np.isfinite(sizes).any() else 0.0
    good = residuals <= 2 * values["tolerance"] * scale  # measured anew, so not to be held against the last digit
    converged = np.minimum(k, np.ones_like(good).sum(1) if dense else good.sum(1))
    remark = "" if converged.min() >= k else f"{converged.min()} of {k} converged within {budget} products"
    if operator.batch is None:
        residuals, converged = residuals[0], int(converged[0])
        values = {name: v[0] if isinstance(v, np.ndarray) else v for name, v in values.items()}
    return SpectrumReport(
        provenance=provenance(f, operator.value, seed), residuals=residuals, converged=converged, n=operator.n,
        products=operator.products, dense=dense, remark=remark, **values,
    )  # fmt: skip
