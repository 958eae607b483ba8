"""Attention along a trajectory, recomputed at the saved times: entropy, distance, mass, CLS maps and rollout.

P_ij = softmax_j(score_ij), row = query. Entropy H_i = -sum_j P_ij log P_ij in [0, log N] nats; distance
sum_j P_ij ||pos_i - pos_j|| over patches, rows renormalised without CLS and registers (uniform on 8 x 8: 4.136483). Rollout
(Abnar and Zuidema 2020, 2005.00928): A_K ... A_2 A_1 with A = (I + mean over heads of P) / 2, the first layer acting first; its
CLS row says which tokens CLS is made of.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from odevit.errors import UserError
from odevit.layout import TokenLayout
from odevit.trajectory import Trajectory

from .lipschitz.softmax_norms import softmax_gap
from .operators import as_float64, check_finite, provenance
from .reports.paths import AttentionReport, AttentionRowsReport

CHUNK = 2**24  # numbers in the attention maps of one pass (128 MiB); images beyond that are taken in turn
FULL_LIMIT = 2**27  # numbers in full maps that may be kept (1 GiB)


def attention_entropy(p: Tensor) -> Tensor:
    """Entropy of each row of p (..., N) -> (...), nats, in [0, log N]; 0 log 0 = 0.

    >>> round(float(attention_entropy(torch.full((4,), 0.25))), 6)  # log 4
    1.386294
    """
    return torch.special.entr(p).sum(-1)


def patch_distances(layout: TokenLayout) -> Tensor:
    """Distances between patch centres in units of one patch, (rows * columns, rows * columns), float64."""
    rows, columns = layout.grid
    position = torch.cartesian_prod(torch.arange(rows).double(), torch.arange(columns).double()).reshape(-1, 2)
    return torch.cdist(position, position, compute_mode="donot_use_mm_for_euclid_dist")


def attention_distance(p: Tensor, layout: TokenLayout) -> Tensor:
    """Mean distance that each patch query looks, (..., N, N) -> (..., rows * columns), in patches.

    Rows are renormalised over the patches; NaN for a query that looks at none.
    """
    among = p[..., layout.patches, layout.patches]
    return (among * patch_distances(layout).to(among)).sum(-1) / among.sum(-1)


def rollout(maps: Tensor) -> Tensor:
    """A_k ... A_2 A_1 for k = 1 .. K, A = (I + P) / 2: maps (K, ..., N, N), first layer first -> the same shape.

    Row i of the k-th product says of which initial tokens token i is made after k layers; rows sum to 1.
    """
    eye = torch.eye(maps.shape[-1], dtype=maps.dtype, device=maps.device)
    products: list[Tensor] = []
    for p in maps:
        step = (eye + p) / 2
        products.append(step @ products[-1] if products else step)
    return torch.stack(products)


@dataclass(frozen=True)
class _Setting:
    """What one pass over the saved times needs."""

    field: object
    times: Tensor
    states: Tensor
    layout: TokenLayout

    def maps(self, images: slice) -> Iterator[Tensor]:
        """Attention maps (b, H, N, N) at one time after the other."""
        for t, x in zip(self.times, self.states):
            with torch.no_grad():
                p = self.field.attention(t.to(x), x[images])  # type: ignore[attr-defined]
            check_finite("attention", p, f"at t = {float(t):g}")
            yield p


def _setting(model, trajectory: Trajectory) -> tuple[_Setting, Tensor]:
    """What a pass needs, of a checked trajectory, and its states (K, B, N, D)."""
    field = getattr(model, "field", model)
    if not hasattr(field, "attention") or trajectory.layout is None:
        raise UserError("attention: it needs a model with attention maps and a trajectory with a token layout")
    check_finite("trajectory", trajectory.x)
    x, last = trajectory.x.detach().double(), len(trajectory.t) - (trajectory.method == "discrete")
    return _Setting(as_float64(field), trajectory.t[:last], x[:last], trajectory.layout), x


def attention_along(model, trajectory: Trajectory, *, full: bool = False) -> AttentionReport:
    """Attention maps at the saved times, reduced as they are computed; nothing of size N x N is kept unless `full`.

    Args:
        model: has `field.attention(t, x)`; a float64 copy is used.
        trajectory: its token trajectory (K, B, N, D). The last state of a discrete net has no layer and is left out.
        full: keep every map, (time, image, head, query, key), if it fits FULL_LIMIT numbers.

    Returns:
        AttentionReport. `rollout[k]` is over the maps at the saved times before rollout_time[k]: with every step saved, those
        that the steps used. The half residual is the published convention, for any step size.

    Raises:
        UserError: no attention, no layout, or full maps too large (with their size). NonFiniteError: NaN in maps or states.

    Cost: one attention pass per saved time; memory for one time and a few images.
    """
    setting, x = _setting(model, trajectory)
    last, n, heads = len(setting.times), x.shape[2], next(setting.maps(slice(0, 1))).shape[1]
    size = last * x.shape[1] * heads * n * n
    if full and size > FULL_LIMIT:
        raise UserError(
            f"attention: full maps ({last} times, {x.shape[1]} images, {heads} heads, {n}^2) are {size * 8 / 2**30:.3g} GiB, "
            f"above the limit of {FULL_LIMIT * 8 / 2**30:.3g} GiB; take fewer images or times, or the reductions"
        )
    step = max(1, CHUNK // (heads * n * n))
    parts = [_reduce(setting, slice(b, b + step), full) for b in range(0, x.shape[1], step)]
    joined = {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}
    return AttentionReport(
        provenance=provenance(model, x),
        time=setting.times.numpy(),
        rollout_time=trajectory.t[1:].numpy(),
        rollout=joined.pop("rollout")[: len(trajectory.t) - 1],
        patch_grid=setting.layout.grid,
        registers=setting.layout.num_registers,
        row_sum_error=float(joined.pop("row_sum_error").max()),
        maps=joined.pop("maps", None),
        **joined,
    )


def attention_rows(model, trajectory: Trajectory, query: int = 0) -> AttentionRowsReport:
    """Attention of one query to all tokens at the saved times, and its row of the rollout.

    Args:
        model, trajectory: as of `attention_along`.   query: position on the token axis; 0 is CLS.

    Returns:
        AttentionRowsReport, for all images at once: memory for the maps of one time.

    Raises: UserError as `attention_along`, and for a query that is no token. Cost: one attention pass per saved time.
    """
    setting, x = _setting(model, trajectory)
    if not 0 <= query < x.shape[2]:
        raise UserError(f"query: {query} is outside 0 to {x.shape[2] - 1}")
    rows, products = [], []
    made_of = torch.eye(x.shape[2]).to(x)
    for p in setting.maps(slice(None)):
        made_of = rollout(p.mean(1)[None])[0] @ made_of
        rows.append(p[:, :, query])
        products.append(made_of[:, query])
    return AttentionRowsReport(
        provenance=provenance(model, x),
        query=query,
        time=setting.times.numpy(),
        rows=torch.stack(rows).cpu().numpy(),
        rollout=torch.stack(products).cpu().numpy()[: len(trajectory.t) - 1],
        rollout_time=trajectory.t[1:].numpy(),
        patch_grid=setting.layout.grid,
        registers=setting.layout.num_registers,
    )


def _reduce(setting: _Setting, images: slice, full: bool) -> dict[str, np.ndarray]:
    """Reductions over all times for a few images, stacked along time."""
    rows: list[dict[str, Tensor]] = []
    product: Tensor | None = None
    for p in setting.maps(images):
        row = _measure(p, setting.layout)
        product = rollout(p.mean(1)[None])[0] @ (product if product is not None else torch.eye(p.shape[-1]).to(p))
        rows.append(row | {"rollout": product[:, 0]} | ({"maps": p} if full else {}))
    return {name: torch.stack([row[name] for row in rows]).cpu().numpy() for name in rows[0]}


def _measure(p: Tensor, layout: TokenLayout) -> dict[str, Tensor]:
    """Reductions of the maps (b, H, N, N) of one time, each with axes (b, H, ...)."""
    masses = {name: p[..., getattr(layout, name)].sum(-1) for name in ("cls", "patches", "registers")}
    return {
        "entropy": attention_entropy(p),
        "distance": attention_distance(p, layout),
        "softmax_bound": softmax_gap(p).amax(-1),
        "mass": torch.stack([m.mean(-1) for m in masses.values()], -1),
        "cls_mass": torch.stack([m[..., 0] for m in masses.values()], -1),
        "cls_maps": p[..., 0, layout.patches].unflatten(-1, layout.grid),
        "row_sum_error": (p.sum(-1) - 1).abs().amax((-1, -2)),
    }
