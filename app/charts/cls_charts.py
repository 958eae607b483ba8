"""Charts of CLS: its paths by class on its own principal axes, and the vector field on the plane of one path."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from analysis.figures.choices import class_name
from analysis.reports import LensReport, PlaneReport, TokenPathReport
from odevit.errors import UserError

from . import look
from .trajectory_charts import POINTS, RIM, SLIDER, label_axes

LEGEND_LIMIT = 20  # classes above which a legend is longer than the figure is high
FILL = 0.95  # longest arrow, in cells of the grid
HEAD, OPEN = 0.35, np.deg2rad(25)  # of an arrow: length as a share of it, and half its angle


def cls_by_class(
    paths: TokenPathReport, lens: LensReport, labels: Sequence[int] | None = None, names: Sequence[str] = ()
) -> go.Figure:
    """Paths of CLS on two axes, one line an image; colour and marker tell its class.

    The class is the label where it is known, else the prediction. The first image is bold. A wrong prediction ends in an open
    marker with a dot, and its line is dotted.

    Args:
        paths: of CLS, as the report "cls_paths".   lens: of the same images.   labels: -1 = not known.   names: of the classes.
    """
    times, images = paths.coordinates.shape[:2]
    if lens.prediction.shape[1] < images:
        raise UserError(f"lens: {lens.prediction.shape[1]} images, the paths have {images}")
    said = lens.prediction[-1][:images]
    known = np.full(images, -1) if labels is None else np.asarray(labels)[:images]
    classes = np.where(known >= 0, known, said)
    figure = go.Figure()
    for index in np.unique(classes):
        for wrong in (False, True):
            mine = np.flatnonzero((classes == index) & ((classes != said) == wrong))
            mine = mine[np.isin(mine, look.thin(images, max(1, POINTS // times)))]
            if len(mine):
                _class_traces(figure, paths, mine, int(index), wrong, said, names)
    start = paths.coordinates[:1, 0, 0, :2].T
    ring = {"symbol": "circle-open", "size": 11, "color": RIM, "line": {"width": 2}}
    figure.add_scatter(x=start[0], y=start[1], mode="markers", marker=ring, name="t = 0", hoverinfo="name")
    label_axes(figure, paths)
    return figure.update_layout(showlegend=len(np.unique(classes)) <= LEGEND_LIMIT, height=look.HEIGHT + SLIDER)


def _class_traces(
    figure: go.Figure, paths: TokenPathReport, images: np.ndarray, index: int, wrong: bool, said: np.ndarray, names
) -> None:
    name, colour = class_name(index, names), look.class_colour(index)
    states = paths.coordinates[:, images, 0, :2].astype(np.float32)
    gap = np.full((1, len(images), 2), np.nan, np.float32)
    x, y = np.concatenate([states, gap]).swapaxes(0, 1).reshape(-1, 2).T
    text = [f"image {i}: {name}, predicted {class_name(int(said[i]), names)}" for i in images]
    hover = f"{name}<br>t = %{{customdata:.3g}} layers<extra></extra>"
    shared = {"legendgroup": name, "showlegend": False, "hovertemplate": hover}
    line = {"color": colour, "width": 1.3, "dash": "dot" if wrong else "solid"}
    time = np.tile(np.append(paths.time, np.nan), len(images)).astype(np.float32)
    figure.add_scatter(x=x, y=y, mode="lines", customdata=time, opacity=0.6, line=line, name=name, **shared)
    if 0 in images:
        x, y = states[:, 0].T
        figure.add_scatter(
            x=x, y=y, mode="lines+markers", customdata=paths.time, line=line | {"width": 4}, name=f"chosen: {text[0]}", **shared
        )
    rim = {"color": colour if wrong else RIM, "width": 2 if wrong else 0.8}
    symbol = look.class_symbol(index) + ("-open-dot" if wrong else "")
    marker = {"symbol": symbol, "size": [15 if i == 0 else 9 for i in images], "color": colour, "line": rim}
    figure.add_scatter(
        x=states[-1, :, 0], y=states[-1, :, 1], mode="markers", legendgroup=name, marker=marker, text=text,
        hovertemplate="%{text}<extra></extra>", name=f"{name}, wrong" if wrong else name,
    )  # fmt: skip


def vector_field(planes: Sequence[PlaneReport], *, at: float | None = None) -> go.Figure:
    """The field around the path of one token in its principal plane; the slider chooses the time at which the rest is held.

    Arrows: dx/dt within the plane. Dots at their tails: the share of |dx/dt| that points out of the plane.

    Args:
        planes: the same plane with the rest held at one time each, in their order; one is enough.   at: time shown first.
    """
    first, orange = planes[0], look.OKABE_ITO[1]
    longest = max(float(np.nanmax(np.abs(p.arrows) / _cell(p), initial=0.0)) for p in planes) or 1.0
    bar = {"title": {"text": "share of |dx/dt| out of the plane", "side": "right"}, "thickness": 12, "tickformat": ".0%"}
    rings = ["circle-open", *["circle"] * (len(first.path) - 1)]
    token = "CLS" if first.token == 0 else f"token {first.token}"
    figure = go.Figure()
    figure.add_scatter(
        x=first.path[:, 0], y=first.path[:, 1], mode="lines+markers", name=f"path of {token}", customdata=first.time,
        line={"color": orange, "width": 3}, marker={"size": 7, "symbol": rings},
        hovertemplate=f"{token}, t = %{{customdata:.3g}} layers<extra></extra>",
    )  # fmt: skip
    figure.add_scatter(mode="lines", line={"color": RIM, "width": 1.2}, hoverinfo="skip", name="dx/dt within the plane")
    tails = {"size": 5, "cmin": 0, "cmax": 1, "colorscale": look.SEQUENTIAL, "colorbar": bar}
    hover = "%{customdata:.3g} state/t within the plane<br>%{marker.color:.0%} out of it<extra></extra>"
    figure.add_scatter(mode="markers", marker=tails, showlegend=False, hovertemplate=hover)
    held = {"symbol": "star", "size": 14, "color": orange, "line": {"color": "white", "width": 1}}
    figure.add_scatter(mode="markers", marker=held, name="rest held here", hoverinfo="skip")
    look.lay_out(figure, "PC 1 of this path (state)", "PC 2 of this path (state)")
    return look.framed(figure, [p.held_at for p in planes], [_plane_frame(p, longest) for p in planes], at=at)


def _cell(plane: PlaneReport) -> np.ndarray:
    """Width and height of a cell of the grid."""
    return np.array([np.ptp(axis) / max(1, len(axis) - 1) for axis in (plane.u, plane.v)])


def _plane_frame(plane: PlaneReport, longest: float) -> list[dict]:
    tails = np.stack(np.meshgrid(plane.u, plane.v), -1).reshape(-1, 2)
    arrows = plane.arrows.reshape(-1, 2)
    x, y = arrow_lines(tails, FILL * arrows / longest, _cell(plane)).T.astype(np.float32)
    speed = np.linalg.norm(arrows, axis=-1).astype(np.float32)
    held = plane.path[int(np.abs(plane.time - plane.held_at).argmin())]
    dots = {"x": tails[:, 0], "y": tails[:, 1], "customdata": speed, "marker": {"color": plane.off_plane.ravel()}}
    return [{"type": "scatter", "x": x, "y": y}, {"type": "scatter"} | dots, {"type": "scatter", "x": held[:1], "y": held[1:]}]


def arrow_lines(tails: np.ndarray, vectors: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """Shafts and heads of arrows as one line with gaps, (7 n, 2).

    Args:
        tails, vectors: (n, 2).   cell: width and height of what is drawn as a square, so that heads look right.
    """
    turned = []
    scaled = vectors / cell
    for angle in (np.pi - OPEN, np.pi + OPEN):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        turned.append(HEAD * (scaled @ turn.T) * cell)
    tips, gap = tails + vectors, np.full_like(tails, np.nan)
    return np.stack([tails, tips, gap, tips + turned[0], tips, tips + turned[1], gap], 1).reshape(-1, 2)
