"""Figures of the solver: error of Euler's method against steps and along t; accuracy and flips under other solvers."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from odevit.errors import UserError

from ..reports import DiscretizationReport, OrderReport, SwapReport
from . import style

LEAST_SPAN = 0.1  # of an axis of shares
DECADES_ABOVE = 1e6  # times the largest error, where the axes end
ESTIMATES = {
    "measured": "measured",
    "principal": r"principal error $h\|e(T)\|$ (estimate)",
    "stepwise": r"stepwise bound, $\|I+hJ_k\|$",
    "logarithmic": r"bound with $\gamma_h$",
    "classical": r"classical bound, $e^{LT}$",
}


@style.figure
def euler_error(
    reports: DiscretizationReport | Sequence[DiscretizationReport], order: OrderReport | None = None, *, ax: Axes | None = None
) -> Figure:  # fmt: skip
    """Error of Euler's method at T against the number of steps.

    ||x_h(T) - x(T)|| measured against a fine solve, its first-order estimate, and three bounds, on the same images: median and
    10 % to 90 %. p: slope between the two finest solves; an error of first order falls like the thin dotted line. Bounds take
    their constants on the trajectory and hold to first order in h. A hollow sign is vacuous (L T > 50); what is many decades
    above the errors leaves the axes, and this is said.

    Args:
        reports: DiscretizationReports with different numbers of steps.   order: OrderReport of the same model.
        ax: axes to draw on.
    """
    found = sorted(style.check_reports(reports, DiscretizationReport, "time"), key=lambda r: r.steps)
    made, ax = style.new_axes(ax, height=0.6)
    steps = np.array([r.steps for r in found], dtype=float)
    images = min(np.size(r.classical) for r in found)
    for index, (name, label) in enumerate(ESTIMATES.items()):
        values = np.stack([_at_end(r, name)[:images] for r in found], -1)
        if not np.isfinite(values).any():
            continue
        if index < 2:
            label += _slope(steps, np.nanmedian(values, 0))
        vacuous = name == "classical" and any(np.any(r.vacuous) for r in found)
        style.curve(ax, steps, values, label + (", vacuous" if vacuous else ""), index,
                    markerfacecolor="none" if vacuous else None)  # fmt: skip
    first = np.nanmedian(_at_end(found[0], "principal"))
    ax.plot(steps, first * steps[0] / steps, color="0.4", linestyle="dotted", linewidth=0.8, label="first order")
    if order is not None:
        style.check_same_model([found[0], style.check_report(order, OrderReport)])
        seen = np.nanmedian(np.atleast_1d(order.observed))
        ax.plot([], [], linestyle="none", label=f"observed order {seen:.2f}, {order.method} from {order.steps} steps")
    ax.set_yscale("log")
    _keep_in_sight(ax, found)
    _step_axis(ax, steps)
    ax.set_ylabel(r"$\|x_h(T) - x(T)\|$ (state)")
    style.outside_legend(ax, columns=2)
    return made


def _keep_in_sight(ax: Axes, found: list[DiscretizationReport]) -> None:
    """Let the axes end some decades above the errors, and say how far the curves go that leave them."""
    sizes = np.concatenate([_at_end(r, name) for r in found for name in ("measured", "principal")])
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not sizes.size:
        return
    top = DECADES_ABOVE * float(sizes.max())
    ax.set_ylim(float(sizes.min()) / 3, min(ax.get_ylim()[1], top))
    for name in ("stepwise", "logarithmic", "classical"):
        values = np.concatenate([_at_end(r, name) for r in found])
        highest = np.max(values[np.isfinite(values)], initial=0.0)
        if highest > top:
            style.note(ax.get_figure(root=True), f"{name} up to {highest:.0e}, beyond the axes")  # type: ignore[arg-type]


def _at_end(report: DiscretizationReport, name: str) -> np.ndarray:
    """An estimate of the error at T with the samples first; NaN where it was not measured."""
    values = np.asarray(getattr(report, "true_error" if name == "measured" else name), dtype=float)
    if name == "measured" and values.size == 0:
        return np.full(np.shape(np.atleast_1d(report.classical)), np.nan)
    if name in ("measured", "principal", "stepwise"):
        values = values[..., -1]
    return np.atleast_1d(values)


def _slope(steps: np.ndarray, errors: np.ndarray) -> str:
    """The order seen between the two finest solves, in words; '' where there are none."""
    if len(steps) < 2 or not (np.isfinite(errors[-2:]).all() and (errors[-2:] > 0).all()):
        return ""
    return rf", $p = {np.log(errors[-2] / errors[-1]) / np.log(steps[-1] / steps[-2]):.2f}$"


def _step_axis(ax: Axes, steps) -> None:
    """A logarithmic axis of steps with the numbers themselves as ticks."""
    ax.set_xscale("log", base=2)
    ax.set_xticks(sorted({float(s) for s in steps}))
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("steps")


@style.figure
def error_along(report: DiscretizationReport, *, ax: Axes | None = None) -> Figure:
    """Error of Euler's method along the flow.

    Measured against a fine solve, the principal error h ||e(t)|| (an estimate) and the stepwise bound, at the steps that the
    model was trained with; all are 0 at t = 0. Median over the images; band: 10 % to 90 %.

    Args:
        report: DiscretizationReport.   ax: axes to draw on.
    """
    style.check_report(report, DiscretizationReport, "time")
    made, ax = style.new_axes(ax, height=0.5)
    curves = {
        "measured": report.true_error, r"principal error $h\|e(t)\|$ (estimate)": report.principal,
        ESTIMATES["stepwise"]: report.stepwise,
    }  # fmt: skip
    for index, (label, values) in enumerate(curves.items()):
        if values.size:
            style.curve(ax, report.time[1:], values[..., 1:], label, index)
    ax.set_yscale("log")
    ax.set_xlabel(style.TIME)
    ax.set_ylabel(r"$\|x_h(t) - x(t)\|$ (state)")
    style.outside_legend(ax, columns=2)
    return made


def _curves(report: SwapReport):
    """(number, method, its rows) of every method; rows in the order of their cost."""
    for number, method in enumerate(dict.fromkeys(map(str, report.method))):
        rows = np.flatnonzero(report.method == method)
        yield number, method, rows[np.argsort(report.nfe[rows], kind="stable")]


@style.figure
def solver_accuracy(report: SwapReport, *, against: str = "nfe", ax: Axes | None = None) -> Figure:
    """Accuracy of one trained model under other solvers and steps.

    The weights are the same everywhere; the ring marks the solver of training. An ODE keeps its answer when the solver changes;
    a net whose accuracy falls with a better solver has learnt its steps. NFE: field evaluations of a solve; an adaptive solver
    has one point, at its tolerance.

    Args:
        report: SwapReport with accuracies.   against: "nfe" or "steps".   ax: axes to draw on.
    """
    style.check_report(report, SwapReport, "method")
    if against not in ("nfe", "steps"):
        raise UserError(f"against: unknown {against!r} (known: nfe, steps)")
    if np.isnan(report.accuracy).all():
        raise UserError("report: its images had no labels, so it has no accuracies; solver_flips needs none")
    made, ax = style.new_axes(ax, height=0.5)
    drawn: list[float] = []
    for number, method, rows in _curves(report):
        x = getattr(report, against)[rows].astype(float)
        rows, x = rows[x > 0], x[x > 0]  # an adaptive method has no steps
        if not rows.size:
            style.note(made, f"{method} chooses its own steps")
            continue
        style.curve(ax, x, report.accuracy[rows], method, number)
        trained = (report.method[rows] == report.trained_method) & (report.steps[rows] == report.trained_steps)
        ax.plot(x[trained], report.accuracy[rows][trained], "o", markersize=9, color="black", markerfacecolor="none")
        drawn += list(x)
    _step_axis(ax, drawn)
    if against == "nfe":
        ax.set_xlabel("field evaluations of a solve (NFE)")
        _thin(ax, drawn)
    ax.set_ylabel(f"accuracy ({report.images} images)")
    _share_axis(ax)
    style.outside_legend(ax, columns=5)
    return made


def _share_axis(ax: Axes) -> None:
    """Limits of shares within [0, 1] and at least LEAST_SPAN apart, so that one image more or less looks like that."""
    low, high = ax.get_ylim()
    spare = max(0.0, LEAST_SPAN - (high - low)) / 2
    low, high = low - spare, high + spare
    shift = min(0.0, 1.02 - high) + max(0.0, -0.02 - low)
    ax.set_ylim(max(-0.02, low + shift), min(1.02, high + shift))


def _thin(ax: Axes, values) -> None:
    """Ticks at powers of two only, since numbers of evaluations lie too close to name them all."""
    low, high = np.floor(np.log2(min(values))), np.ceil(np.log2(max(values)))
    ax.set_xticks(2.0 ** np.arange(low, high + 1))


@style.figure
def solver_flips(report: SwapReport, *, ax: Axes | None = None) -> Figure:
    """Predictions that another solver changes.

    Signs on lines: share of the images whose prediction differs from that of the trained solver. Bars above them: 1 - the share
    for which the readout's input moves by less than the no-flip radius; a theorem puts the former below the latter.

    Args:
        report: SwapReport.   ax: axes to draw on.
    """
    style.check_report(report, SwapReport, "method")
    made, ax = style.new_axes(ax, height=0.5)
    for number, method, rows in _curves(report):
        style.curve(ax, report.nfe[rows], report.flip_rate[rows], method, number)
        possible = style.dots(number, "_") | {"markersize": 8, "markeredgewidth": 1.2}
        ax.plot(report.nfe[rows], 1 - report.certain_rate[rows], **possible)
    ax.plot([], [], "_", color="0.3", markersize=8, linestyle="none", label="largest share possible")
    _step_axis(ax, report.nfe)
    _thin(ax, report.nfe)
    ax.set_xlabel("field evaluations of a solve (NFE)")
    ax.set_ylabel("share of the images")
    _share_axis(ax)
    style.outside_legend(ax, columns=5)
    return made
