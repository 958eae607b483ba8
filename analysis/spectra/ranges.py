"""The numerical range W(J) = {v* J v : |v| = 1} by Johnson's method, and how far J is from normal.

For each angle the top eigenpair of (e^{-i theta} J + e^{i theta} J^T) / 2 gives the support h(theta) and a boundary point
v* J v (Johnson 1978, SIAM J. Numer. Anal. 15). W is convex and holds all eigenvalues; its rightmost point is mu(J).
Henrici's number sqrt(|J|_F^2 - sum |lambda|^2) is 0 for normal J only.
"""

import math

import numpy as np
import torch
from torch import Tensor

from odevit.errors import UserError

from ..operators import Field, Jacobian, jacobian, provenance
from ..reports import RangeReport, ValueReport
from .krylov import drive, krylov_schur
from .leading import spectral_abscissa
from .searching import DENSE_BELOW, matrices
from .singular import logarithmic_norm


def numerical_range(
    f: Field, x: Tensor, t: float = 0.0, angles: int = 32, *, tolerance: float = 1e-6, budget: int = 1000, seed: int = 0
) -> RangeReport:
    """W(J(t, x)) of one state between an inner and an outer polygon, with the numerical radius from both sides.

    Args:
        f, x, t: field, one state of any shape, time.   angles: even number of directions; W is symmetric about the real axis.
        tolerance, seed: as `jacobian_spectrum`.   budget: products for each angle.

    Raises UserError for an odd number of angles or fewer than 4. Cost: 4 products for each Lanczos step on complex vectors,
    about 100 field evaluations for each of angles / 2 + 1 directions; dense below 512 dimensions.
    """
    if angles < 4 or angles % 2:
        raise UserError(f"angles: {angles}; give an even number, 4 or more")
    operator = jacobian(f, x, t)
    theta = 2 * math.pi * np.arange(angles) / angles
    half = theta[: angles // 2 + 1]
    if operator.n < DENSE_BELOW:
        found = [_dense_support(matrices(operator)[0], angle) for angle in half]
    else:
        found = _supports(operator, half, tolerance, budget, seed)
    support, points, residuals = (np.array(column) for column in zip(*found))
    mirrored = slice(-2, 0, -1)  # theta -> 2 pi - theta
    support = np.concatenate([support, support[mirrored]])
    points = np.concatenate([points, points[mirrored].conj()])
    outer = _corners(theta, support + residuals.max())
    return RangeReport(
        provenance=provenance(f, operator.value, seed), angles=theta, support=support, points=points, outer=outer,
        radius=float(np.abs(points).max()), radius_upper=float(np.abs(outer).max()), residual=float(residuals.max()),
        products=operator.products, t=float(t),
    )  # fmt: skip


def _corners(theta: np.ndarray, support: np.ndarray) -> np.ndarray:
    """Where the support line at each angle meets the next one."""
    step = theta[1] - theta[0]
    following = np.roll(support, -1)
    return np.exp(1j * theta) * (support + 1j * (following - support * math.cos(step)) / math.sin(step))


def _dense_support(matrix: np.ndarray, angle: float) -> tuple[float, complex, float]:
    turned = np.exp(-1j * angle) * matrix
    values, vectors = np.linalg.eigh((turned + turned.conj().T) / 2)
    v = vectors[:, -1]
    return values[-1], v.conj() @ matrix @ v, 0.0


def _supports(operator: Jacobian, half, tolerance: float, budget: int, seed: int) -> list[tuple[float, complex, float]]:
    """(h, boundary point, residual) for each angle; v = a + ib is carried as (a, b) in 2n real dimensions."""
    n, generator = operator.n, torch.Generator().manual_seed(seed)

    def both(v: Tensor) -> tuple[Tensor, Tensor]:
        parts = v.reshape(2, *operator.shape_state)
        return operator.matvec(parts).reshape(2, n), operator.rmatvec(parts).reshape(2, n)

    def turned(v: Tensor, angle: float) -> Tensor:
        forth, back = both(v)
        even, odd = (forth + back) / 2, (forth - back) / 2
        cos, sin = math.cos(angle), math.sin(angle)
        return torch.cat([cos * even[0] + sin * odd[1], cos * even[1] - sin * odd[0]])

    found, previous = [], torch.zeros(2 * n, dtype=operator.dtype, device=operator.device)
    for angle in half:
        fresh = torch.randn(2 * n, generator=generator, dtype=torch.float64).to(previous)
        process = krylov_schur(
            previous + fresh / fresh.norm(), 1, "LR", lambda _, scale: tolerance * scale, symmetric=True,
            budget=max(1, budget // 4), generator=generator,
        )  # fmt: skip
        (pairs,) = drive([process], lambda v, angle=angle: turned(v[0], angle)[None])  # type: ignore[misc]
        v = pairs.vectors[0] / pairs.vectors[0].norm()
        image, forth = turned(v, angle), both(v)[0]
        value = float(v @ image)
        a, b = v.reshape(2, n)
        point = complex(float(a @ forth[0] + b @ forth[1]), float(a @ forth[1] - b @ forth[0]))
        found.append((value, point, float((image - value * v).norm())))
        previous = v
    return found


def non_normality(f: Field, x: Tensor, t: float = 0.0, *, seed: int = 0) -> ValueReport:
    """Henrici's number of J(t, x) where it fits into a dense matrix, else mu - alpha; both are 0 for normal J.

    mu - alpha > 0 says that growth at early times is faster than the eigenvalues tell.
    """
    operator = jacobian(f, x, t)
    if operator.n < DENSE_BELOW:
        matrix = matrices(operator)[0]
        gap = (matrix**2).sum() - (np.abs(np.linalg.eigvals(matrix)) ** 2).sum()
        return ValueReport(provenance=provenance(f, operator.value), name="Henrici number", value=math.sqrt(max(gap, 0.0)),
                           side="exact", products=operator.products, t=float(t))  # fmt: skip
    mu, alpha = logarithmic_norm(f, x, t, seed=seed), spectral_abscissa(f, x, t, seed=seed)
    return ValueReport(
        provenance=mu.provenance, name="mu - alpha", value=float(mu) - float(alpha), residual=mu.residual + alpha.residual,
        side="Ritz values, no bound", products=mu.products + alpha.products, t=float(t), remark=mu.remark or alpha.remark,
    )  # fmt: skip
