"""How far one path is from another: Procrustes distance, teacher-student distances, matched times, dynamic time warping.

min_{Q orthogonal} ||A - B Q||_F is reached at Q = U V^T, B^T A = U S V^T (Schonemann 1966). Teacher-student:
d_l(t) = ||x(t) - A h_l|| / ||A h_l|| with A the identity, orthogonal or least squares; the numerators fall in that order.
Monotone matching of layers and times: dynamic time warping (Sakoe and Chiba 1978).
"""

import numpy as np

from odevit.errors import UserError
from odevit.trajectory import Trajectory

from ..reports.paths import MatchReport
from .bases import array
from .kinematics import as_tokens
from .regions import token_indices

FITS = ("identity", "procrustes", "least_squares")


def rotation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The orthogonal Q (D, D) that minimises ||A - B Q||_F, for A, B of shape (n, D)."""
    u, _, vt = np.linalg.svd(b.T @ a)
    return u @ vt


def procrustes_distance(a, b) -> float:
    """min over rotations and reflections Q of ||A - B Q||_F after centring both; 0 for a rotated copy, at most ||A - B||_F.

    Args:
        a, b: states of equal shape (..., D), such as the x of two trajectories; row n of one belongs to row n of the other.

    Raises UserError for different shapes. Cost: one D x D SVD.
    """
    if a.shape != b.shape:
        raise UserError(f"procrustes: shapes {tuple(a.shape)} and {tuple(b.shape)} differ; rows are compared one to one")
    rows = [array(s).reshape(-1, s.shape[-1]) for s in (a, b)]
    left, right = (r - r.mean(0) for r in rows)
    return float(np.linalg.norm(left - right @ rotation(left, right)))


def warp(cost: np.ndarray) -> tuple[np.ndarray, float]:
    """The monotone path of least total cost through cost (L, K), from (0, 0) to (L-1, K-1), and that total.

    Returns:
        (pairs (P, 2), total): each pair follows the last by (1, 0), (0, 1) or (1, 1). The total is at most that of any other
        such path, a fixed schedule among them.

    >>> warp(np.array([[0.0, 0.0, 9.0], [9.0, 9.0, 1.0]]))[0].tolist()
    [[0, 0], [0, 1], [1, 2]]
    """
    layers, times = cost.shape
    total = np.full((layers + 1, times + 1), np.inf)
    total[0, 0] = 0.0
    for l, k in np.ndindex(layers, times):
        total[l + 1, k + 1] = cost[l, k] + min(total[l, k], total[l, k + 1], total[l + 1, k])
    pairs, l, k = [(layers - 1, times - 1)], layers, times
    while (l, k) != (1, 1):
        l, k = min(((l - 1, k - 1), (l - 1, k), (l, k - 1)), key=lambda at: total[at])
        pairs.append((l - 1, k - 1))
    return np.array(pairs[::-1]), float(total[layers, times])


def _fitted(x: np.ndarray, h: np.ndarray, u: np.ndarray | None, fit: str) -> np.ndarray:
    """A h for one state x (n, D) and layer h (n, D'); u: orthonormal basis of h's columns, for least squares."""
    if fit == "identity":
        return h
    if fit == "procrustes":
        return h @ rotation(x, h)
    assert u is not None
    return u @ (u.T @ x)


def _column_space(h: np.ndarray) -> np.ndarray:
    u, s, _ = np.linalg.svd(h, full_matrices=False)
    return u[:, s > s[0] * max(h.shape) * np.finfo(np.float64).eps]


def _rows(trajectory: Trajectory, tokens) -> np.ndarray:
    x = as_tokens(trajectory)
    if trajectory.layout is not None:
        x = x[:, :, token_indices(tokens, trajectory.layout)]
    return array(x).reshape(len(x), -1, x.shape[-1])


def teacher_student(student: Trajectory, teacher: Trajectory, *, tokens="cls", fit: str = "identity") -> MatchReport:
    """d_l(t) = ||x(t) - A h_l|| / ||A h_l|| between the student's saved times and the teacher's layers, and two matchings.

    Args:
        student, teacher: trajectories of the same images; the teacher's saved times are its layers.
        tokens: positions to compare, see `token_indices`; registers of models that differ in them cannot be compared.
        fit: A = "identity", "procrustes" (orthogonal) or "least_squares" (any linear map), fitted for every pair (l, t) on the
            pooled images and tokens.

    Returns:
        MatchReport. With fewer rows than the width a least-squares fit is perfect and means nothing: `determined` is False.

    Raises:
        UserError: unknown fit, other images or tokens, widths that differ (identity, procrustes).
    """
    if fit not in FITS:
        raise UserError(f"fit: {fit!r} is unknown (known: {', '.join(FITS)})")
    x, h = _rows(student, tokens), _rows(teacher, tokens)
    if x.shape[1] != h.shape[1]:
        raise UserError(f"teacher: {h.shape[1]} rows (images x tokens) to compare with the student's {x.shape[1]}")
    if fit != "least_squares" and x.shape[2] != h.shape[2]:
        raise UserError(f"fit: {fit!r} needs equal widths, not {x.shape[2]} and {h.shape[2]} (least_squares does not)")
    numerator, denominator = np.empty((len(h), len(x))), np.empty((len(h), len(x)))
    for l, layer in enumerate(h):
        space = _column_space(layer) if fit == "least_squares" else None
        for k, state in enumerate(x):
            image = _fitted(state, layer, space, fit)
            numerator[l, k], denominator[l, k] = np.linalg.norm(state - image), np.linalg.norm(image)
    distance = numerator / np.where(denominator > 0, denominator, np.nan)
    schedule, cost = warp(distance)
    return MatchReport(
        time=array(student.t),
        layer=array(teacher.t),
        distance=distance,
        numerator=numerator,
        matched_time=array(student.t)[distance.argmin(1)],
        schedule=schedule,
        schedule_cost=cost,
        fit=fit,
        tokens=str(tokens),
        rows=x.shape[1],
        determined=fit != "least_squares" or x.shape[1] > h.shape[2],
    )
