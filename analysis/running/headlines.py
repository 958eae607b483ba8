"""Each report of a run in one line, for the terminal and summary.md; which side a number comes from is said."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def _certificate(reports) -> str:
    verdicts = reports[0].verdicts
    counts = [f"{sum(v.status == s for v in verdicts)} {s}" for s in ("proven", "measured", "vacuous")]
    doubts = [v.name for v in verdicts if v.holds is False and v.status != "vacuous"]
    return f"{', '.join(counts)}; doubts: {', '.join(doubts) or 'none'}"


def _late(reports) -> str:
    """What did not converge, over the files of all times."""
    found = sum(int(np.sum(r.converged)) for r in reports)
    asked = sum(r.residuals.shape[0] * min(r.residuals.shape[1], 16) for r in reports)
    return "" if found >= asked else f"; {found} of {asked} converged"


def _eigenvalues(reports) -> str:
    values = np.concatenate([r.eigenvalues.ravel() for r in reports])
    values = values[~np.isnan(values)]
    parts = f"Re lambda in [{values.real.min():.3g}, {values.real.max():.3g}]"
    return f"largest |lambda| {abs(values).max():.3g}, {parts}{_late(reports)}"


def _singular(reports) -> str:
    return f"|J| up to {max(np.nanmax(r.singular_values) for r in reports):.3g} (measured, from below){_late(reports)}"


def _lipschitz(reports) -> str:
    lower, local = (max(float(np.max(getattr(r, side))) for r in reports) for side in ("lower", "local"))
    upper = max(r.upper for r in reports)
    vacuous = " (vacuous)" if any(r.vacuous for r in reports) else ""
    return f"|J|: lower {lower:.3g}, local {local:.3g} at the states; upper {upper:.3g}{vacuous} on the ball seen"


def _flow_bound(reports) -> str:
    (r,) = reports
    return f"exp int mu dt <= {np.max(r.most):.3g}, mu(J) in [{np.min(r.expansion):.3g}, {np.max(r.expansion):.3g}]"


def _influence(reports) -> str:
    mean = np.mean([np.mean(r.influence, 0) for r in reports], 0)
    own, most = np.trace(mean) / mean.sum(), max(r.influence.max() for r in reports)
    return f"block norms |J_ij| ({reports[0].norm}): up to {most:.3g}; {own:.0%} of the mean on the diagonal"


def _range(reports) -> str:
    (r,) = reports
    return f"numerical radius in [{r.radius:.3g}, {r.radius_upper:.3g}] at t = {r.t:g}, mu(J) {r.support[0]:.3g}"


def _region(reports) -> str:
    return f"|R(z)| of {reports[0].method}, for figures"


def _weights(reports) -> str:
    (r,) = reports
    return f"largest |eigenvalue|: QK {abs(r.qk).max():.3g}, OV {abs(r.ov).max():.3g}"


def _exponents(reports) -> str:
    (r,) = reports
    given = bool((r.labels >= 0).all())
    right = f"; {int(r.correct.sum())} of {len(r.correct)} right" if given else ""
    auc = "" if np.isnan(r.auc) else f", AUC {r.auc:.3f} [{r.auc_low:.3f}, {r.auc_high:.3f}] of wrong against right"
    return f"finite-time, {len(r.exponents)} images: {r.mean:.3g} +- {r.std:.2g} per unit t{right}{auc}"


def _spectrum(reports) -> str:
    (r,) = reports
    values = np.atleast_2d(r.exponents)
    first, last = np.nanmax(values[:, 0]), np.nanmin(values[:, -1])
    return f"{len(values)} images: first {first:.3g} at most, number {values.shape[1]} {last:.3g} at least, per unit t"


def _euler(reports) -> str:
    (r,) = reports
    principal, true = np.max(r.principal[:, -1]), np.max(r.true_error[:, -1])
    classical = "vacuous" if np.any(r.vacuous) else f"{np.max(r.classical):.2g}"
    return f"error at T {true:.2g}; principal {principal:.2g}, stepwise {np.max(r.stepwise[:, -1]):.2g}, classical {classical}"


def _order(reports) -> str:
    return reports[0].verdict


def _swap(reports) -> str:
    (r,) = reports
    worst = int(r.max_logit_change.argmax())
    steps = f", {r.steps[worst]} steps" if r.steps[worst] else ""
    return (
        f"{r.images} images, {len(r.method)} solves: flips up to {r.flip_rate.max():.1%}, logits by up to "
        f"{r.max_logit_change[worst]:.2g} ({r.method[worst]}{steps})"
    )


def _paths(reports) -> str:
    (r,) = reports
    straight, clusters = np.nanmean(r.straightness), np.mean(r.clusters[-1])
    return f"means: length {np.mean(r.length):.3g}, straightness {straight:.2f}, clusters at T {clusters:.1f}"


def _straight(reports) -> str:
    (r,) = reports
    share = r.variances[:2].sum() / (r.variances.sum() or 1.0)
    return f"{share:.0%} of the variance of CLS on two axes; straightness {np.nanmean(r.straightness):.2f} (mean)"


def _lens(reports) -> str:
    (r,) = reports
    resolved = f"{int(r.decision_resolved.sum())} of {len(r.decision_time)} resolved by the grid"
    resolved = resolved if r.linear else "not resolved, there is a final norm"
    return f"class decided at t = {np.median(r.decision_time):.3g} (median); {resolved}"


def _attention(reports) -> str:
    (r,) = reports
    largest = np.log(r.entropy.shape[-1])
    first, last = (np.mean(r.entropy[k]) for k in (0, -1))
    return f"entropy {first:.2f} to {last:.2f} of {largest:.2f} nats, softmax's Jacobian <= {r.softmax_bound.max():.2f}"


def _effects(reports) -> str:
    (r,) = reports
    mean = r.kl.mean(2)
    t, region = np.unravel_index(int(mean.argmax()), mean.shape)
    return f"{r.change}: strongest at t = {r.time[t]:.3g}, token {r.regions[region]} (KL {mean.max():.2g} nats)"


def _plane(reports) -> str:
    (r,) = reports
    return f"CLS, others held at t = {r.held_at:.3g}; {np.median(r.off_plane):.0%} of |dx/dt| points out of the plane (median)"


def _change(reports) -> str:
    (r,) = reports
    grown = np.median(r.distance[-1] / np.where(r.size > 0, r.size, np.nan))
    flips = f"{int(r.flipped.sum())} of {len(r.flipped)} flipped"
    return f"{r.change} at t = {r.t:.3g}: {flips}, distance x {grown:.2g} at T (median)"


HEADLINES: dict[str, Callable[[Sequence[Any]], str]] = {
    "certificate": _certificate, "eigenvalues": _eigenvalues, "singular_values": _singular, "lipschitz": _lipschitz,
    "flow_bound": _flow_bound, "numerical_range": _range, "influence": _influence, "stability_region": _region,
    "weight_spectra": _weights, "exponents": _exponents, "finite_time": _spectrum, "lyapunov": _spectrum,
    "euler_error": _euler, "euler_error_x2": _euler, "euler_error_x4": _euler, "observed_order": _order,
    "solver_swap": _swap, "token_paths": _paths, "lens": _lens, "attention": _attention, "effects": _effects,
    "cls_paths": _straight, "cls_plane": _plane, "intervention_cls": _change, "intervention_registers": _change,
    "intervention_random": _change, "intervention_sensitive": _change,
}  # fmt: skip
