"""Paths of two models on common axes: those of the pooled states, or each on its own, the second turned onto the first.

min_{Q orthogonal} ||A - B Q||_F (Schonemann 1966), A and B the centred principal coordinates of rows that belong together: the
same image, the same token, the same share of the integration time. Models of equal width need not share their axes
(renumbering the channels gives the same model), so pooled axes suit a student and its teacher, less two strangers.
"""

from dataclasses import replace

import numpy as np

from odevit.errors import UserError
from odevit.trajectory import Trajectory

from ..reports import TokenPathReport
from .bases import Basis, principal_basis
from .kinematics import as_tokens
from .matching import rotation
from .measuring import token_paths


def paired_paths(
    first: Trajectory, second: Trajectory, *, tokens: str = "cls", aligned: bool = False, components: int = 3
) -> tuple[TokenPathReport, TokenPathReport]:
    """Paths of two models of the same images on axes that can be drawn together; see `mismatch` for how far apart they are.

    Args:
        first, second: trajectories of the same images; times, registers and, where aligned, widths may differ.
        tokens: "cls", or "all" for CLS, patches and registers.
        aligned: False: principal axes of all states of both. True: principal axes of each, those of the second turned onto the
            first by the best orthogonal map of the coordinates; lengths are kept.
        components: number of axes.

    Returns:
        (paths of the first, paths of the second), with motion by differences.

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
    if not aligned:
        basis = principal_basis(a, b, k=k)
        return token_paths(None, parts[0], basis=basis), token_paths(None, parts[1], basis=basis)
    one, two = (token_paths(None, part, components=k) for part in parts)
    turn = rotation(*_together(one, two))
    basis = _turned(Basis(two.basis_mean, two.basis_components, two.variances), turn)
    turned = {"coordinates": two.coordinates @ turn, "basis_components": basis.components, "variances": basis.variances}
    return one, replace(two, **turned)


def mismatch(first: TokenPathReport, second: TokenPathReport) -> float:
    """||A - B|| / ||A - mean A|| of the drawn coordinates of two reports of `paired_paths`; 0: the same path.

    A: rows of the tokens that both have at the first's saved times; B: the second at the same shares of its way, on the
    straight lines between its saved states. NaN where A does not vary.
    """
    a, b = _together(first, second)
    width = np.linalg.norm(a - a.mean(0))
    return float(np.linalg.norm(a - b) / width) if width else float("nan")


def _chosen(trajectory: Trajectory, tokens: str) -> Trajectory:
    return trajectory if tokens == "all" else replace(trajectory, x=trajectory.cls, layout=None)


def _turned(basis: Basis, turn: np.ndarray) -> Basis:
    """The basis whose coordinates are those of `basis` times `turn` (k, k); variances along the turned axes first."""
    count = len(turn)
    along = turn.T**2 @ basis.variances[:count]
    return Basis(basis.mean, turn.T @ basis.components, np.concatenate([along, basis.variances[count:]]))


def _together(first: TokenPathReport, second: TokenPathReport) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, k) of coordinates that belong together: tokens that both have, at the first's saved times."""
    common = 1
    if first.patch_grid and first.patch_grid == second.patch_grid:
        common += int(np.prod(first.patch_grid))
    a, b = (report.coordinates[:, :, :common] for report in (first, second))
    flat = b.reshape(len(b), -1)
    there = np.stack([np.interp(shares_of(first.time), shares_of(second.time), column) for column in flat.T], -1)
    return a.reshape(-1, a.shape[-1]), there.reshape(-1, b.shape[-1])


def shares_of(time: np.ndarray) -> np.ndarray:
    """Times as shares of the way from the first to the last, in [0, 1].

    >>> shares_of(np.array([0.0, 1.0, 4.0])).tolist()
    [0.0, 0.25, 1.0]
    """
    return (time - time[0]) / (time[-1] - time[0])
