"""Leading eigenvalues of J(t, x) and its spectral abscissa, matrix-free: J v = lambda v, alpha = max Re lambda.

Below DENSE_BELOW dimensions LAPACK does it on the full matrix, above it Krylov-Schur iteration (Stewart 2001).
"""

import numpy as np
import torch
from torch import Tensor

from odevit.errors import UserError

from ..operators import Field, Jacobian, jacobian
from ..reports import SpectrumReport, ValueReport
from .krylov import CRITERIA, drive, krylov_schur, order, whole
from .searching import checked_k, is_dense, matrices, on_vectors, spectrum_report, starts
from .zeros import center, centered_basis, structural_zeros


def leading_eigenvalues(
    operator: Jacobian, k: int, which: str, *, zeros: int = 0, tolerance: float = 1e-6, budget: int = 1000, seed: int = 0
) -> tuple[list[np.ndarray], list[np.ndarray], bool]:
    """(values, residuals, dense) with one array for each sample; `zeros` structural zeros are projected out.

    Residuals are |J v - lambda v| of unit vectors, measured with products of their own.
    """
    if which not in CRITERIA:
        raise UserError(f"which: unknown {which!r} (known: LM, largest modulus; LR, largest real part)")
    k = checked_k(k, operator.n - zeros)
    if is_dense(operator.n, k):
        dense = [_dense_eigenvalues(m, k, which) for m in _without(matrices(operator), operator, zeros)]
        return [values for values, _ in dense], [residuals for _, residuals in dense], True
    project = (lambda v: center(v, operator.shape_state[-1])) if zeros else (lambda v: v)
    apply = on_vectors(operator.matvec, operator)
    start, generator = starts(operator, seed)
    processes = [
        krylov_schur(
            project(v), k, which, lambda _, scale: tolerance * scale, budget=budget, project=project, generator=generator
        )
        for v in start
    ]  # fmt: skip
    found = drive(processes, lambda v: project(apply(v)))
    count = max(len(pairs.values) for pairs in found)
    vectors = torch.zeros(count, len(found), operator.n, dtype=torch.complex128, device=start.device)
    for b, pairs in enumerate(found):
        vectors[: len(pairs.values), b] = pairs.vectors.to(vectors)
    image = project(_complex_product(apply, vectors, start.dtype))
    residuals = []
    for b, pairs in enumerate(found):
        v, value = vectors[: len(pairs.values), b], torch.from_numpy(pairs.values).to(vectors)
        gap = image[: len(pairs.values), b] - value[:, None] * v
        residuals.append((gap.norm(dim=-1) / v.norm(dim=-1)).cpu().numpy())
    return [pairs.values for pairs in found], residuals, False


def _complex_product(apply, vectors: Tensor, dtype: torch.dtype) -> Tensor:
    """J on complex (k, B, n): real parts, and imaginary parts where there are any; the partner of a pair costs nothing."""
    parts = torch.view_as_real(vectors).permute(3, 0, 1, 2)  # (2, k, B, n)
    first = torch.ones(len(vectors), dtype=torch.bool, device=vectors.device)
    first[1:] = (vectors[1:] != vectors[:-1].conj()).any(-1).any(-1)
    image = torch.zeros_like(parts)
    for part in (0, 1):
        rows = first & (parts[part].abs().amax((-1, -2)) > 0)
        if bool(rows.any()):
            image[part, rows] = apply(parts[part, rows].to(dtype)).to(parts)
    partner = ~first
    image[0, partner] = image[0, partner.roll(-1)]
    image[1, partner] = -image[1, partner.roll(-1)]
    return torch.complex(image[0], image[1])


def _without(dense: np.ndarray, operator: Jacobian, zeros: int) -> np.ndarray:
    """The matrices restricted to the complement of the structural zeros."""
    if not zeros:
        return dense
    dim = operator.shape_state[-1]
    basis = np.kron(np.eye(operator.n // dim), centered_basis(dim))  # (n, n - N)
    return basis.T @ dense @ basis


def _dense_eigenvalues(matrix: np.ndarray, k: int, which: str) -> tuple[np.ndarray, np.ndarray]:
    values, vectors = np.linalg.eig(matrix)
    values = values.astype(complex)
    chosen = order(values, which)
    chosen = chosen[: whole(values[chosen], k)]
    v = vectors[:, chosen]
    return values[chosen], np.linalg.norm(matrix @ v - v * values[chosen], axis=0)


def jacobian_spectrum(
    f: Field, x: Tensor, t: float = 0.0, k: int = 16, which: str = "LM", *,
    batch_dims: int = 0, tolerance: float = 1e-6, budget: int = 1000, seed: int = 0,
) -> SpectrumReport:  # fmt: skip
    """The k leading eigenvalues of J(t, x), with residuals; k + 1 where the k-th is one of a conjugate pair.

    Args:
        f, x, t: field, state of any shape (samples first with batch_dims=1), time.
        k: how many.   which: "LM" largest modulus or "LR" largest real part; sorted so, then by imaginary part, descending.
        tolerance: wanted residual relative to the largest |lambda| seen.   budget: products J v allowed.   seed: start vector.

    Returns:
        SpectrumReport; what has not converged within the budget is returned with its residual and counted out in `remark`.
        Over samples, rows are padded with NaN where only another sample has a partner in place k + 1. The N eigenvalues that
        CenterNorm forces to 0 (theory: J (a (x) 1) = 0) are projected out and counted in `structural_zeros`.

    Raises:
        UserError: k outside 1..dimension, unknown which.   NonFiniteError: x, f(t, x) or J is not finite.

    Cost: about 3k to 8k field evaluations; for a non-normal J a small residual does not bound the distance to an eigenvalue.
    """
    operator = jacobian(f, x, t, batch_dims=batch_dims)
    zeros = structural_zeros(f, operator, t)
    values, residuals, dense = leading_eigenvalues(
        operator, k, which, zeros=zeros, tolerance=tolerance, budget=budget, seed=seed
    )  # fmt: skip
    widest = max(k, *(len(v) for v in values))
    eigenvalues = np.stack([np.pad(v, (0, widest - len(v)), constant_values=complex(np.nan, np.nan)) for v in values])
    gaps = np.stack([np.pad(r, (0, widest - len(r)), constant_values=np.nan) for r in residuals])
    return spectrum_report(f, operator, k, gaps, np.abs(eigenvalues), dense, seed, budget, eigenvalues=eigenvalues, which=which,
                     structural_zeros=zeros, t=float(t), tolerance=tolerance)  # fmt: skip


def spectral_abscissa(f: Field, x: Tensor, t: float = 0.0, *, batch_dims: int = 0, **options) -> ValueReport:
    """alpha = max Re lambda of J(t, x), structural zeros left out: the growth rate of the linear system at late times.

    Options as `jacobian_spectrum`. Not a bound where J is large and not normal: read it with `logarithmic_norm`.
    """
    found = jacobian_spectrum(f, x, t, 1, "LR", batch_dims=batch_dims, **options)
    assert found.eigenvalues is not None
    side = "exact" if found.dense else "Ritz value, no bound"
    return ValueReport(
        provenance=found.provenance, name="spectral abscissa", value=found.eigenvalues[..., 0].real, t=float(t),
        residual=found.residuals[..., 0], side=side, products=found.products, remark=found.remark,
    )  # fmt: skip
