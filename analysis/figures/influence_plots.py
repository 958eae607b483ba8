"""Figures of who moves whom and when it matters: block norms of J, effects of interventions."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from odevit.errors import UserError
from odevit.layout import TokenLayout

from ..reports import AttentionReport, EffectMapReport, InfluenceReport, TokenPathReport
from . import style
from .choices import layout_of

Layout = TokenPathReport | AttentionReport  # reports that know the patch grid and the number of registers
QUANTITIES = {
    "kl": ("KL divergence (nats)", False),
    "flipped": ("share of flipped predictions", False),
    "logit_change": ("change of the predicted logit", True),
    "margin_change": ("change of the margin (logits)", True),
    "size": ("size of the change (state)", False),
}


def _layout(report: Layout, tokens: int) -> TokenLayout:
    """The layout that a report knows, after checking that it is one of so many tokens."""
    layout = layout_of(report)
    if layout.size != tokens:
        raise UserError(f"layout: the {report.kind} is of {layout.size} tokens, the figure of {tokens}")
    return layout


@style.figure
def block_influence(
    reports: InfluenceReport | Sequence[InfluenceReport], layout: Layout | None = None, *, ax: Axes | None = None
) -> Figure:  # fmt: skip
    """How strongly each token moves each other token.

    Norm of the block J_ij = d f_i / d x_j: row i is moved by column j; mean over the images, logarithmic colours. Lines part
    CLS (first), patches and registers (last). The diagonal holds the MLP branch.

    Args:
        reports: InfluenceReport; of several that in the middle of the times is drawn.   ax: axes to draw on.
        layout: TokenPathReport or AttentionReport of the model, for the lines.
    """
    found = sorted(style.check_reports(reports, InfluenceReport, "influence"), key=lambda r: r.t)
    report = found[len(found) // 2]
    made, ax = style.new_axes(ax, height=0.72)
    values = style.note_gaps(made, _mean_over_images(report.influence), "influence")
    tokens = len(values)
    image = ax.imshow(values, norm=_log_norm(values), interpolation="nearest")
    if layout is not None:
        patches = _layout(layout, tokens).patches
        for edge in {patches.start - 0.5, patches.stop - 0.5} - {tokens - 0.5}:
            ax.axvline(edge, color="white", linewidth=0.7)
            ax.axhline(edge, color="white", linewidth=0.7)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("moved by token $j$")
    ax.set_ylabel("token $i$")
    made.colorbar(image, ax=ax, label=rf"$\|J_{{ij}}\|$, {report.norm} (1/$t$), $t = {report.t:g}$", shrink=0.85)
    return made


def _mean_over_images(influence: np.ndarray) -> np.ndarray:
    return influence.mean(0) if influence.ndim == 3 else influence


def _log_norm(values: np.ndarray) -> Normalize:
    """Logarithmic colours over the positive values, four decades at most."""
    seen = values[np.isfinite(values) & (values > 0)]
    if not seen.size:
        return Normalize(0.0, 1.0)
    low = max(seen.min(), seen.max() * 1e-4)
    return LogNorm(low, seen.max(), clip=True) if low < seen.max() else Normalize(0.0, seen.max())


@style.figure
def influence_on_patches(reports: InfluenceReport | Sequence[InfluenceReport], layout: Layout) -> Figure:
    """Influence between CLS and the patches on the image grid.

    Upper row: how strongly each patch moves CLS; lower row: how strongly CLS moves each patch, at each time. Mean over the
    images, one linear scale for each row. Titles: the time and the share that all patches together have in the row of J.

    Args:
        reports: InfluenceReports, one for each time.   layout: TokenPathReport or AttentionReport of the model.
    """
    found = sorted(style.check_reports(reports, InfluenceReport, "influence"), key=lambda r: r.t)
    style.check_same_model([*found, layout])
    maps = [_mean_over_images(r.influence) for r in found]
    known = _layout(layout, len(maps[0]))
    rows, columns = known.grid
    made, axes = style.panels(2, len(maps), height=min(0.9, 0.12 + 0.8 * 2 / len(maps) * rows / columns))
    onto, out = [b[0, known.patches] for b in maps], [b[known.patches, 0] for b in maps]
    for row, (label, vectors) in enumerate((("patch\nmoves CLS", onto), ("CLS\nmoves patch", out))):
        values = [style.note_gaps(made, v.reshape(rows, columns), "influence") for v in vectors]
        top = float(np.nanmax(values)) or 1.0
        for column, value in enumerate(values):
            ax = axes[row, column]
            image = ax.imshow(value, vmin=0.0, vmax=top, interpolation="nearest")
            ax.set_xticks([])
            ax.set_yticks([])
            if row == 0:
                share = onto[column].sum() / maps[column][0].sum()
                ax.set_title(f"$t = {found[column].t:g}$\n{share:.0%}")
        axes[row, 0].set_ylabel(label)
        made.colorbar(image, ax=list(axes[row]), label=r"$\|J_{ij}\|$ (1/$t$)", shrink=0.9, aspect=12)
    return made


def _chosen(report: EffectMapReport, quantity: str) -> tuple[np.ndarray, str, bool]:
    """(mean over the images (time, region), label, signed) of a quantity."""
    style.check_report(report, EffectMapReport, "time", "kl")
    if quantity not in QUANTITIES:
        raise UserError(f"quantity: unknown {quantity!r} (known: {', '.join(QUANTITIES)})")
    return getattr(report, quantity).astype(float).mean(-1), *QUANTITIES[quantity]


def _colours(values: np.ndarray, signed: bool) -> dict:
    if signed:
        norm, colours = style.diverging(values)
        return {"norm": norm, "cmap": colours}
    top = float(np.nanmax(values, initial=0.0))
    return {"vmin": 0.0, "vmax": top or 1.0, "cmap": style.sequential}


@style.figure
def effect_map(report: EffectMapReport, quantity: str = "kl", *, ax: Axes | None = None) -> Figure:
    """Effect of an intervention over times and regions.

    The flow is restarted at t with one region of the state changed, and goes on to T; colour: the effect on the logits, mean
    over the images, on a logarithmic scale where it is a divergence. A change matters most where and when the class is decided.

    Args:
        report: EffectMapReport.   quantity: kl, flipped, logit_change, margin_change or size.   ax: axes to draw on.
    """
    made, ax = style.new_axes(ax, height=0.45)
    values, label, signed = _chosen(report, quantity)
    values = style.note_gaps(made, values, label)
    colours = {"norm": _log_norm(values)} if quantity == "kl" else _colours(values, signed)
    image = ax.imshow(values, aspect="auto", interpolation="nearest", origin="lower", **colours)
    ax.set_yticks(range(len(report.time)), [f"{t:g}" for t in report.time])
    at = range(0, len(report.regions), -(-len(report.regions) // 16))
    long = max(map(len, report.regions)) > 4
    ax.set_xticks(at, [report.regions[i] for i in at], rotation=45 if long else 0, ha="right" if long else "center")
    ax.set_xlabel("region changed")
    style.note(made, f"the change, of each region in turn: {report.change}")
    ax.set_ylabel(style.TIME)
    made.colorbar(image, ax=ax, label=label)
    return made


@style.figure
def effect_on_patches(report: EffectMapReport, layout: Layout, quantity: str = "kl") -> Figure:
    """Effect of an intervention on each patch, at each time, on the image grid.

    As in the effect map, one panel for each time; CLS and the strongest register, which have no place on the grid, stand as
    numbers in the titles. One scale for all panels.

    Args:
        report: EffectMapReport over every single token.   layout: TokenPathReport or AttentionReport of the model.
        quantity: kl, flipped, logit_change, margin_change or size.
    """
    values, label, signed = _chosen(report, quantity)
    known, count = _layout(layout, values.shape[1]), len(values)
    rows, columns = known.grid
    made, axes = style.panels(1, count, height=min(0.9, 0.12 + 0.85 / count * rows / columns))
    values = style.note_gaps(made, values, label)
    patches = values[:, known.patches].reshape(count, rows, columns)
    for ax, time, grid, tokens in zip(axes[0], report.time, patches, values):
        image = ax.imshow(grid, interpolation="nearest", **_colours(patches, signed))
        ax.set_xticks([])
        ax.set_yticks([])
        most = f"\nreg {tokens[known.registers].max():.2g}" if known.registers.start < known.size else ""
        ax.set_title(f"$t = {time:g}$\nCLS {tokens[0]:.2g}{most}", fontsize=7)
    made.colorbar(image, ax=list(axes[0]), label=label, shrink=0.9, aspect=12)
    return made
