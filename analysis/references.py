"""Slow dense twins of the matrix-free analyses, by forward mode and LAPACK, for tests and tiny models.

Nothing here is shared with what it checks: J by forward-mode AD one column at a time, the flow Jacobian by the augmented system
(x, Phi) with the method's own tableau, spectra of the full matrix.
"""

import numpy as np
import torch
from torch import Tensor
from torch.func import jacfwd

from odevit.flow import find_method, piece_at
from odevit.trajectory import TimeGrid

from .operators import check_finite


def dense_jacobian(f, x: Tensor, t: float = 0.0) -> np.ndarray:
    """J(t, x) as (n, n), vec row-major, by n forward-mode products."""
    n = x.numel()
    matrix = jacfwd(lambda y: f(t, y))(x).reshape(n, n)
    check_finite("Jacobian", matrix)
    return matrix.double().cpu().numpy()


def dense_flow_jacobian(f, x0: Tensor, grid: TimeGrid, method: str = "euler") -> np.ndarray:
    """dPhi/dx0 as (n, n): the Runge-Kutta method applied to Phi' = J(t, x) Phi beside x' = f(t, x), dense J at each stage."""
    tableau = find_method(method).tableau
    assert tableau is not None, "splittings have no tableau"
    n, x, phi = x0.numel(), x0, np.eye(x0.numel())
    for index, start in enumerate(grid.times[:-1]):
        piece = piece_at(f, grid.t0 + (index + 0.5) * grid.h)
        slopes: list[tuple[Tensor, np.ndarray]] = []
        for row, node in zip(tableau.a, tableau.c):
            y, psi = x, phi
            for weight, (k, dk) in zip(row, slopes):
                y, psi = y + grid.h * weight * k, psi + grid.h * weight * dk
            t = torch.tensor(start + node * grid.h, dtype=x.dtype)
            slopes.append((piece(t, y), dense_jacobian(piece, y, t).reshape(n, n) @ psi))  # type: ignore[arg-type]
        for weight, (k, dk) in zip(tableau.b, slopes):
            x, phi = x + grid.h * weight * k, phi + grid.h * weight * dk
    return phi


def dense_logarithmic_norm(matrix: np.ndarray) -> float:
    """Largest eigenvalue of (A + A^T) / 2."""
    return float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1])


def dense_abscissa(matrix: np.ndarray) -> float:
    """Largest real part of an eigenvalue."""
    return float(np.linalg.eigvals(matrix).real.max())


def dense_influence(matrix: np.ndarray, tokens: int) -> np.ndarray:
    """(N, N) spectral norms of the D x D blocks."""
    dim = len(matrix) // tokens
    blocks = matrix.reshape(tokens, dim, tokens, dim).transpose(0, 2, 1, 3)
    return np.linalg.norm(blocks, 2, axis=(2, 3))
