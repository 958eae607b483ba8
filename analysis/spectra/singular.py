"""Leading singular values of J(t, x) and its logarithmic norm, matrix-free.

J v = sigma u with J^T u = sigma v, through Lanczos on J^T J; mu = lambda_max((J + J^T) / 2), so that d|x - y|/dt <= mu |x - y|
for neighbours (Soderlind 2006, BIT 46). alpha <= mu <= |J| = sigma_1.
"""

import numpy as np
import torch
from torch import Tensor

from ..operators import Field, Jacobian, jacobian, provenance
from ..reports import SpectrumReport, ValueReport
from .krylov import drive, krylov_schur
from .searching import checked_k, is_dense, matrices, on_vectors, spectrum_report, starts

ROOTS = 1e-7  # squares are good to 1e-16, so a singular value below this share of the largest is no better known than so


def singular_triplets(
    operator: Jacobian, k: int, *, tolerance: float = 1e-6, budget: int = 1000, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(u, sigma, v, residual): left vectors (k, *state), values (k,) descending, right vectors (k, *state), residuals (k,).

    With a batch axis u and v keep it in place and sigma, residual are (B, k). residual = |J^T u - sigma v|, while J v = sigma u
    holds by construction: sigma are values of J on a subspace, so never above the true ones in the same place.
    """
    k = checked_k(k, operator.n)
    if is_dense(operator.n, k):
        left, values, right = np.linalg.svd(matrices(operator))
        u, s, v = (torch.from_numpy(a.copy()).to(operator.value) for a in (left[..., :k], values[..., :k], right[:, :k]))
        u, v = u.permute(2, 0, 1), v.transpose(0, 1)  # (k, B, n)
        return _shaped(operator, u, s, v, torch.zeros_like(s))
    forth, back = on_vectors(operator.matvec, operator), on_vectors(operator.rmatvec, operator)
    start, generator = starts(operator, seed)

    def threshold(values: np.ndarray, scale: float) -> np.ndarray:
        return tolerance * np.sqrt(scale) * np.maximum(np.sqrt(np.abs(values)), ROOTS * np.sqrt(scale))

    processes = [
        krylov_schur(v, k, "LR", threshold, symmetric=True, budget=max(1, budget // 2), generator=generator) for v in start
    ]
    found = drive(processes, lambda v: back(forth(v)))
    count = min(len(pairs.values) for pairs in found)
    v = torch.stack([pairs.vectors[:count] for pairs in found], 1)  # (k, B, n)
    left, s, right = torch.linalg.svd(forth(v).permute(1, 2, 0).double().cpu(), full_matrices=False)  # (B, n, k), .., (B, k, k)
    v = torch.einsum("bij,jbn->ibn", right.to(v), v)
    u, s = left.to(v).permute(2, 0, 1), s.to(v)
    residual = (back(u) - s.T[..., None] * v).norm(dim=-1).T
    return _shaped(operator, u, s, v, torch.where(s > ROOTS * s[:, :1], residual, s))  # of sigma = 0 only v is determined


def _shaped(operator: Jacobian, u: Tensor, s: Tensor, v: Tensor, residual: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    shape = (len(u), *operator.shape_state)
    if operator.batch is None:
        s, residual = s[0], residual[0]
    return u.reshape(shape), s, v.reshape(shape), residual


def singular_values(
    f: Field, x: Tensor, t: float = 0.0, k: int = 4, *,
    batch_dims: int = 0, tolerance: float = 1e-6, budget: int = 1000, seed: int = 0,
) -> SpectrumReport:  # fmt: skip
    """The k largest singular values of J(t, x), descending, with residuals; the first is |J|, approached from below.

    Arguments, returns and errors as `jacobian_spectrum`; structural zeros need no projection (J P = J). Cost: about 6k to 10k
    field evaluations (J^T J v is two).
    """
    operator = jacobian(f, x, t, batch_dims=batch_dims)
    return singular_values_of(operator, k, f, t, tolerance=tolerance, budget=budget, seed=seed)


def singular_values_of(
    operator: Jacobian, k: int, f: Field, t: float = 0.0, *, tolerance: float = 1e-6, budget: int = 1000, seed: int = 0
) -> SpectrumReport:
    """`singular_values` of a Jacobian or flow Jacobian that is there already; f names the model in the provenance."""
    _, s, _, residual = singular_triplets(operator, k, tolerance=tolerance, budget=budget, seed=seed)
    values, gaps = (a.double().cpu().numpy().reshape(operator.batch or 1, -1) for a in (s, residual))
    missing = ((0, 0), (0, k - values.shape[1]))
    values, gaps = (np.pad(a, missing, constant_values=np.nan) for a in (values, gaps))
    return spectrum_report(f, operator, k, gaps, values, is_dense(operator.n, k), seed, budget, singular_values=values,
                     which="singular", t=float(t), tolerance=tolerance)  # fmt: skip


def logarithmic_norm(
    f: Field, x: Tensor, t: float = 0.0, *,
    batch_dims: int = 0, tolerance: float = 1e-6, budget: int = 1000, seed: int = 0,
) -> ValueReport:  # fmt: skip
    """mu(J(t, x)) = largest eigenvalue of (J + J^T) / 2: the fastest rate at which neighbouring states separate.

    Returns a ValueReport. Dense: exact. Iterative: a Ritz value, so a lower bound; some eigenvalue of the symmetric part lies
    within `residual` of it. Arguments and errors as `jacobian_spectrum`. Cost: about 60 to 90 field evaluations.
    """
    operator = jacobian(f, x, t, batch_dims=batch_dims)
    if is_dense(operator.n, 1):
        dense = matrices(operator)
        value, remark, side = np.linalg.eigvalsh((dense + dense.transpose(0, 2, 1)) / 2)[:, -1], "", "exact"
        residual = np.zeros_like(value)
    else:
        value, residual, late = _top_of_symmetric_part(operator, tolerance, max(1, budget // 2), seed)
        side, remark = "lower", f"0 of 1 converged within {budget} products" if late else ""
    return ValueReport(
        provenance=provenance(f, operator.value, seed), name="logarithmic norm", side=side, remark=remark, t=float(t),
        value=float(value[0]) if operator.batch is None else value, products=operator.products,
        residual=float(residual[0]) if operator.batch is None else residual,
    )  # fmt: skip


def _top_of_symmetric_part(operator: Jacobian, tolerance: float, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """(largest Ritz value, residual) of (J + J^T) / 2 for each sample, and whether the budget ran out."""
    apply = on_vectors(operator.symmetric, operator)
    start, generator = starts(operator, seed)

    def process(v: Tensor):
        return krylov_schur(v, 1, "LR", lambda _, scale: tolerance * scale, symmetric=True, budget=steps, generator=generator)

    found = drive([process(v) for v in start], apply)
    v = torch.cat([pairs.vectors for pairs in found])  # (B, n)
    image = apply(v)
    value = (image * v).sum(-1) / (v * v).sum(-1)
    residual = (image - value[:, None] * v).norm(dim=-1)
    late = any(pairs.products >= steps for pairs in found)
    return value.double().cpu().numpy(), residual.double().cpu().numpy(), late
