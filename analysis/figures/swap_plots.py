"""Figures of one solver against another: two answers to one image, its paths, no-flip radii, largest stable steps."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from odevit.errors import UserError

from ..reports import AnswersReport, SolverPathsReport, StabilityReport
from . import style
from .lens_plots import probabilities

SHOWN = 10  # classes with bars


@style.figure
def two_answers(
    first: np.ndarray, second: np.ndarray, names: Sequence[str] = (), words: tuple[str, str] = ("before", "after"), *,
    ax: Axes | None = None,
) -> Figure:  # fmt: skip
    """Class probabilities of two answers to one image.

    Pale: the first, full: the second; of many classes the ten likeliest.

    Args:
        first, second: logits, (C,).   names: of the classes, their numbers unless given.   words: what the two are.
        ax: axes to draw on.
    """
    made, ax = style.new_axes(ax, height=0.45)
    p, q = probabilities(np.asarray(first)), probabilities(np.asarray(second))
    shown = np.sort(np.argsort(-np.maximum(p, q), kind="stable")[:SHOWN])
    places, colours = np.arange(len(shown)), [style.class_colour(int(c)) for c in shown]
    ax.bar(places - 0.2, p[shown], 0.4, color=colours, alpha=0.45, hatch="///", edgecolor="white", linewidth=0, label=words[0])
    ax.bar(places + 0.2, q[shown], 0.4, color=colours, label=words[1])
    ax.set_xticks(places, [str(names[c]) if c < len(names) else str(c) for c in shown])
    ax.set_ylim(0, 1)
    ax.set_xlabel("class")
    ax.set_ylabel("probability")
    style.outside_legend(ax, columns=2)
    return made


@style.figure
def solver_paths(report: SolverPathsReport) -> Figure:
    """One image under several solvers.

    Left: CLS on the two principal axes of its path in the ODE (a fine solve, grey), a sign at each state that a solver visits.
    Right: distance of the whole state to the fine solve.

    Args:
        report: SolverPathsReport.
    """
    style.check_report(report, SolverPathsReport, "time")
    made, axes = style.panels(1, 2, height=0.45)
    plane, distance = axes[0]
    plane.plot(*report.plane[0].T, color="0.6", linewidth=2.5, label=str(report.name[0]))
    for row in range(1, len(report.name)):
        look = style.line(row - 1) | {"marker": style.MARKERS[row - 1], "label": str(report.name[row])}
        plane.plot(*report.plane[row].T, **look)
        later = report.distance[row] > 0
        distance.plot(report.time[row][later], report.distance[row][later], **look)
    plane.set_aspect("equal", adjustable="datalim")
    plane.set_xlabel(f"CLS, axis 1 ({100 * report.share[0]:.3g} %)")
    plane.set_ylabel(f"CLS, axis 2 ({100 * report.share[1]:.3g} %)")
    distance.set_yscale("log")
    distance.set_xlabel(style.TIME)
    distance.set_ylabel(r"$\|x_h(t) - x(t)\|$ (state)")
    style.outside_legend(plane, columns=1)
    return made


@style.figure
def no_flip_margins(report: AnswersReport, *, ax: Axes | None = None) -> Figure:
    """Which predictions could another solver change?

    Each image: how far the readout's input moves, against its no-flip radius; above the dashed diagonal no prediction can flip.

    Args:
        report: AnswersReport.   ax: axes to draw on.
    """
    style.check_report(report, AnswersReport, "shift", "radius")
    made, ax = style.new_axes(ax, height=0.5)
    flipped = np.isin(np.arange(len(report.shift)), report.flips)
    for index, (word, chosen, marker) in enumerate((("kept", ~flipped, "o"), ("flipped", flipped, "x"))):
        ax.plot(report.shift[chosen], report.radius[chosen], label=f"{word} ({chosen.sum()})", **style.dots(index, marker))
    end = 1.05 * float(max(report.shift.max(), np.median(report.radius)))
    ax.plot([0, end], [0, end], color="0.4", linestyle="dashed", linewidth=0.8)
    ax.set_xlabel(r"$\|\Delta$ readout input$\|$")
    ax.set_ylabel("no-flip radius")
    style.outside_legend(ax)
    return made


@style.figure
def step_limits(reports: Sequence[StabilityReport], times: Sequence[float], *, ax: Axes | None = None) -> Figure:
    """Largest step in which every leading decaying mode decays.

    For each method over t; dashed: the step that is taken. A gap: no leading mode decays.

    Args:
        reports: StabilityReports, in the order of `times` for each method.   times: unit t.   ax: axes to draw on.
    """
    found = style.check_reports(reports, StabilityReport, "h_max")
    names = list(dict.fromkeys(r.method for r in found))
    if len(found) != len(names) * len(times):
        raise UserError(f"reports: {len(found)} for {len(names)} methods at {len(times)} times")
    made, ax = style.new_axes(ax, height=0.45)
    for index, method in enumerate(names):
        limits = np.array([r.h_max_all for r in found if r.method == method])
        style.curve(ax, np.asarray(times), np.where(np.isfinite(limits), limits, np.nan), method, index)
    ax.axhline(found[0].h, color="0.4", linestyle="dashed", linewidth=0.8, label=f"h = {found[0].h:.3g}")
    ax.set_yscale("log")
    ax.set_xlabel(style.TIME)
    ax.set_ylabel(r"$h_{\max}$ ($t$)")
    style.outside_legend(ax)
    return made
