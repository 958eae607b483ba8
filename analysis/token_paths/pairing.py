"""Paths of two models on common axes: those of the pooled states, or each on its own, the second turned onto the first.

min_{Q orthogonal} ||A - B Q||_F (Schonemann 1966), A and B the centred principal coordinates of rows that belong together: the
same image, the same token, the same share of the integration time. Models of equal width need not share their axes (any
rotation of all weights is the same model), so pooled axes mean something for a student and its teacher, less for two strangers.
"""

from dataclasses import replace

import numpy as np

from odevit.errors import UserError
from odevit.trajectory import Trajectory

from ..reports import TokenPathReport
from .bases import Basis, array, principal_basis
from .kinematics import as_tokens
from .matching import rotation
from .measuring import token_paths


def paired_paths(
    first: Trajectory, second: Trajectory, *, tokens: str = "cls", aligned: bool = False, components: int = 3
) -> tuple[TokenPathReport, TokenPathReport, float]:
    """Paths of two models of the same images on axes that can be drawn together.

    Args:
        first, second: trajectories of the same images; times, registers and, where aligned, widths may differ.
        tokens: "cls", or "all" for CLS, patches and registers.
        aligned: False: principal axes of all states of both. True: principal axes of each, those of the second turned onto the
            first by the best orthogonal map of the coordinates; lengths are kept.
        components: number of axes.

    Returns:
        (paths of the first, of the second, mismatch): motion by differences; mismatch = ||A - B|| / ||A|| over the rows that
        both have, at the first's saved times (B between its saved times by straight lines), A about its mean where aligned.

    Raises:
        UserError: other tokens than "cls" or "all", other images, or widths that differ where not aligned.

    Cost: no field evaluation; one D x D symmetric eigenproblem, or two.
    """
    if tokens not in ("cls", "all"):
        raise UserError(f"tokens: {tokens!r} is unknown (known: cls, all)")
    parts = [_chosen(trajectory, tokens) for trajectory in (first, second)]
    a, b = (as_tokens(part) for part in parts)
    if a.shape[1] != b.shape[1]:
        raise UserError(f"second: {b.shape[1]} images, the first has {a.shape[1]}")
    if not aligned and a.shape[-1] != b.shape[-1]:
        raise UserError(f"axes: widths {a.shape[-1]} and {b.shape[-1]} have no axes in common; align the axes of each instead")
    k = min(components, a.shape[-1], b.shape[-1])
    bases = (principal_basis(a, k=k), principal_basis(b, k=k)) if aligned else (principal_basis(a, b, k=k),) * 2
    rows = _together(first, second, bases[0].apply(a), bases[1].apply(b))
    if aligned:
        centred = [r - r.mean(0) for r in rows]
        turn = rotation(*centred)
        bases = (bases[0], _turned(bases[1], turn))
        rows = (centred[0], centred[1] @ turn)
    size = np.linalg.norm(rows[0])
    mismatch = float(np.linalg.norm(rows[0] - rows[1]) / size) if size else float("nan")
    one, two = (token_paths(None, part, basis=basis) for part, basis in zip(parts, bases))
    return one, two, mismatch


def _chosen(trajectory: Trajectory, tokens: str) -> Trajectory:
    return trajectory if tokens == "all" else replace(trajectory, x=trajectory.cls, layout=None)


def _turned(basis: Basis, turn: np.ndarray) -> Basis:
    """The basis whose coordinates are those of `basis` times `turn` (k, k); variances along the turned axes first."""
    count = len(turn)
    along = turn.T**2 @ basis.variances[:count]
    return Basis(basis.mean, turn.T @ basis.components, np.concatenate([along, basis.variances[count:]]))


def _together(first: Trajectory, second: Trajectory, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, k) of coordinates (K, B, N, k) that belong together: tokens that both have, at the first's saved times."""
    common = [0]
    if first.layout and second.layout and first.layout.grid == second.layout.grid:
        common = list(range(min(1 + first.layout.num_patches, a.shape[2], b.shape[2])))
    a, b = a[:, :, common], b[:, :, common]
    share, own = (shares_of(array(t.t)) for t in (first, second))
    flat = b.reshape(len(b), -1)
    there = np.stack([np.interp(share, own, column) for column in flat.T], -1)
    return a.reshape(-1, a.shape[-1]), there.reshape(-1, b.shape[-1])


def shares_of(time: np.ndarray) -> np.ndarray:
    """Times as shares of the way from the first to the last, in [0, 1].

    >>> shares_of(np.array([0.0, 1.0, 4.0])).tolist()
    [0.0, 0.25, 1.0]
    """
    return (time - time[0]) / (time[-1] - time[0])
