"""The four rates of one Jacobian, from the slowest claim to the boldest: -mu(-J) <= alpha <= mu(J) <= ||J||.

d|x - y| / dt of neighbours lies between -mu(-J) |x - y| and mu(J) |x - y|, mu(J) = lambda_max((J + J^T) / 2) (Dahlquist 1958,
Lozinskii 1958); alpha = max Re lambda rules late times of the linear system. mu(J) = alpha and ||J|| = max |lambda| where J is
normal, so that a gap shows how far from normal it is (Trefethen & Embree 2005, Spectra and Pseudospectra).
"""

from typing import Any

import numpy as np
from torch import Tensor

from ..operators import Field, prepared
from ..reports import RatesReport
from .leading import spectral_abscissa
from .singular import logarithmic_norm, singular_values


def growth_rates(
    f: Field, x: Tensor, t: float = 0.0, *, batch_dims: int = 0, tolerance: float = 1e-4, budget: int = 1000, seed: int = 0
) -> RatesReport:
    """||J||, mu(J), spectral abscissa and fastest contraction -mu(-J) of df/dx at (t, x), each with its residual.

    Args:
        f, x, t: field, state of any shape (samples first with batch_dims=1), time.
        tolerance: wanted residual relative to the largest value seen.   budget: products for each of the four.   seed: of start
            vectors.

    Returns:
        RatesReport; exact below 512 dimensions, Ritz values above: ||J|| and mu(J) from below, -mu(-J) from above, alpha from
        no side.

    Raises NonFiniteError where x, f or J is not finite. Cost: about 250 field evaluations. Holds at this state only.
    """
    f, x = prepared(f, x)
    options: dict[str, Any] = {"batch_dims": batch_dims, "tolerance": tolerance, "budget": budget, "seed": seed}
    norm = singular_values(f, x, t, 1, **options)
    mu, against = (logarithmic_norm(g, x, t, **options) for g in (f, lambda s, y: -f(s, y)))
    alpha = spectral_abscissa(f, x, t, **options)
    assert norm.singular_values is not None
    late = {"||J||": norm.remark, "mu(J)": mu.remark, "mu(-J)": against.remark, "alpha": alpha.remark}
    residuals = [norm.residuals[..., 0], mu.residual, against.residual, alpha.residual]
    return RatesReport(
        provenance=norm.provenance, norm=norm.singular_values[..., 0], logarithmic_norm=mu.value, abscissa=alpha.value,
        contraction=-np.asarray(against.value) if batch_dims else -float(against.value), t=float(t), dense=norm.dense,
        residuals=np.stack([np.asarray(r, dtype=float) for r in residuals], -1), tolerance=tolerance,
        products=norm.products + mu.products + against.products + alpha.products,
        remark="; ".join(f"{name}: {said}" for name, said in late.items() if said),
    )  # fmt: skip
