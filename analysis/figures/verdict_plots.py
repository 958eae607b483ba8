"""Figures of the certificate, of how far tokens get, and of JaSMin's g_k.

g_k(p) = p_(k) (1 - p_(k) + p_(k+1)), p sorted in descending order, bounds the k-th eigenvalue of softmax's Jacobian
diag(p) - p p^T from above: p_(k+1) <= lambda_k <= g_k <= p_(k)   (Yudin et al. 2025, 2507.07814).
"""

import textwrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..reports import CertificateReport
from . import style

STATUS = {"proven": (style.OKABE_ITO[2], "*"), "measured": (style.OKABE_ITO[0], "o"), "vacuous": (style.OKABE_ITO[1], "x")}
COLUMNS = (0.0, 0.035, 0.36, 1.0)  # sign, question, answer: shares of the width
LINE = 0.155  # inches


@style.figure
def certificate_table(report: CertificateReport) -> Figure:
    """Certificate of well-posedness.

    Star: proven, a theorem whose constants come from the weights. Circle: measured at the given images and times. Cross:
    vacuous, true but far too weak to say anything.

    Args:
        report: CertificateReport.
    """
    style.check_report(report, CertificateReport, "name")
    wide = style.width(*style.page())
    letters = wide / 0.052  # of 7.5 pt in a line
    cells = [
        [textwrap.wrap(text, max(8, int(letters * (COLUMNS[i + 2] - COLUMNS[i + 1])))) for i, text in enumerate(row)]
        for row in ((v.question, v.answer) for v in report.verdicts)
    ]
    heights = [max(map(len, row)) * LINE + 0.09 for row in cells]
    made, ax = style.new_axes(height=(sum(heights) + 0.33) / wide)
    ax.set_axis_off()
    ax.set_xlim(0, 1)
    ax.set_ylim(-sum(heights), 0.3)
    for status, (colour, sign) in STATUS.items():
        ax.plot([], [], sign, color=colour, linestyle="none", label=status)
    ax.legend(loc="upper left", ncols=3, bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0)
    top = 0.0
    for verdict, row, height in zip(report.verdicts, cells, heights):
        colour, sign = STATUS.get(verdict.status, ("black", "."))
        ax.axhline(top, color="0.8", linewidth=0.4)
        ax.plot(0.012, top - 0.12, sign, color=colour, markersize=5, clip_on=False)
        for x, lines in zip(COLUMNS[1:], row):
            ax.text(x, top - 0.045, "\n".join(lines), va="top", fontsize=7.5, linespacing=1.2, parse_math=False)
        top -= height
    return made


@style.figure
def token_growth(report: CertificateReport, *, ax: Axes | None = None) -> Figure:
    """How far tokens get.

    Largest token norm max_i ||x_i(t)|| over the images (measured), and its bound from the weights alone (proven), which shows
    that no state blows up in finite time.

    Args:
        report: CertificateReport.   ax: axes to draw on.
    """
    style.check_report(report, CertificateReport, "grid_time", "radius")
    made, ax = style.new_axes(ax, height=0.45)
    style.curve(ax, report.grid_time, report.radius, "measured", 0)
    style.curve(ax, report.grid_time, report.radius_bound, "proven bound", 1)
    ax.set_yscale("log")
    ax.set_xlabel(style.TIME)
    ax.set_ylabel(r"$\max_i \|x_i(t)\|$ (state)")
    style.outside_legend(ax)
    return made


def g(p, k: int):
    """JaSMin's g_k of rows p (..., n), sorted in descending order along the last axis; k from 1.

    >>> round(float(g(np.array([0.5, 0.3, 0.15, 0.05]), 1)), 10)
    0.4
    """
    following = p[..., k] if k < p.shape[-1] else 0.0
    return p[..., k - 1] * (1 - p[..., k - 1] + following)


@style.figure
def jasmin_bounds(tokens: int = 16, *, ax: Axes | None = None) -> Figure:
    """JaSMin's g_k along attention rows from uniform to one-hot.

    Rows p = softmax(beta, 0, .., 0) (one key, solid) and softmax(beta, beta, 0, .., 0) (two keys, dashed) against their largest
    entry. g_1 bounds the norm of softmax's Jacobian and is at most 1/2 (dotted); it vanishes for one-hot rows and is small for
    uniform ones, but where two keys share the mass it reaches 1/2. For one key g_2 = g_3.

    Args:
        tokens: number of keys.   ax: axes to draw on.
    """
    made, ax = style.new_axes(ax, height=0.5)
    beta = np.linspace(0.0, 16.0, 201)
    for k in (1, 2, 3):
        for winners, dash in ((1, "-"), (2, "--")):
            weights = np.ones((beta.size, tokens))
            weights[:, :winners] = np.exp(beta)[:, None]
            p = weights / weights.sum(-1, keepdims=True)
            label = f"$g_{k}$" + (", one key" if winners == 1 else ", two keys")
            look = style.dots(k - 1) | {"linestyle": dash, "markevery": 20, "markersize": 2.8}
            ax.plot(p[:, 0], g(p, k), label=label, **look)
    ax.axhline(0.5, color="0.4", linestyle="dotted", linewidth=0.8)
    ax.set_xlabel(f"largest entry $p_{{(1)}}$ of an attention row over {tokens} keys")
    ax.set_ylabel("$g_k(p)$")
    style.outside_legend(ax, columns=3)
    return made
