"""Figures of a student and its teacher: distances between times and layers, before and after; where the control points lie."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from odevit.errors import UserError

from ..reports import MatchReport, PairReport
from . import style
from .choices import narrow, top_legend

FAR = 2.0  # relative distance from which on all is one colour: h_0 is small, and everything is far from it
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)  # temperatures, in units of the spread of the distances


@style.figure
def match_distance(report: MatchReport, *, ax: Axes | None = None) -> Figure:
    """Distance between the student's path and the teacher's layers.

    Relative distance ||x(t) - A h_l|| / ||A h_l|| of every saved time to every layer; circles: the time nearest to each layer;
    line: the monotone matching with the least sum of distances. A student that follows its teacher is dark along a rising line;
    all that is further than twice the size of the teacher's state has one colour.

    Args:
        report: MatchReport.   ax: axes to draw on.
    """
    style.check_report(report, MatchReport, "distance")
    made, ax = style.new_axes(ax, height=0.6)
    values = style.note_gaps(made, report.distance, "distance")
    top = min(float(np.nanmax(values, initial=0.0)) or 1.0, FAR)
    image = ax.pcolormesh(report.time, report.layer, values, shading="nearest", rasterized=True, vmin=0.0, vmax=top)
    layers, times = report.schedule.T
    ax.plot(report.time[times], report.layer[layers], color=style.OKABE_ITO[4], label="monotone matching")
    ring = style.dots(0, "o") | {"color": "white", "markeredgecolor": "black"}
    ax.plot(report.matched_time, report.layer, label="nearest time", **ring)
    ax.set_xlabel(f"student, {style.TIME}")
    ax.set_ylabel("teacher, layer")
    extend = "max" if np.nanmax(values, initial=0.0) > top else "neither"
    made.colorbar(image, ax=ax, label="relative distance", extend=extend)
    style.note(made, f"{report.tokens} tokens, A = {report.fit}" + ("" if report.determined else " (fit not determined)"))
    style.outside_legend(ax)
    return made


@style.figure
def control_points(report: PairReport, temperatures: Sequence[float] | None = None, *, ax: Axes | None = None) -> Figure:
    """Placement of the control points against temperature.

    Times at which the student shall be where its teacher is after each layer: the way there takes the share
    softmax(d / temperature) of [0, T], d = the mean distance that the teacher moves in the layer, in whole steps of the solver
    by largest remainders. At high temperature the gaps are equal, at low temperature the longest way takes all the time that
    it can. Last row, diamonds: the control points of this student.

    Args:
        report: PairReport.   temperatures: in the unit of the state, positive; from a tenth of the spread of d to ten times it,
            and that of the training, unless given.   ax: axes to draw on.
    """
    from odevit.distillation.control_points import apportion, shares

    d = style.check_report(report, PairReport, "moved").moved
    if not np.isfinite(d).all():
        raise UserError("moved: the distances of the teacher are not finite")
    chosen = _temperatures(report) if temperatures is None else list(temperatures)
    if not all(t > 0 for t in chosen):
        raise UserError(f"temperatures: {tuple(chosen)} must be positive")
    made, ax = style.new_axes(ax, height=0.4)
    rows = []
    for temperature in chosen:
        parts = shares(d.tolist(), temperature)
        parts = [count / report.steps for count in apportion(parts, report.steps)] if report.steps >= d.size else parts
        rows.append(report.horizon * np.append(0.0, np.cumsum(parts)))
    for row, times in enumerate([*rows, report.control_times]):
        ax.plot(times, np.full(times.size, row), "-", color="0.8", zorder=1)
        ax.scatter(times, np.full(times.size, row), c=np.arange(times.size), cmap=style.sequential, s=15, edgecolors="black",
                   linewidths=0.3, zorder=2, marker="o" if row < len(rows) else "D")  # fmt: skip
    ax.set_yticks(range(len(rows) + 1), [*(f"{t:.2g}" for t in chosen), "this student"])
    ax.set_xlabel(style.TIME)
    ax.set_ylabel("temperature (state)")
    return made


def _temperatures(report: PairReport) -> list[float]:
    spread = float(np.ptp(report.moved)) or 1.0
    found = {float(f"{factor * spread:.1g}") for factor in FACTORS}
    return sorted(found | ({report.temperature} if np.isfinite(report.temperature) else set()))


@style.figure
def pair_distance(report: PairReport) -> Figure:
    """What the teacher changed in its student.

    Left: relative distance of CLS from the teacher's, root of mean |x(t_l) - h_l|^2 / mean |h_l|^2, at the control time of each
    layer; 0 is on the teacher, 1 no better than zero. Right: how much of CLS's attention goes to the same patches in both,
    mean of sum_j min(p_j, q_j) with heads averaged, at the beginning of each layer. Before: the student as it was built, on the
    images of its validation.

    Args:
        report: PairReport.
    """
    style.check_report(report, PairReport, "distance", "overlap")
    made, ((left, right),) = style.panels(1, 2, height=0.62 if narrow() else 0.4)
    for index, (when, values) in enumerate((("before training", report.before), ("after training", _now(report)))):
        for ax, name in ((left, "distance"), (right, "overlap")) if values else ():
            layers = np.arange(len(values[name]))
            style.curve(ax, layers, values[name], when, index, markevery=max(1, len(layers) // 12))
    left.set(xlabel="layer of the teacher", ylabel="relative distance", ylim=(0, None))
    right.set(xlabel="layer of the teacher", ylabel="overlap of attention")
    for ax in (left, right):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    top_legend(made, left, 2)
    style.note(made, f"{report.images} images" + (f" (before: {report.before['n']})" if report.before else ""))
    return made


def _now(report: PairReport) -> dict[str, np.ndarray]:
    return {"distance": report.distance, "overlap": report.overlap}
