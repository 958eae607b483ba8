"""Figures of a student and its teacher: distances between times and layers, placement of the control points."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from odevit.errors import UserError

from ..reports import MatchReport
from . import style


@style.figure
def match_distance(report: MatchReport, *, ax: Axes | None = None) -> Figure:
    """Distance between the student's path and the teacher's layers.

    Relative distance ||x(t) - A h_l|| / ||A h_l|| of every saved time to every layer; circles: the time nearest to each layer;
    line: the monotone matching with the least sum of distances. A student that follows its teacher is dark along a rising line.

    Args:
        report: MatchReport.   ax: axes to draw on.
    """
    style.check_report(report, MatchReport, "distance")
    made, ax = style.new_axes(ax, height=0.6)
    values = style.note_gaps(made, report.distance, "distance")
    image = ax.pcolormesh(report.time, report.layer, values, shading="nearest", rasterized=True)
    layers, times = report.schedule.T
    ax.plot(report.time[times], report.layer[layers], color=style.OKABE_ITO[4], label="monotone matching")
    ring = style.dots(0, "o") | {"color": "white", "markeredgecolor": "black"}
    ax.plot(report.matched_time, report.layer, label="nearest time", **ring)
    ax.set_xlabel(f"student, {style.TIME}")
    ax.set_ylabel("teacher, layer")
    said = f", {report.tokens} tokens, A = {report.fit}" + ("" if report.determined else " (fit not determined)")
    made.colorbar(image, ax=ax, label=f"relative distance{said}")
    style.outside_legend(ax)
    return made


@style.figure
def control_points(
    distances, temperatures: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0), horizon: float | None = None,
    steps: int | None = None, *, ax: Axes | None = None,
) -> Figure:  # fmt: skip
    """Placement of control points against temperature.

    Times of the teacher's layers: the way to each takes the share softmax(d / temperature) of T, d = the teacher's mean
    distance between consecutive hidden states. At high temperature gaps are equal, at low temperature the longest step takes
    all time.

    Args:
        distances: d, shape (L,), of the L steps between L + 1 hidden states.   temperatures: in the unit of d, positive.
        horizon: T; L unless given.   steps: of the solver, on which the points lie by largest remainders; the shares
            themselves unless given.   ax: axes to draw on.
    """
    from odevit.distillation.control_points import apportion, shares

    d = np.asarray(distances, dtype=float)
    if d.ndim != 1 or d.size == 0 or not np.isfinite(d).all():
        raise UserError(f"distances: shape {d.shape}; one finite distance for each step between hidden states is needed")
    if not all(t > 0 for t in temperatures):
        raise UserError(f"temperatures: {tuple(temperatures)} must be positive")
    made, ax = style.new_axes(ax, height=0.4)
    for row, temperature in enumerate(temperatures):
        parts = shares(d.tolist(), temperature)
        parts = parts if steps is None else [count / steps for count in apportion(parts, steps)]
        times = (horizon or d.size) * np.append(0.0, np.cumsum(parts))
        ax.plot(times, np.full(times.size, row), "-", color="0.8", zorder=1)
        ax.scatter(times, np.full(times.size, row), c=np.arange(times.size), cmap=style.sequential, s=14, edgecolors="black",
                   linewidths=0.3, zorder=2)  # fmt: skip
    ax.set_yticks(range(len(temperatures)), [f"{t:g}" for t in temperatures])
    ax.set_xlabel(style.TIME)
    ax.set_ylabel("temperature (state)")
    return made
