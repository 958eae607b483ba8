"""How each token moves: velocity, acceleration, length, curvature and turning of x_i(t).

v = f(t, x) and a = x'' = d_t f + J f by one JVP per saved time; kappa = ||a_perp|| / ||v||^2 with a_perp the part of a normal
to v, which is sqrt(||v||^2 ||a||^2 - (v.a)^2) / ||v||^3 without its cancellation (do Carmo, Differential Geometry of Curves and
Surfaces, 1.5). From samples alone: Menger's curvature of three consecutive points, an O(h^2) estimate.
"""

import math

import torch
from torch import Tensor

from odevit.errors import UserError
from odevit.flow import piece_at
from odevit.trajectory import Trajectory

from ..operators import check_finite, second_derivative

NUDGE = 1e-3  # share of the gap to the next saved time by which a time moves into its own step before its piece is asked for


def as_tokens(trajectory: Trajectory) -> Tensor:
    """The saved states as (K, B, N, D) in float64; a state (D,) is one token of one image, (N, D) one image.

    Raises UserError for a state with more axes or a tuple, NonFiniteError for NaN or infinite states.
    """
    x = trajectory.x
    if isinstance(x, tuple) or x.ndim not in (2, 3, 4):
        shape = "a tuple" if isinstance(x, tuple) else f"shape {tuple(x.shape[1:])}"
        raise UserError(f"trajectory: token measures need a state (D,), (N, D) or (B, N, D), not {shape}")
    if len(x) < 2:
        raise UserError(f"trajectory: {len(x)} saved state; a path needs at least 2")
    check_finite("trajectory", x)
    if trajectory.layout is not None and trajectory.layout.size != x.shape[-2]:
        raise UserError(f"layout: it names {trajectory.layout.size} tokens, the states have {x.shape[-2]}")
    return x.detach().double().reshape(len(x), *(1,) * (4 - x.ndim), *x.shape[1:])


def derivatives(f, trajectory: Trajectory) -> tuple[Tensor, Tensor]:
    """Velocity and acceleration at the saved times, exact, each in the shape of trajectory.x.

    At a break of a piecewise field the values are those of the step that begins there (at the end: of the last step).

    Args:
        f: field, f(t, x) of the state's own shape, float64.
        trajectory: K saved states; interpolated ones are as good as the interpolation.

    Returns:
        (v, a), each (K, *state), float64. Cost: one evaluation and one JVP per saved time.
    """
    times = trajectory.t.tolist()
    gaps = [b - a for a, b in zip(times, times[1:])]
    nudges = [NUDGE * gap for gap in gaps] + [-NUDGE * gaps[-1]]
    velocity, acceleration = [], []
    for k, time in enumerate(times):
        piece = piece_at(f, time + nudges[k])
        x = trajectory.x[k].detach().double()
        t = torch.tensor(time, dtype=x.dtype, device=x.device)
        with torch.no_grad():
            velocity.append(piece(t, x))
        if velocity[-1].shape != x.shape:
            raise UserError(f"field: it returns shape {tuple(velocity[-1].shape)} for states of shape {tuple(x.shape)}")
        acceleration.append(second_derivative(piece, x, time).detach())
        check_finite("velocity", velocity[-1], f"at t = {time:g}")
    return torch.stack(velocity), torch.stack(acceleration)


def differences(t: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Velocity and acceleration from samples alone: forward differences, and their differences at interior times.

    For all layers of a discrete net (h = 1) the velocity at l is the update by block l. NaN where a neighbour is missing:
    the velocity at the last time, the acceleration at both ends.
    """
    t = t.to(x).reshape(-1, *(1,) * (x.ndim - 1))
    velocity, acceleration = torch.full_like(x, math.nan), torch.full_like(x, math.nan)
    velocity[:-1] = x.diff(dim=0) / t.diff(dim=0)
    acceleration[1:-1] = velocity[:-1].diff(dim=0) / ((t[2:] - t[:-2]) / 2)
    return velocity, acceleration


def curvature(v: Tensor, a: Tensor) -> Tensor:
    """Curvature of a path with velocity v and acceleration a, both (..., D) -> (...), unit 1/state; NaN at speed 0.

    It does not change when time is rescaled: (c v, c^2 a) has the same value.

    >>> float(curvature(torch.tensor([0.0, 2.0]), torch.tensor([-2.0, 0.0])))  # circle of radius 2, angular speed 1
    0.5
    """
    square = v.square().sum(-1, keepdim=True)
    normal = a - (a * v).sum(-1, keepdim=True) / square * v
    return normal.norm(dim=-1) / square.squeeze(-1)


def menger(x: Tensor) -> Tensor:
    """Menger's curvature 4 area / (product of the sides) of consecutive samples x (K, ..., D) -> (K, ...).

    1 / radius of the circle through three points: exact on circles. NaN at both ends and where two of the points coincide.
    """
    u, w, chord = x[1:-1] - x[:-2], x[2:] - x[1:-1], x[2:] - x[:-2]
    normal = w - (w * u).sum(-1, keepdim=True) / u.square().sum(-1, keepdim=True) * u
    out = x.new_full(x.shape[:-1], math.nan)
    value = 2 * normal.norm(dim=-1) / (w.norm(dim=-1) * chord.norm(dim=-1))
    out[1:-1] = torch.where(value.isfinite(), value, math.nan)
    return out


def trapezoid(t: Tensor, y: Tensor) -> Tensor:
    """Integral of y (K, ...) over |dt| by the trapezoidal rule, error O(h^2)."""
    step = t.to(y).diff().abs().reshape(-1, *(1,) * (y.ndim - 1))
    return ((y[1:] + y[:-1]) / 2 * step).sum(0)


def polyline(x: Tensor) -> Tensor:
    """Length of the polygon through the samples x (K, ..., D) -> (...); at most the length of the path, O(h^2) below it."""
    return x.diff(dim=0).norm(dim=-1).sum(0)


def straightness(x: Tensor) -> Tensor:
    """||x(T) - x(0)|| over the length of the polygon through x (K, ..., D) -> (...), in [0, 1]; 1 iff the samples lie in order
    on a straight line. NaN for a token that never moves. On a half circle it tends to 2/pi.
    """
    return ((x[-1] - x[0]).norm(dim=-1) / polyline(x)).clamp(max=1.0)


def polygon_turning(x: Tensor) -> Tensor:
    """Sum of the exterior angles of the polygon through x (K, ..., D) -> (...), radians; NaN with fewer than three samples or a
    side of length 0 (its direction is undefined).
    """
    side = x.diff(dim=0)
    if len(side) < 2:
        return x.new_full(x.shape[1:-1], math.nan)
    unit = side / side.norm(dim=-1, keepdim=True)
    a, b = unit[:-1], unit[1:]
    return (2 * torch.atan2((a - b).norm(dim=-1), (a + b).norm(dim=-1))).sum(0)
