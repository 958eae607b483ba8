"""Reports on what the tokens do along t: paths, matching of two paths, plane of arrows, logit lens, attention."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import Report

_TOKEN = ("time", "image", "token")
_STATE = ("time", "image")
_HEAD = ("time", "image", "head")


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenPathReport(Report):
    """How the tokens of a trajectory move, and how alike they are.

    Attributes:
        time: saved times (K,).
        speed, acceleration, curvature: ||v||, ||a||, and the curvature of each token's path, (K, B, N); NaN where undefined
            (curvature at speed 0; by differences where a neighbour is missing).
        norm: ||x_i||, (K, B, N).   coordinates: principal coordinates, (K, B, N, k).
        length: integral of the speed (by differences: polyline), (B, N).   polyline: length of the polygon through the states.
        straightness: ||x(T) - x(0)|| / polyline, in [0, 1].   turning: integral of the curvature over the path, radians.
        basis_mean, basis_components, variances: the principal axes (D,), (k, D), and the variance along all of them (D,).
        mean_cosine, collapse: mean pairwise cosine and ||X - 1 mean^T|| / ||X||, (K, B); *_centred: of x less its channel mean.
        stable_rank, participation_ratio, effective_rank: of the N x D matrix of a state, (K, B).
        clusters: connected components of cos > 1 - delta, (K, B).
        derivatives: "exact" (field and JVP) or "differences" (samples, Menger's curvature).
        registers, patch_grid: layout of the tokens; 0 and () where it is not known.
    """

    time: np.ndarray
    speed: np.ndarray
    acceleration: np.ndarray
    curvature: np.ndarray
    norm: np.ndarray
    coordinates: np.ndarray
    length: np.ndarray
    polyline: np.ndarray
    straightness: np.ndarray
    turning: np.ndarray
    basis_mean: np.ndarray
    basis_components: np.ndarray
    variances: np.ndarray
    mean_cosine: np.ndarray
    mean_cosine_centred: np.ndarray
    collapse: np.ndarray
    collapse_centred: np.ndarray
    stable_rank: np.ndarray
    participation_ratio: np.ndarray
    effective_rank: np.ndarray
    clusters: np.ndarray
    delta: float
    derivatives: str
    registers: int
    patch_grid: tuple[int, ...]

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "time": ("time",),
        **dict.fromkeys(("speed", "acceleration", "curvature", "norm"), _TOKEN),
        "coordinates": (*_TOKEN, "component"),
        **dict.fromkeys(("length", "polyline", "straightness", "turning"), ("image", "token")),
        "basis_mean": ("channel",),
        "basis_components": ("component", "channel"),
        "variances": ("principal_axis",),
        **dict.fromkeys(("mean_cosine", "mean_cosine_centred", "collapse", "collapse_centred", "clusters"), _STATE),
        **dict.fromkeys(("stable_rank", "participation_ratio", "effective_rank"), _STATE),
    }
    units: ClassVar[dict[str, str]] = {
        "time": "t", "speed": "state/t", "acceleration": "state/t^2", "curvature": "1/state", "norm": "state",
        "coordinates": "state", "length": "state", "polyline": "state", "turning": "rad", "variances": "state^2",
    }  # fmt: skip

    @property
    def patch_norm(self) -> np.ndarray:
        """Norms of the patch tokens on their grid, (K, B, rows, columns); raises ValueError without a layout."""
        if not self.patch_grid:
            raise ValueError("this report has no patch grid: the trajectory had no token layout")
        rows, columns = self.patch_grid
        return self.norm[..., 1 : 1 + rows * columns].reshape(*self.norm.shape[:2], rows, columns)

    @property
    def register_norm(self) -> np.ndarray:
        """Norms of the register tokens, (K, B, R)."""
        return self.norm[..., self.norm.shape[-1] - self.registers :]


@dataclass(frozen=True, kw_only=True, eq=False)
class MatchReport(Report):
    """Distances between a student's saved times and a teacher's layers.

    Attributes:
        time, layer: the student's saved times (K,), the teacher's (L,).
        distance: d_l(t) = ||x(t) - A h_l|| / ||A h_l||, (L, K).   numerator: ||x(t) - A h_l||.
        matched_time: argmin over t of d_l(t), (L,).
        schedule: monotone matching (P, 2) of layer and time indices with the least sum of distances, schedule_cost.
        fit: A = "identity", "procrustes" or "least_squares".   tokens: positions compared.   rows: images x tokens.
        determined: False where a least-squares fit is perfect for want of rows; its distances mean nothing.
    """

    time: np.ndarray
    layer: np.ndarray
    distance: np.ndarray
    numerator: np.ndarray
    matched_time: np.ndarray
    schedule: np.ndarray
    schedule_cost: float
    fit: str
    tokens: str
    rows: int
    determined: bool

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "time": ("time",), "layer": ("layer",), "distance": ("layer", "time"), "numerator": ("layer", "time"),
        "matched_time": ("layer",), "schedule": ("pair", "side"),
    }  # fmt: skip
    units: ClassVar[dict[str, str]] = {"time": "t", "numerator": "state", "matched_time": "t"}


@dataclass(frozen=True, kw_only=True, eq=False)
class PlaneReport(Report):
    """Arrows of the field for one token on a plane, everything else held.

    Attributes:
        u, v: coordinates of the columns and rows along the two axes.   arrows: components of f in the plane (v, u, 2).
        off_plane: ||part of f normal to the plane|| / ||f||, (v, u).
        path: the token's path in the plane (K, 2), at `time` (K,).
        held_at: time at which f is taken and the other tokens are held.   image, token: whose path.
    """

    u: np.ndarray
    v: np.ndarray
    arrows: np.ndarray
    off_plane: np.ndarray
    path: np.ndarray
    time: np.ndarray
    held_at: float
    image: int
    token: int

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "u": ("u",), "v": ("v",), "arrows": ("v", "u", "component"), "off_plane": ("v", "u"),
        "path": ("time", "component"), "time": ("time",),
    }  # fmt: skip
    units: ClassVar[dict[str, str]] = {
        "u": "state", "v": "state", "arrows": "state/t", "path": "state", "time": "t", "held_at": "t",
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class LensReport(Report):
    """What the readout says of every saved state.

    Attributes:
        time: saved times (K,).   logits: (K, B, C).   prediction: argmax (K, B).   margin: largest minus second logit (K, B).
        radius: the move of CLS below which the prediction cannot change, (K, B); NaN for a readout that is not linear.
        decision_time: first saved time from which the prediction is the final one, (B,).
        resolved: no flip can hide inside the step after each saved time, (K - 1, B); by the measured speed at its two ends.
        decision_resolved: resolved in every step from the decision on, (B,).   linear: the readout is linear in CLS.
    """

    time: np.ndarray
    logits: np.ndarray
    prediction: np.ndarray
    margin: np.ndarray
    radius: np.ndarray
    decision_time: np.ndarray
    resolved: np.ndarray
    decision_resolved: np.ndarray
    linear: bool

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "time": ("time",), "logits": ("time", "image", "class"), "prediction": _STATE, "margin": _STATE, "radius": _STATE,
        "decision_time": ("image",), "resolved": ("step", "image"), "decision_resolved": ("image",),
    }  # fmt: skip
    units: ClassVar[dict[str, str]] = {"time": "t", "decision_time": "t", "radius": "state"}


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionReport(Report):
    """Attention along a trajectory; row = query.

    Attributes:
        time: times of the maps (K',).
        entropy: of each row, (K', B, H, N).   distance: of each patch query among patches, (K', B, H, P), in patches.
        softmax_bound: max over rows of g_1, an upper bound of the softmax's Jacobian norm, (K', B, H).
        mass, cls_mass: mass on CLS, patches, registers (last axis): mean over all queries, and of the CLS query, (K', B, H, 3).
        cls_maps: the CLS row on the patch grid, (K', B, H, rows, columns); their mean over heads is `.cls_mean`.
        rollout: CLS row of the rollout up to rollout_time, over all tokens, (K - 1, B, N).
        row_sum_error: largest |sum of a row - 1|.   maps: full maps (K', B, H, N, N), or None.
        patch_grid, registers: layout of the tokens.
    """

    time: np.ndarray
    entropy: np.ndarray
    distance: np.ndarray
    softmax_bound: np.ndarray
    mass: np.ndarray
    cls_mass: np.ndarray
    cls_maps: np.ndarray
    rollout: np.ndarray
    rollout_time: np.ndarray
    row_sum_error: float
    maps: np.ndarray | None
    patch_grid: tuple[int, ...]
    registers: int

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "time": ("time",), "entropy": (*_HEAD, "token"), "distance": (*_HEAD, "patch"), "softmax_bound": _HEAD,
        "mass": (*_HEAD, "kind"), "cls_mass": (*_HEAD, "kind"), "cls_maps": (*_HEAD, "row", "column"),
        "rollout": ("rollout_time", "image", "token"), "rollout_time": ("rollout_time",), "maps": (*_HEAD, "query", "key"),
    }  # fmt: skip
    units: ClassVar[dict[str, str]] = {"time": "t", "rollout_time": "t", "entropy": "nat", "distance": "patch"}

    @property
    def cls_mean(self) -> np.ndarray:
        """CLS maps averaged over heads, (K', B, rows, columns)."""
        return self.cls_maps.mean(2)

    @property
    def rollout_maps(self) -> np.ndarray:
        """The rollout on the patch grid, (K - 1, B, rows, columns)."""
        rows, columns = self.patch_grid
        return self.rollout[..., 1 : 1 + rows * columns].reshape(*self.rollout.shape[:2], rows, columns)


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionRowsReport(Report):
    """Where one query looks along a trajectory, and what it is made of.

    Attributes:
        query: position of the query on the token axis.   time: times of the maps (K',).
        rows: its attention, over all tokens, (K', B, H, N).
        rollout: its row of the rollout up to rollout_time, over all tokens, (K - 1, B, N).
        patch_grid, registers: layout of the tokens.
    """

    query: int
    time: np.ndarray
    rows: np.ndarray
    rollout: np.ndarray
    rollout_time: np.ndarray
    patch_grid: tuple[int, ...]
    registers: int

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "time": ("time",), "rows": (*_HEAD, "token"), "rollout": ("rollout_time", "image", "token"),
        "rollout_time": ("rollout_time",),
    }  # fmt: skip
    units: ClassVar[dict[str, str]] = {"time": "t", "rollout_time": "t"}
