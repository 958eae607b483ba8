"""Figures on one principal plane: the paths of all tokens, and the vector field around the path of one."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from odevit.errors import UserError

from ..reports import LensReport, PlaneReport, TokenPathReport
from . import style
from .choices import bare, check_index, class_name, classes_of, side_legend, token_kinds
from .path_plots import label_axes

Look = dict[str, Any]  # options of Axes.plot
FEW = 3  # images drawn by class unless others are asked for
KIND_MARKERS = {"CLS": "*", "patches": "o", "registers": "s", "tokens": "o"}
EDGE: Look = {"markeredgecolor": "black", "markeredgewidth": 0.3}
FILL = 1.1  # longest arrow, in cells of the grid


@style.figure
def token_trajectories(
    paths: TokenPathReport,
    lens: LensReport | None = None,
    *,
    by: Literal["token", "time", "class"] = "token",
    images: Sequence[int] | None = None,
    labels: Sequence[int] | None = None,
    names: Sequence[str] = (),
    ax: Axes | None = None,
) -> Figure:
    """Paths of all tokens of an image on two principal axes.

    Small open circles are t = 0, filled markers t = T: a star for CLS, squares for registers, circles for patches. Colour by
    token (patches by their place, see the key), by time, or by the class of the image.

    Args:
        paths: TokenPathReport.   lens: LensReport of the same images, for predicted classes.   by: what colour tells.
        images: which are drawn; the first, or the first few by class.   labels: class of each image.   names: of the classes.
        ax: axes to draw on.
    """
    style.check_report(paths, TokenPathReport, "coordinates")
    if by not in ("token", "time", "class"):
        raise UserError(f"by: {by!r} is unknown (known: token, time, class)")
    check_index("component", 1, paths.coordinates.shape[-1])
    count = paths.coordinates.shape[1]
    images = [check_index("image", i, count) for i in (images or range(min(count, FEW if by == "class" else 1)))]
    made, ax = style.new_axes(ax, height=0.6)
    states = style.note_gaps(made, paths.coordinates[..., :2], "coordinates")
    if by == "class":
        if lens is not None:
            style.check_same_model([paths, style.check_report(lens, LensReport, "logits")])
        _by_class(ax, paths, states, images, classes_of(count, lens, labels), names)
    elif by == "time":
        _by_time(made, ax, paths, states, images)
    else:
        _by_token(ax, paths, states, images)
    label_axes(ax, paths)
    return made


def _tokens(paths: TokenPathReport) -> Iterator[tuple[str, int, int, int]]:
    """(kind, number within its kind, how many, position) of every token; patches first, so that the others lie on top."""
    kinds = token_kinds(paths)
    for name in sorted(kinds, key=list(KIND_MARKERS).index, reverse=True):
        positions = range(paths.norm.shape[-1])[kinds[name]]
        yield from ((name, i, len(positions), n) for i, n in enumerate(positions))


def _ends(ax: Axes, path: np.ndarray, kind: str, colour, label: str = "_end", start=None) -> None:
    """Open circle at t = 0, filled marker of the kind at T."""
    ring: Look = {"markersize": 2.5, "markerfacecolor": "white", "markeredgewidth": 0.5, "zorder": 3}
    ax.plot(*path[:1].T, "o", color=colour if start is None else start, label="_start", **ring)
    size, level = (7, 5) if kind == "CLS" else (4, 4)
    ax.plot(*path[-1:].T, KIND_MARKERS[kind], color=colour, label=label, markersize=size, zorder=level, **EDGE)


def _by_token(ax: Axes, paths: TokenPathReport, states: np.ndarray, images: list[int]) -> None:
    cividis = matplotlib.colormaps[style.sequential]
    plain = {"CLS": "black", "registers": style.OKABE_ITO[1]}
    for image in images:
        for kind, i, many, n in _tokens(paths):
            colour = plain.get(kind) or cividis(i / max(1, many - 1))
            dash = style.DASHES[1] if kind == "registers" else "-"
            wide = 1.6 if kind == "CLS" else 0.7
            label = kind if image == images[0] and i == 0 else f"_{kind} {i}"
            ax.plot(*states[:, image, n].T, color=colour, linestyle=dash, linewidth=wide, label=f"_path {n}")
            _ends(ax, states[:, image, n], kind, colour, label)
    side_legend(ax, sort=True)
    if paths.patch_grid:
        key = ax.inset_axes((1.04, 0.05, 0.17, 0.4))
        rows, columns = paths.patch_grid
        key.imshow(np.arange(rows * columns).reshape(rows, columns), cmap=style.sequential)
        key.set_title("patch", fontsize=7)
        bare(key)


def _by_time(made: Figure, ax: Axes, paths: TokenPathReport, states: np.ndarray, images: list[int]) -> None:
    cividis, norm = matplotlib.colormaps[style.sequential], matplotlib.colors.Normalize(paths.time.min(), paths.time.max())
    middle = (paths.time[1:] + paths.time[:-1]) / 2
    drawn = set()
    for image in images:
        for kind, _, _, n in _tokens(paths):
            path = states[:, image, n]
            pieces = LineCollection(list(np.stack([path[:-1], path[1:]], 1)), cmap=cividis, norm=norm, linewidths=0.9)
            pieces.set_array(middle)
            ax.add_collection(pieces)
            _ends(ax, path, kind, cividis(1.0), f"_{kind}" if kind in drawn else f"{kind} at $T$", cividis(0.0))
            drawn.add(kind)
    made.colorbar(matplotlib.cm.ScalarMappable(norm, cividis), ax=ax, label=style.TIME)
    style.outside_legend(ax)


def _by_class(ax: Axes, paths: TokenPathReport, states: np.ndarray, images: list[int], classes, names) -> None:
    if classes is None:
        raise UserError('by: "class" needs labels, or a LensReport for the predictions')
    seen: set[int] = set()
    for image in images:
        index = int(classes[image])
        colour = style.class_colour(index)
        for kind, _, _, n in _tokens(paths):
            wide = 1.4 if kind == "CLS" else 0.5
            ax.plot(*states[:, image, n].T, linestyle="-", color=colour, linewidth=wide, label=f"_path {n}")
            label = class_name(index, names) if kind == "CLS" and index not in seen else "_end"
            if kind == "CLS":
                _ends(ax, states[:, image, n], kind, colour)
            ax.plot(*states[-1, image, n], label=label, **(style.dots(index) | EDGE | {"markersize": 2.5}))
        seen.add(index)
    side_legend(ax, sort=True)


@style.figure
def field_plane(report: PlaneReport, *, ax: Axes | None = None) -> Figure:
    """The vector field on a principal plane around the path of one token.

    Arrows: dx/dt of that token at points of the plane, all other tokens held at their states at one time. Colour: the share of
    the velocity that points out of the plane, which the arrow does not show. Line: the token's own path, dots its saved times,
    open circle t = 0, star the time at which the rest is held; the path leaves the plane, so it need not follow the arrows.

    Args:
        report: PlaneReport.   ax: axes to draw on.
    """
    style.check_report(report, PlaneReport, "arrows")
    made, ax = style.new_axes(ax, height=0.6)
    arrows = style.note_gaps(made, report.arrows, "arrows")
    off = style.note_gaps(made, report.off_plane, "share out of the plane")
    cell = np.array([np.ptp(report.u) / max(1, len(report.u) - 1), np.ptp(report.v) / max(1, len(report.v) - 1)])
    longest = np.nanmax(np.abs(arrows) / cell, initial=0.0) or 1.0
    drawn = ax.quiver(
        report.u, report.v, arrows[..., 0], arrows[..., 1], off, angles="xy", scale_units="xy", scale=longest / FILL,
        width=0.003, cmap=style.sequential, clim=(0.0, 1.0), pivot="tail",
    )  # fmt: skip
    made.colorbar(drawn, ax=ax, label="share of $|dx/dt|$ out of the plane")
    token = "CLS" if report.token == 0 else f"token {report.token}"
    ax.plot(*report.path.T, "-", color=style.OKABE_ITO[1], marker=".", label=f"{token}, image {report.image}")
    ax.plot(*report.path[:1].T, "o", color=style.OKABE_ITO[1], markerfacecolor="white", label=f"$t = {report.time[0]:g}$")
    held = report.path[int(np.abs(report.time - report.held_at).argmin())]
    ax.plot(*held[:, None], "*", color=style.OKABE_ITO[1], markersize=9, markeredgecolor="black", markeredgewidth=0.4,
            label=f"rest held, $t = {report.held_at:g}$")  # fmt: skip
    ax.set_xlabel("PC 1 (state)")
    ax.set_ylabel("PC 2 (state)")
    style.outside_legend(ax)
    return made
