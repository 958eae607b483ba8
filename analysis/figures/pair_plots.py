"""Figures of two models on the same images: CLS on common principal axes, and its speed."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from odevit.errors import UserError

from ..reports import TokenPathReport
from . import style
from .choices import side_legend
from .path_plots import label_axes


@style.figure
def paired_paths(
    first: TokenPathReport, second: TokenPathReport, names: tuple[str, str], *, ax: Axes | None = None
) -> Figure:
    """CLS paths of two models on common principal axes.

    Solid with circles: the first model; dashed with squares: the second. Bold: the first image. Open markers are t = 0.

    Args:
        first, second: from `analysis.token_paths.paired_paths`.   names: of the models.   ax: axes to draw on.
    """
    for report in (first, second):
        style.check_report(report, TokenPathReport, "coordinates")
    if first.coordinates.shape[1] != second.coordinates.shape[1]:
        raise UserError(f"second: {second.coordinates.shape[1]} images, the first has {first.coordinates.shape[1]}")
    made, ax = style.new_axes(ax, height=0.6)
    for order, (report, name) in enumerate(zip((first, second), names)):
        states = style.note_gaps(made, report.coordinates[:, :, 0, :2], "coordinates")
        look = style.line(order) | {"marker": style.MARKERS[order]}
        for i in range(states.shape[1] - 1, -1, -1):
            wide = {"linewidth": 2.0, "markersize": 4} if i == 0 else {"linewidth": 0.7, "markersize": 2}
            ax.plot(*states[:, i].T, label=f"_{name} {i}" if i else name, **(look | wide))
        ring = {"color": look["color"], "markerfacecolor": "white", "linestyle": "none", "zorder": 4}
        ax.plot(*states[0].T, style.MARKERS[order], label=f"_start {order}", **ring)
    label_axes(ax, first)
    side_legend(ax)
    return made


@style.figure
def paired_speeds(
    first: TokenPathReport, second: TokenPathReport, names: tuple[str, str], *, ax: Axes | None = None
) -> Figure:
    """Speed of CLS of two models over the share of the way.

    Line: median over the images; band: 10 % to 90 %. By differences of the saved states, which both have.

    Args:
        first, second: from `analysis.token_paths.paired_paths`.   names: of the models.   ax: axes to draw on.
    """
    made, ax = style.new_axes(ax, height=0.5)
    for order, (report, name) in enumerate(zip((first, second), names)):
        style.check_report(report, TokenPathReport, "speed")
        share = (report.time - report.time[0]) / (report.time[-1] - report.time[0])
        style.curve(ax, share[:-1], report.speed[:-1, :, 0].T, name, order)
    ax.set(xlabel="$t / T$ (share of the way)", ylabel="speed of CLS (state/$t$)")
    ax.set_ylim(bottom=0)
    style.outside_legend(ax)
    return made
