"""Figures of when the class is decided, and of what a change along the way does to the rest of the path."""

import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from odevit.errors import UserError

from ..reports import InterventionReport, LensReport
from . import style
from .choices import check_index, class_name, narrow, side_legend

NAMED = 6  # classes with a line in the legend, those of the largest probability at any time


@style.figure
def logit_lens(
    report: LensReport,
    image: int = 0,
    *,
    label: int | None = None,
    names: Sequence[str] = (),
    ax: Axes | None = None,
) -> Figure:
    """What the readout says of every saved state.

    Class probabilities softmax(head(x_CLS(t))) of one image in the colours of the classes; those that are never among the
    largest are grey. Vertical line: decision time, the first saved time from which the prediction is the final one. Grey bar on
    top: steps inside which the prediction could flip unseen, by the measured speed of CLS.

    Args:
        report: LensReport.   image: which.   label: its true class.   names: of the classes.   ax: axes to draw on.
    """
    style.check_report(report, LensReport, "logits")
    check_index("image", image, report.logits.shape[1])
    made, ax = style.new_axes(ax, height=0.5)
    chance = probabilities(style.note_gaps(made, report.logits[:, image], "logits"))
    best = np.argsort(-np.nan_to_num(chance).max(0), kind="stable")[:NAMED]
    for k in np.flatnonzero(~report.resolved[:, image]):
        hidden = "a flip could hide" if report.resolved[:k, image].all() else "_again"
        ax.axvspan(report.time[k], report.time[k + 1], 0.97, 1.0, color="0.8", linewidth=0, label=hidden)
    for c in range(chance.shape[1]):
        if c not in best:
            ax.plot(report.time, chance[:, c], "-", color="0.75", linewidth=0.6, label=f"_class {c}")
    for c in sorted(best):
        name = class_name(c, names) + (" (true)" if c == label else "")
        look = style.line(c) | {"marker": style.class_marker(c), "linewidth": 2.0 if c == label else 1.2}
        ax.plot(report.time, chance[:, c], label=name, **look)
    decided = report.decision_time[image]
    ax.axvline(decided, color="black", linewidth=0.8, linestyle="dashed", label=rf"decided, $t^* = {decided:.3g}$")
    ax.set(xlabel=style.TIME, ylabel="probability", ylim=(0, 1))
    side_legend(ax)
    return made


def probabilities(logits: np.ndarray) -> np.ndarray:
    """softmax over the last axis; NaN stays NaN.

    >>> probabilities(np.log([1.0, 3.0])).round(12).tolist()
    [0.25, 0.75]
    """
    grown = np.exp(logits - logits.max(-1, keepdims=True))
    return grown / grown.sum(-1, keepdims=True)


@style.figure
def decision_times(report: LensReport, labels: Sequence[int] | None = None, *, ax: Axes | None = None) -> Figure:
    """When the class is decided.

    Share of images whose prediction at saved time t is already the final one and stays it (solid); and of those, where no flip
    can hide inside a step from then on (dashed). With labels: accuracy of the readout at every saved time (dotted).

    Args:
        report: LensReport.   labels: true class of each image.   ax: axes to draw on.
    """
    style.check_report(report, LensReport, "decision_time")
    made, ax = style.new_axes(ax, height=0.45)
    order = np.argsort(report.time) if report.time[0] < report.time[-1] else np.argsort(-report.time)
    time = report.time[order]
    rank = np.searchsorted(time * np.sign(time[-1] - time[0]), report.decision_time * np.sign(time[-1] - time[0]))
    reached = rank <= np.arange(len(time))[:, None]
    ax.step(time, reached.mean(1), where="post", marker="o", label="decided", **style.line(0))
    sure = (reached & report.decision_resolved).mean(1)
    ax.step(time, sure, where="post", marker="s", label="decided, no flip can hide", **style.line(1))
    if labels is not None:
        truth = np.asarray(labels)[: report.prediction.shape[1]]
        if len(truth) != report.prediction.shape[1]:
            raise UserError(f"labels: {len(truth)} for {report.prediction.shape[1]} images")
        ax.plot(time, (report.prediction[order] == truth).mean(1), marker="^", label="accuracy", **style.line(2))
    ax.set(xlabel=style.TIME, ylabel=f"share of {report.prediction.shape[1]} images", ylim=(0, 1.02))
    style.outside_legend(ax)
    return made


@style.figure
def intervention_distance(
    reports: InterventionReport | Sequence[InterventionReport], *, relative: bool = False, ax: Axes | None = None
) -> Figure:
    """How a change at one time spreads over the rest of the path.

    Distance |x'(s) - x(s)| over all tokens between the changed and the unchanged path, from the time of the change on; line:
    median over images, band: 10 % to 90 %. In brackets: images whose prediction changed.

    Args:
        reports: InterventionReports of one model, one for each change.   relative: divide by the size of the change.
        ax: axes to draw on.
    """
    drawn = style.check_reports(reports, InterventionReport, "token_distance")
    labels = [_said(report) for report in drawn]
    lines = sum(label.count("\n") + 1 for label in labels)
    made, ax = style.new_axes(ax, height=0.45 + 0.14 * lines / style.width(*style.page()))
    for index, (report, label) in enumerate(zip(drawn, labels)):
        size = np.where(report.size > 0, report.size, np.nan) if relative else 1.0
        style.curve(ax, report.time, (report.distance / size).T, label, index)
    ax.set(xlabel=style.TIME, ylabel=r"$\|x' - x\|$ / size of the change" if relative else r"$\|x' - x\|$ (state)")
    ax.set_ylim(bottom=0)
    style.outside_legend(ax, columns=1)
    return made


def _said(report: InterventionReport) -> str:
    """The change, when, and how many predictions it flips, in lines that fit the page."""
    flips = f"{int(report.flipped.sum())} of {len(report.flipped)} flipped"
    return textwrap.fill(f"{report.change}, t = {report.t:.3g} ({flips})", 44 if narrow() else 90)
