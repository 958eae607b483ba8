"""Figures of how the tokens move and how alike they become: speed, curvature, length; cosines, collapse, ranks."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..reports import TokenPathReport
from . import style
from .choices import narrow, token_kinds, top_legend

COLLAPSE = {
    "mean pairwise cosine": {"mean_cosine": "$x$", "mean_cosine_centred": r"$\Pi x$"},
    r"$\|X - 1\bar{x}^\top\| / \|X\|$": {"collapse": "$x$", "collapse_centred": r"$\Pi x$"},
    "rank of the state": {"stable_rank": "stable", "participation_ratio": "participation", "effective_rank": "effective"},
}


@style.figure
def token_motion(paths: TokenPathReport) -> Figure:
    """Speed, curvature, length and straightness of the paths of the tokens.

    Speed |dx/dt|, curvature of the path, length covered since t = 0 (integral of the speed), each for CLS, patches and
    registers; line: median over tokens and images, band: 10 % to 90 %. Last: share of the tokens whose straightness
    |x(T) - x(0)| / length is at most s; 1 is a straight line.

    Args:
        paths: TokenPathReport.
    """
    style.check_report(paths, TokenPathReport, "speed", "straightness")
    made, grid = style.panels(2, 2, height=1.2 if narrow() else 0.72)
    for index, (name, where) in enumerate(token_kinds(paths).items()):
        for ax, values in zip(grid.flat, (paths.speed, paths.curvature, length_so_far(paths))):
            style.curve(ax, *_defined(paths, values, where), name, index)
        shares(grid[1, 1], paths.straightness[:, where], name, index)
    for ax, label in zip(grid.flat, ("speed (state/$t$)", "curvature (1/state)", "length so far (state)")):
        ax.set(xlabel=style.TIME, ylabel=label)
        ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]))
    grid[1, 1].set(xlabel="straightness $s$", ylabel="share of tokens $\\leq s$", ylim=(0, 1))
    top_legend(made, grid[0, 0])
    if paths.derivatives == "differences":
        style.note(made, "speed and curvature by differences of the saved states")
    return made


def samples(values: np.ndarray) -> np.ndarray:
    """(K, B, tokens) -> (B * tokens, K), one row for each path."""
    return values.reshape(len(values), -1).T


def _defined(paths: TokenPathReport, values: np.ndarray, where: slice) -> tuple[np.ndarray, np.ndarray]:
    """(times, samples) without the ends at which differences have no neighbour."""
    there = np.ones(len(values), dtype=bool) if paths.derivatives == "exact" else np.isfinite(values).any((1, 2))
    return paths.time[there], samples(values[there][..., where])


def length_so_far(paths: TokenPathReport) -> np.ndarray:
    """Integral of the speed from the first saved time on, (K, B, N): trapezoids, or the polygon where it is a difference."""
    gaps = np.abs(np.diff(paths.time))[:, None, None]
    speed = paths.speed[:-1] if paths.derivatives == "differences" else (paths.speed[1:] + paths.speed[:-1]) / 2
    steps = gaps * speed
    return np.concatenate([np.zeros_like(paths.speed[:1]), steps.cumsum(0)])


def shares(ax: Axes, values: np.ndarray, label: str, index: int) -> None:
    """The share of the values at most s, as a staircase over s."""
    values = np.sort(style.note_gaps(ax.get_figure(root=True), values, label).ravel())  # type: ignore[arg-type]
    values = values[~np.isnan(values)]
    ax.step(values, np.arange(1, len(values) + 1) / max(1, len(values)), where="post", label=label, **style.line(index))


@style.figure
def token_collapse(paths: TokenPathReport) -> Figure:
    """Do the tokens become one.

    Mean cosine of pairs of tokens (1: all point one way); distance from equal tokens relative to the state (0: all tokens
    equal), both of x and of Pi x = x less its mean over channels, which is all that CenterNorm sees; three ranks of the N x D
    matrix of a state; clusters of tokens within a cosine distance. Line: median over images, band: 10 % to 90 %.

    Args:
        paths: TokenPathReport.
    """
    style.check_report(paths, TokenPathReport, "mean_cosine")
    made, grid = style.panels(2, 2, height=1.25 if narrow() else 0.75)
    for ax, (title, fields) in zip(grid.flat, COLLAPSE.items()):
        for index, (field, label) in enumerate(fields.items()):
            style.curve(ax, paths.time, getattr(paths, field).T, label, index)
        ax.set(xlabel=style.TIME, ylabel=title)
        style.outside_legend(ax, columns=3, columnspacing=1.0)
    style.curve(grid[1, 1], paths.time, paths.clusters.T, "clusters", 0)
    grid[1, 1].set(xlabel=style.TIME, ylabel=rf"clusters ($\cos > {1 - paths.delta:g}$)")
    grid[1, 1].set_ylim(bottom=0)
    grid[0, 1].set_ylim(0, None)
    return made
