"""The effect of a change at a moment on logits and on the rest of the path; and over a grid of times and regions.

Effect sizes: change of the logits, KL(p_before || p_after) in nats, flips of the prediction, ||x'(s) - x(s)|| for s >= t.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from odevit.errors import UserError

from ..operators import check_finite, provenance
from ..reports.effects import EffectMapReport, InterventionReport
from ..token_paths.bases import array
from .changes import Change
from .restart import Moment, factual, moment, step_index

CHUNK = 2**24  # numbers in the states and attention maps of one batched solve (128 MiB)


def divergence(before: Tensor, after: Tensor) -> Tensor:
    """KL(softmax before || softmax after) in nats, (..., C) -> (...); exactly 0 for equal logits."""
    p, q = before.log_softmax(-1), after.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1)


def intervene(model, images: Tensor, t: float, change: Change) -> InterventionReport:
    """Restart the flow at t with a changed state (or field) and report what becomes different.

    Args:
        model: ODE-ViT or discrete ViT (layer index = t); a float64 copy is used.
        images: normalised, (B, C, H, W).
        t: a step of model.grid; at T only the readout is left.
        change: KnockOut, KnockOutHead, Patch or Perturb.

    Returns:
        InterventionReport. A change of nothing gives zeros exactly.

    Raises:
        UserError: t between steps, tokens or head that do not exist. NonFiniteError: NaN in weights, images or states.

    Cost: one solve, and two from t to T.
    """
    model, _, trajectory = factual(model, images)
    now = moment(model, trajectory, t)
    with torch.no_grad():
        start = change.state(now)
        before, after = now.solve(now.x), now.solve(start, change.field(now))
        logits, changed = model.readout(before[-1]), model.readout(after[-1])
        own = model.readout(trajectory.x[-1])
    check_finite("changed trajectory", after, f"after t = {now.t:g}")
    distance = (after - before).norm(dim=-1)
    return InterventionReport(
        provenance=provenance(model, now.x, getattr(change, "seed", None)),
        change=change.describe(),
        t=now.t,
        time=array(now.times),
        size=array((start - now.x).flatten(1).norm(dim=1)),
        logits_before=array(logits),
        logits_after=array(changed),
        kl=array(divergence(logits, changed)),
        flipped=array(logits.argmax(-1) != changed.argmax(-1)).astype(bool),
        token_distance=array(distance),
        restart_gap=float((own - logits).abs().max()),
    )


def effect_map(
    model, images: Tensor, times: Sequence[float], change: Change, regions: Sequence | None = None
) -> EffectMapReport:
    """The effect of the same change at every time and region: when and where is the class decided?

    Args:
        model, images: as in `intervene`.
        times: steps of model.grid.
        change: what is done; its own tokens (or head) are replaced by each region in turn.
        regions: tokens (see `token_indices`, `patch_region`), or heads for KnockOutHead; every single one unless given.

    Returns:
        EffectMapReport, arrays over (time, region, image).

    Cost: for each time and region one solve from t to T for all images, batched; heads are taken in turn.
    """
    if not len(times):
        raise UserError("times: none given")
    model, _, trajectory = factual(model, images)
    if regions is None:
        regions = range(model.config.num_heads if hasattr(change, "head") else model.layout.size)
    rows = []
    with torch.no_grad():
        for t in times:
            now = moment(model, trajectory, t)
            logits = now.logits(now.x)
            starts, changed = _changed_logits(now, [change.at(region) for region in regions])
            check_finite("changed logits", changed, f"after t = {now.t:g}")
            first = logits.argmax(-1)
            rows.append({
                "size": starts,
                "kl": divergence(logits.expand_as(changed), changed),
                "flipped": changed.argmax(-1) != first,
                "logit_change": _of_class(changed, first) - _of_class(logits, first),
                "margin_change": _lead(changed, first) - _lead(logits, first),
            })  # fmt: skip
    stacked = {name: array(torch.stack([row[name] for row in rows])) for name in rows[0]}
    return EffectMapReport(
        provenance=provenance(model, trajectory.x, getattr(change, "seed", None)),
        change=change.describe(),
        time=array([trajectory.t[step_index(model.grid, t)] for t in times]),
        regions=tuple(str(region) for region in regions),
        **(stacked | {"flipped": stacked["flipped"].astype(bool)}),
    )


def joined(maps: Sequence[EffectMapReport]) -> EffectMapReport:
    """One map of maps of the same change in the same images, each at some of the times and regions, which it has once.

    Returns:
        EffectMapReport with ascending times, regions in the order in which they come.

    Raises UserError where the changes or numbers of images differ, or a region lacks a time.
    """
    first = maps[0]
    times = np.unique(np.concatenate([part.time for part in maps]))
    regions = tuple(dict.fromkeys(region for part in maps for region in part.regions))
    cells = [name for name, axes in first.axes.items() if len(axes) == 3]
    shape = (len(times), len(regions), first.kl.shape[2])
    whole: dict[str, Any] = {name: np.zeros(shape, getattr(first, name).dtype) for name in cells}
    seen = np.zeros(shape[:2], bool)
    for part in maps:
        if (part.change, part.kl.shape[2]) != (first.change, shape[2]):
            raise UserError(f"maps: {part.change!r} in {part.kl.shape[2]} images is not {first.change!r} in {shape[2]}")
        where = np.ix_(np.searchsorted(times, part.time), np.array([regions.index(region) for region in part.regions]))
        seen[where] = True
        for name in cells:
            whole[name][where] = getattr(part, name)
    if not seen.all():
        raise UserError(f"maps: {np.sum(~seen)} of {seen.size} pairs of time and region are missing")
    return replace(first, time=times, regions=regions, **whole)


def _of_class(logits: Tensor, index: Tensor) -> Tensor:
    """Logit of each image's class, (..., B, C), (B,) -> (..., B)."""
    return logits.gather(-1, index.expand(logits.shape[:-1])[..., None]).squeeze(-1)


def _lead(logits: Tensor, index: Tensor) -> Tensor:
    """Logit of each image's class minus the largest of the others; negative where the prediction has changed."""
    others = logits.scatter(-1, index.expand(logits.shape[:-1])[..., None], -torch.inf)
    return _of_class(logits, index) - others.amax(-1)


def _changed_logits(now: Moment, changes: list[Change]) -> tuple[Tensor, Tensor]:
    """(sizes (R, B), logits (R, B, C)) after each change; changes of the state alone share a batch, as many as CHUNK allows."""
    batch, n, width = now.x.shape
    heads = now.model.config.num_heads
    together = max(1, CHUNK // (batch * n * (heads * n + 8 * width)))
    sizes: list[Tensor] = []
    logits: list[Tensor] = []
    for first in range(0, len(changes), together):
        group = changes[first : first + together]
        starts, fields = torch.stack([c.state(now) for c in group]), [c.field(now) for c in group]
        sizes.append((starts - now.x).flatten(2).norm(dim=2))
        if any(field is not None for field in fields):
            logits += [now.logits(x, field)[None] for x, field in zip(starts, fields)]
        else:
            logits.append(now.logits(starts.flatten(0, 1)).unflatten(0, (len(group), batch)))
    return torch.cat(sizes), torch.cat(logits)
