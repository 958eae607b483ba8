"""All path measures of one trajectory in one report.

Kinematics of every token, its coordinates in a shared principal basis, and the state's collapse, clusters and ranks over time.
"""

import numpy as np
import torch
from torch import Tensor, nn

from odevit.trajectory import Trajectory

from ..operators import as_float64, provenance
from ..reports.paths import TokenPathReport
from .bases import (
    Basis,
    array,
    effective_rank,
    participation_ratio,
    principal_basis,
    squared_singular_values,
    stable_rank,
)
from .collapse import centre_channels, cluster_count, collapse_ratio, mean_cosine
from .kinematics import (
    as_tokens,
    curvature,
    derivatives,
    differences,
    menger,
    polygon_turning,
    polyline,
    straightness,
    trapezoid,
)


def token_paths(
    model, trajectory: Trajectory, *, basis: Basis | None = None, components: int = 3, delta: float = 0.1
) -> TokenPathReport:
    """Speed, length, curvature, turning, principal coordinates, collapse, clusters and ranks of a trajectory.

    Args:
        model: a model with a `field`, a field or callable f(t, x) of the state's own shape, or None if only states are known.
            A discrete ViT's trajectory, and one without a field, is measured by differences and Menger's curvature.
        trajectory: K saved states (D,), (N, D) or (B, N, D).
        basis: principal axes to use; those of all pooled (time, image, token) states unless given.
        components: number of axes computed (at most D are).
        delta: tokens closer than this in cosine are neighbours in a cluster.

    Returns:
        TokenPathReport, arrays over (time, image, token). Exact values belong to the solution of the ODE through each saved
        state; curvature is NaN where the speed is 0, and by differences where a neighbour is missing.

    Raises:
        UserError: a state of another shape, delta outside (0, 2]. NonFiniteError: states, weights or velocities not finite.

    Cost: about 4 field evaluations per saved time; symmetric eigenproblems, min(N, D) wide per saved state and D wide once.
    """
    x = as_tokens(trajectory)
    basis = basis or principal_basis(x, k=min(components, x.shape[-1]))
    layout = trajectory.layout
    return TokenPathReport(
        provenance=provenance(model, x),
        time=array(trajectory.t),
        norm=array(x.norm(dim=-1)),
        coordinates=basis.apply(x),
        basis_mean=basis.mean,
        basis_components=basis.components,
        variances=basis.variances,
        delta=delta,
        registers=layout.num_registers if layout else 0,
        patch_grid=layout.grid if layout else (),
        **_kinematics(model, trajectory, x),
        **_ensembles(x, delta),
    )


def field_of(model, trajectory: Trajectory):
    """The float64 field to differentiate; None where there is none, or where the trajectory is the layers of a discrete net."""
    field = getattr(model, "field", model)
    if field is None or trajectory.method == "discrete":
        return None
    return as_float64(field) if isinstance(field, nn.Module) else field


def _kinematics(model, trajectory: Trajectory, x: Tensor) -> dict:
    field, t = field_of(model, trajectory), trajectory.t
    if field is None:
        v, a = differences(t, x)
        kappa, length, turning = menger(x), polyline(x), polygon_turning(x)
    else:
        v, a = (part.reshape(x.shape) for part in derivatives(field, trajectory))
        kappa = curvature(v, a)
        length, turning = trapezoid(t, v.norm(dim=-1)), trapezoid(t, kappa * v.norm(dim=-1))
    return {
        "derivatives": "differences" if field is None else "exact",
        "speed": array(v.norm(dim=-1)),
        "acceleration": array(a.norm(dim=-1)),
        "curvature": array(kappa),
        "length": array(length),
        "polyline": array(polyline(x)),
        "straightness": array(straightness(x)),
        "turning": array(turning),
    }


def _ensembles(x: Tensor, delta: float) -> dict:
    """Measures of the N tokens of each state, (time, image); one state at a time bounds the memory by N^2 numbers an image."""
    rows: list[dict] = []
    for state in x:
        power, centred = squared_singular_values(state), centre_channels(state)
        rows.append({
            "mean_cosine": mean_cosine(state),
            "mean_cosine_centred": mean_cosine(centred),
            "collapse": collapse_ratio(state),
            "collapse_centred": collapse_ratio(centred),
            "stable_rank": stable_rank(power),
            "participation_ratio": participation_ratio(power),
            "effective_rank": effective_rank(power),
        })  # fmt: skip
    out = {name: array(torch.stack([row[name] for row in rows])) for name in rows[0]}
    return out | {"clusters": np.stack([cluster_count(state, delta) for state in x])}
