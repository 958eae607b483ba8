"""Figure of a perturbed picture: the distance of the two paths, and the bounds on it."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..reports import PerturbationReport, StretchReport
from . import style

PARTS = {"distance": "all tokens", "distance_cls": "CLS", "distance_patches": "patches", "distance_registers": "registers"}
BOUNDS = {
    "between": r"bound $\int\|D\psi\|$ between the paths", "along": r"$\prod\|D\psi\|$ along one (first order)",
    "logarithmic": r"$e^{\int\mu\,dt}$ (first order)",
}  # fmt: skip
ABOVE = 30.0  # times the largest distance that the sizes allow: where the axes end


@style.figure
def perturbation_growth(report: PerturbationReport, stretch: StretchReport | None = None, *, ax: Axes | None = None) -> Figure:
    """Distance of the paths of a picture and its perturbed copy.

    Of all tokens and of each kind, with bounds at the same steps; psi is the solver's step. The bound between the paths holds
    for any distance and is measured at three points of each segment; those along one path hold to first order in the distance.
    Grey: above ||x|| + ||x'||, where a bound is vacuous.

    Args:
        report: PerturbationReport.   stretch: StretchReport of its steps.   ax: axes to draw on.
    """
    style.check_report(report, PerturbationReport, "time", "distance")
    made, ax = style.new_axes(ax, height=0.6)
    for index, (name, label) in enumerate(PARTS.items()):
        values = getattr(report, name)
        if len(values):
            shown = values > 0
            style.curve(ax, report.time[shown], values[shown], label, index)
    if stretch is not None:
        style.check_same_model([report, style.check_report(stretch, StretchReport, "along")])
        for index, (name, values) in enumerate(stretch.bounds(float(report.distance[0])).items(), len(PARTS)):
            style.curve(ax, report.time, values, BOUNDS[name], index, marker="")
    top = ABOVE * float(report.reach.max())
    ax.fill_between(report.time, report.reach, top, color="0.85", linewidth=0, zorder=0)
    ax.set_yscale("log")
    ax.set_ylim(top=top)
    if len(report.proven):
        style.note(made, f"proven bound at T {report.proven[-1]:.1g}")
    ax.set_xlabel(style.TIME)
    ax.set_ylabel(r"$\|x'(t) - x(t)\|$ (state)")
    style.outside_legend(ax, columns=3)
    return made


@style.figure
def token_separation(report: PerturbationReport) -> Figure:
    """Where the change of a perturbed picture is.

    Distance of every patch between the two paths at the first, middle and last time, on the image grid and one scale; CLS and
    registers are told in the titles.

    Args:
        report: PerturbationReport.
    """
    style.check_report(report, PerturbationReport, "time", "token_distance")
    rows, columns = report.patch_grid
    made, axes = style.panels(1, 3, height=0.42)
    picked = (0, len(report.time) // 2, len(report.time) - 1)
    top = float(report.token_distance[list(picked)].max()) or 1.0
    for ax, k in zip(axes[0], picked):
        tokens = report.token_distance[k]
        image = ax.imshow(tokens[1 : 1 + rows * columns].reshape(rows, columns), cmap=style.sequential, vmin=0, vmax=top)
        others = f"CLS {tokens[0]:.2g}" + (f", registers {tokens[1 + rows * columns :].max():.2g}" if report.registers else "")
        ax.set_title(f"$t = {report.time[k]:.3g}$\n{others}")
        ax.set_xticks([])
        ax.set_yticks([])
    made.colorbar(image, ax=list(axes[0]), label=r"$\|x'_i - x_i\|$ (state)", shrink=0.7)
    return made
