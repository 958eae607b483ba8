"""The vector field on a principal plane: what f does to one token around where its path runs.

Points c + (u - u_c) e_1 + (v - v_c) e_2 through the mean state c of the token; the others stay where they are then.
"""

import numpy as np
import torch
from torch.func import vmap

from odevit.errors import UserError
from odevit.flow import piece_at
from odevit.trajectory import Trajectory

from ..operators import as_float64, explicit_attention, provenance
from ..reports.paths import PlaneReport
from .bases import Basis, array
from .kinematics import NUDGE, as_tokens

MARGIN = 0.15  # of the extent of the path


def plane_field(
    f, trajectory: Trajectory, basis: Basis, *, time: float, image: int = 0, token: int = 0, size: int = 15
) -> PlaneReport:
    """Arrows of f for one token on a size x size grid in the plane of the first two axes of `basis`.

    Args:
        f: field (a module is copied to float64) or callable (t, x) of the state's own shape.
        trajectory: K saved states; the window holds the path of this token in this image, widened by MARGIN on each side.
        basis: at least two components, see `principal_basis`.
        time: a saved time; the other tokens are held at their states there.
        image, token: whose path, 0 for a bare state (D,).

    Returns:
        PlaneReport; `off_plane` is the share ||v_normal|| / ||v|| of each arrow that the plane does not show.

    Raises UserError for a time that was not saved or a position outside. Cost: size^2 field evaluations, batched.
    """
    x = as_tokens(trajectory)
    for name, index, limit in (("image", image, x.shape[1]), ("token", token, x.shape[2])):
        if not 0 <= index < limit:
            raise UserError(f"{name}: {index} is outside 0 to {limit - 1}")
    if len(basis.components) < 2 or size < 2:
        raise UserError(f"plane: {len(basis.components)} axes and size {size}; at least 2 of each are needed")
    path = basis.apply(x[:, image, token])[:, :2]
    centre = array(x[:, image, token].mean(0))
    low, high = path.min(0), path.max(0)
    pad = MARGIN * np.maximum(high - low, 1e-9)
    u, v = (np.linspace(low[i] - pad[i], high[i] + pad[i], size) for i in (0, 1))
    plane = np.stack(np.meshgrid(u, v), -1)  # (row = v, column = u, 2)
    axes = basis.components[:2]
    points = centre + (plane - basis.apply(centre)[:2]) @ axes
    velocity = _velocities(f, trajectory, points.reshape(size * size, -1), time, image, token).reshape(points.shape)
    arrows = velocity @ axes.T
    normal = np.linalg.norm(velocity - arrows @ axes, axis=-1)
    speed = np.linalg.norm(velocity, axis=-1)
    return PlaneReport(
        provenance=provenance(f, x),
        u=u,
        v=v,
        arrows=arrows,
        off_plane=normal / np.where(speed > 0, speed, np.nan),
        path=path,
        time=array(trajectory.t),
        held_at=float(time),
        image=image,
        token=token,
    )


def _velocities(f, trajectory: Trajectory, points: np.ndarray, time: float, image: int, token: int) -> np.ndarray:
    """f of one token at each of the points (P, D), all else as it is at `time`; f sees the state's own shape."""
    state = trajectory.at(time).detach().double()
    f = as_float64(f) if isinstance(f, torch.nn.Module) else f
    sign = 1 if time < float(trajectory.t[-1]) else -1
    piece = piece_at(f, time + sign * NUDGE * float(trajectory.t.diff().min()))
    t = torch.tensor(time, dtype=state.dtype, device=state.device)

    def one(point):
        tokens = state.reshape(*(1,) * (3 - state.ndim), *state.shape)
        changed = tokens.index_put((torch.tensor(image), torch.tensor(token)), point)
        return piece(t, changed.reshape(state.shape)).reshape(tokens.shape)[image, token]

    with torch.no_grad(), explicit_attention():
        out = vmap(one, chunk_size=64)(torch.from_numpy(points).to(state))
    return array(out)
