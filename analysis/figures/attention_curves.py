"""Figures of attention over t as curves: entropy and distance of each head, mass on CLS, patches and registers."""

import numpy as np
from matplotlib.figure import Figure

from ..reports import AttentionReport
from . import style
from .choices import layout_of, narrow, top_legend

KINDS = ("CLS", "patches", "registers")


@style.figure
def attention_heads(report: AttentionReport) -> Figure:
    """Entropy and distance of the attention of each head over time.

    Left: entropy of the attention rows, mean over queries; grey: log N of uniform attention. Right: mean distance between a
    patch and those that it attends to, in patches; grey: uniform attention. Line: median over images, band: 10 % to 90 %.

    Args:
        report: AttentionReport.
    """
    style.check_report(report, AttentionReport, "entropy")
    made, ((left, right),) = style.panels(1, 2, height=0.6 if narrow() else 0.42)
    heads, tokens = report.entropy.shape[2:]
    for head in range(heads):
        style.curve(left, report.time, report.entropy[:, :, head].mean(-1).T, f"head {head}", head)
        style.curve(right, report.time, report.distance[:, :, head].mean(-1).T, f"head {head}", head)
    left.axhline(np.log(tokens), color="0.5", linewidth=0.8, label="uniform")
    right.axhline(uniform_distance(report), color="0.5", linewidth=0.8)
    left.set(xlabel=style.TIME, ylabel="entropy (nats)")
    right.set(xlabel=style.TIME, ylabel="distance (patches)")
    top_legend(made, left, 4 if narrow() else 7)
    return made


def uniform_distance(report: AttentionReport) -> float:
    """Mean distance between two patches of the grid, each with itself included, in patches."""
    rows, columns = layout_of(report).grid
    place = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), -1).reshape(-1, 2)
    return float(np.linalg.norm(place[:, None] - place, axis=-1).mean())


@style.figure
def attention_mass(report: AttentionReport) -> Figure:
    """Where attention goes: CLS, patches, registers.

    Share of the attention of CLS (left) and of all tokens (right), mean over heads; the three sum to 1. Line: median over
    images, band: 10 % to 90 %; thin lines: the shares of uniform attention.

    Args:
        report: AttentionReport.
    """
    style.check_report(report, AttentionReport, "mass")
    layout = layout_of(report)
    made, (axes,) = style.panels(1, 2, height=0.6 if narrow() else 0.42, sharey=True)
    uniform = np.array([1, layout.num_patches, layout.num_registers]) / layout.size
    for ax, mass, query in zip(axes, (report.cls_mass, report.mass), ("CLS", "all tokens")):
        for index, name in enumerate(KINDS[: 3 if layout.num_registers else 2]):
            style.curve(ax, report.time, mass.mean(2)[..., index].T, name, index)
            ax.axhline(uniform[index], color=style.OKABE_ITO[index], linewidth=0.5)
        ax.set(xlabel=style.TIME, title=f"attention of {query}", ylim=(0, 1))
    axes[0].set_ylabel("share of attention")
    top_legend(made, axes[0])
    return made
