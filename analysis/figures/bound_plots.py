"""Figures of Lipschitz bounds, lower <= true <= local <= upper: over t, and every bound by name."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..reports import LipschitzReport
from . import style

SIDES = {"lower": (0, "o"), "local": (1, "s"), "upper": (2, "^")}  # colour of the palette and marker


@style.figure
def lipschitz_over_time(reports: LipschitzReport | Sequence[LipschitzReport], *, ax: Axes | None = None) -> Figure:
    """Bounds of the spectral norm of the Jacobian along the flow.

    lower <= ||J|| <= local at each state; upper holds on the whole ball max_i ||x_i|| <= R, within which ascent is the largest
    stretch that a search found (measured). Line: median over the images; band: 10 % to 90 %. An upper bound that says nothing
    (infinite, or through the global constant of LayerNorm) is drawn hollow where it is finite and called vacuous.

    Args:
        reports: LipschitzReports with states, one for each time.   ax: axes to draw on.
    """
    found = sorted(style.check_reports(reports, LipschitzReport, "lower"), key=lambda r: r.t)
    made, ax = style.new_axes(ax, height=0.5)
    time = [r.t for r in found]
    for index, name in enumerate(("lower", "local")):
        values = np.stack([np.atleast_1d(getattr(r, name)) for r in found], -1)
        style.curve(ax, time, values, f"{name} (at the states)", index)
    vacuous = [r.vacuous for r in found]
    label = "upper (on the ball)" + (", vacuous" if all(vacuous) else ", hollow: vacuous" if any(vacuous) else "")
    style.curve(ax, time, [r.upper for r in found], label, 2, markerfacecolor="none" if all(vacuous) else None)
    if any(vacuous) and not all(vacuous):
        hollow = [r.upper if r.vacuous and np.isfinite(r.upper) else np.nan for r in found]
        ax.plot(time, hollow, style.MARKERS[2], color=style.OKABE_ITO[2], markerfacecolor="white", linestyle="none")
    style.curve(ax, time, [r.ascent for r in found], "ascent in the ball (measured)", 3)
    ax.set_yscale("log")
    ax.set_xlabel(style.TIME)
    ax.set_ylabel(r"bound of $\|J\|_2$ (1/$t$)")
    style.outside_legend(ax, columns=2)
    return made


@style.figure
def lipschitz_parts(reports: LipschitzReport | Sequence[LipschitzReport], *, ax: Axes | None = None) -> Figure:
    """Every bound of the field and its parts by name.

    F is the MLP branch, G the attention branch. The sign tells the side: o lower, square local (at the states), triangle upper
    (on a ball or everywhere); hollow: vacuous. Filled signs are the largest value over the states, the line spans all states.
    Bounds in the infinity norm and of the logarithmic norm are named as such and not comparable with the others.

    Args:
        reports: LipschitzReport; of several that with the largest `local` is drawn.   ax: axes to draw on.
    """
    found = style.check_reports(reports, LipschitzReport, "part")
    report = max(found, key=lambda r: float(np.nan_to_num(np.max(r.local), nan=-1.0)))
    made, ax = style.new_axes(ax, height=0.085 + 0.034 * len(report.part))
    values = style.note_gaps(made, np.where(report.value > 0, report.value, np.nan), "bounds")
    for row, (part, states) in enumerate(zip(report.parts.values(), values)):
        seen = states[np.isfinite(states)]
        if not seen.size:
            continue
        colour, marker = SIDES[part.side]
        fill = "none" if part.status == "vacuous" else style.OKABE_ITO[colour]
        ax.plot([seen.min(), seen.max()], [row, row], "-", color=style.OKABE_ITO[colour], linewidth=0.8)
        ax.plot(seen.max(), row, marker, color=style.OKABE_ITO[colour], markerfacecolor=fill)
    for side, (colour, marker) in SIDES.items():
        ax.plot([], [], marker, color=style.OKABE_ITO[colour], linestyle="none", label=side)
    ax.plot([], [], "o", color="0.3", markerfacecolor="none", linestyle="none", label="vacuous")
    ax.set_yticks(range(len(report.part)), [_named(name, norm) for name, norm in zip(report.part, report.norm)])
    ax.set_ylim(len(report.part) - 0.4, -0.6)
    ax.set_xscale("log")
    ax.grid(axis="x")
    ax.set_xlabel(rf"bound of the Jacobian of the field or branch (1/$t$), $R = {report.radius:.3g}$, $t = {report.t:g}$")
    style.outside_legend(ax)
    return made


def _named(name: str, norm: str) -> str:
    """The name of a bound with its norm where that is not the spectral norm and the name does not say so."""
    said = {"2": "", "inf": "infinity", "mu_2": "logarithmic"}.get(norm, norm)
    return str(name) if not said or said in str(name) else f"{name} ({said} norm)"
