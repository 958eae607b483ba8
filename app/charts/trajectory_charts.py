"""Charts of where the tokens go: paths on principal axes in two and three dimensions, CLS by class, the field around a path.

Coordinates are ((x - mean) . e_1, (x - mean) . e_2, ..) with the axes e_i of the report, one basis for all its images.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go
from plotly.colors import sample_colorscale

from analysis.figures.choices import class_name, token_kinds
from analysis.reports import TokenPathReport
from odevit.errors import UserError

from . import look

POINTS = 25_000  # of the paths of one chart; as many again travel as frames
MANY = 300  # tokens of one kind above which their markers are small
PATCHES = 4  # of an image that are drawn before images are left out
SLIDER = 70  # pixels by which a time slider makes a plot higher
RIM = "rgba(128,128,128,0.9)"  # seen on both themes
PLAIN = {"CLS": look.OKABE_ITO[1], "registers": look.OKABE_ITO[3]}
MARK = {"CLS": "star", "patches": "circle", "registers": "square", "tokens": "circle"}
MARK_3D = MARK | {"CLS": "diamond"}
Way = Literal["token", "time", "class"]
WAYS: tuple[Way, ...] = ("token", "time", "class")  # what the colour of a path can tell


@dataclass(frozen=True)
class Line:
    """Paths of one colour: `where` are their (image, token) pairs; kind and name of the tokens; the group in the legend."""

    kind: str
    name: str
    group: str
    colour: str
    where: tuple[tuple[int, int], ...]


def token_names(paths: TokenPathReport) -> list[str]:
    """CLS, patch (row, column), register number: the name of every token, as hover text."""
    names = [f"token {i}" for i in range(paths.norm.shape[-1])]
    for kind, where in token_kinds(paths).items():
        for i, n in enumerate(range(len(names))[where]):
            row, column = divmod(i, paths.patch_grid[1]) if kind == "patches" else (0, 0)
            names[n] = {"CLS": "CLS", "patches": f"patch ({row}, {column})", "registers": f"register {i}"}.get(kind, names[n])
    return names


def chosen_paths(paths: TokenPathReport, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """Images and tokens that are drawn: all, or so few that at most `points` saved states are.

    CLS and registers stay; patches go first, evenly, down to PATCHES an image; then images go, evenly.
    """
    times, images, tokens = paths.norm.shape
    room = max(1, points // times)
    kinds = token_kinds(paths)
    many = np.arange(tokens)[kinds.get("patches", kinds.get("tokens", slice(0)))]
    others = np.setdiff1d(np.arange(tokens), many)
    drawn = look.thin(images, max(1, room // (len(others) + min(PATCHES, len(many)))))
    kept = look.thin(len(many), max(1, room // len(drawn) - len(others)))
    return drawn, np.sort(np.concatenate([others, many[kept]]))


def left_out(paths: TokenPathReport) -> str:
    """What `token_plane` and `token_space` do not draw, in one sentence; '' where they draw everything."""
    images, tokens = chosen_paths(paths)
    parts = [
        f"{len(kept)} of {total} {name}"
        for kept, total, name in ((images, paths.norm.shape[1], "images"), (tokens, paths.norm.shape[2], "tokens"))
        if len(kept) < total
    ]
    return f"Drawn: {' and '.join(parts)}, evenly spread; the downloads hold all." if parts else ""


def token_plane(
    paths: TokenPathReport, classes: Sequence[int] | None = None, names: Sequence[str] = (), *, by: str = "token",
    at: float | None = None,
) -> go.Figure:  # fmt: skip
    """Paths of the tokens on the first two axes; the slider moves a marker along each path, rings are t = 0.

    Args:
        by: what colour tells: "token" (patches by their place), "time" or "class".
        classes: class of each image, for "class".   names: of the classes.   at: time shown first.
    """
    lines, kinds = list(_lines(paths, classes, names, by)), _kinds(paths)
    kind = look.kind(len(paths.time) * sum(len(line.where) for line in lines))
    figure = go.Figure([_path(paths, line, by, 2, kind) for line in lines])
    marked = [_states(paths, lines, name, 2) for name in kinds]
    for states, colours in marked:
        ring = {"symbol": "circle-open", "size": 4, "color": colours}
        figure.add_trace(_markers(states[0], kind, ring))
    for name, (states, colours) in zip(kinds, marked):
        size = 13 if name == "CLS" else 7 if len(colours) <= MANY else 4
        sign = {"symbol": MARK[name], "size": size, "line": {"color": RIM, "width": 1}}
        figure.add_trace(_markers(states[0], kind, sign | {"color": "white" if by == "time" else colours}))
    label_axes(figure, paths)
    if by == "token" and paths.patch_grid:
        _patch_key(figure, paths)
    frames = [[{"type": kind, "x": s[k, :, 0], "y": s[k, :, 1]} for s, _ in marked] for k in range(len(paths.time))]
    return look.framed(figure, paths.time.tolist(), frames, at=at)


def token_space(
    paths: TokenPathReport, classes: Sequence[int] | None = None, names: Sequence[str] = (), *, by: str = "token"
) -> go.Figure:
    """Paths of the tokens on the first three axes, arguments as in `token_plane`; filled markers are t = T."""
    if paths.coordinates.shape[-1] < 3:
        raise UserError(f"paths: {paths.coordinates.shape[-1]} principal axes; three dimensions need 3")
    lines = list(_lines(paths, classes, names, by))
    figure = go.Figure([_path(paths, line, by, 3, "scatter3d") for line in lines])
    for name in _kinds(paths):
        states, colours = _states(paths, lines, name, 3)
        sign = {"symbol": MARK_3D[name], "size": 4 if name == "CLS" else 2.5, "color": colours}
        figure.add_trace(_markers(states[-1], "scatter3d", sign))
    shown = [text.replace(" (state", "").replace(")", "") for text in axis_titles(paths, 3, "")]  # the long form is cut off
    scene: dict[str, Any] = {f"{axis}axis": {"title": {"text": text}} for axis, text in zip("xyz", shown)}
    scene |= {"aspectmode": "data", "camera": {"eye": {"x": 1.5, "y": 1.5, "z": 1.0}}}
    return figure.update_layout(
        height=look.HEIGHT + SLIDER, margin={"l": 0, "r": 0, "t": 28, "b": 0}, scene=scene, uirevision="kept",
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "xanchor": "left", "x": 0},
    )  # fmt: skip


def axis_titles(paths: TokenPathReport, count: int = 2, words: str = " of variance") -> list[str]:
    """Names of the principal axes with the share of the variance that each explains."""
    total = paths.variances.sum()
    shares = [f", {v / total:.0%}{words}" if total > 0 else "" for v in paths.variances[:count]]
    return [f"PC {i + 1} (state{share})" for i, share in enumerate(shares)]


def label_axes(figure: go.Figure, paths: TokenPathReport) -> go.Figure:
    """The figure with the names of two principal axes, on one scale."""
    return look.lay_out(figure, *axis_titles(paths), equal=True)


def _lines(paths: TokenPathReport, classes, names: Sequence[str], by: str) -> Iterator[Line]:
    """Patches first, so that CLS lies on top."""
    if by not in WAYS:
        raise UserError(f"by: {by!r} is unknown (known: {', '.join(WAYS)})")
    if by == "class" and classes is None:
        raise UserError("by: class needs the class of each image")
    images, tokens = chosen_paths(paths)
    titles, kinds = token_names(paths), token_kinds(paths)
    for kind in _kinds(paths):
        positions = [int(n) for n in range(paths.norm.shape[-1])[kinds[kind]] if n in set(tokens.tolist())]
        if by == "class":
            for index in sorted({int(classes[i]) for i in images}):
                where = [(int(i), n) for i in images if int(classes[i]) == index for n in positions]
                name = class_name(index, names)
                yield Line(kind, f"{kind}, {name}", name, look.class_colour(index), tuple(where))
        else:
            every = patch_colours(len(range(paths.norm.shape[-1])[kinds[kind]]))
            for n in positions:
                colour = RIM if by == "time" else PLAIN.get(kind) or every[n - positions[0]]
                yield Line(kind, titles[n], kind, colour, tuple((int(i), n) for i in images))


def _kinds(paths: TokenPathReport) -> list[str]:
    """The kinds of tokens in the order in which they are drawn."""
    return sorted(token_kinds(paths), key=["tokens", "patches", "registers", "CLS"].index)


def patch_colours(count: int) -> list[str]:
    """Colours of the patches row by row: the part of cividis that is seen on white and on black."""
    return sample_colorscale(look.SEQUENTIAL, np.linspace(0.22, 0.92, max(1, count)).tolist())


def _strung(paths: TokenPathReport, line: Line, components: int) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates (components, n) of all paths of a line with a gap between them, and (n, 2) time and image of each point."""
    image, token = np.array(line.where).T
    states = paths.coordinates[:, image, token, :components].swapaxes(0, 1)  # (paths, K, components)
    gap = np.full((len(states), 1, components), np.nan)
    points = np.concatenate([states, gap], 1).reshape(-1, components)
    steps = len(paths.time) + 1
    of = np.stack([np.tile(np.append(paths.time, np.nan), len(states)), np.repeat(image, steps)], -1)
    return points.T.astype(np.float32), of.astype(np.float32)


def _path(paths: TokenPathReport, line: Line, by: str, components: int, kind: str) -> dict:
    """The paths of a line as one trace, with gaps between them."""
    points, of = _strung(paths, line, components)
    first = line.where[0][1] == range(paths.norm.shape[-1])[token_kinds(paths)[line.kind]][0]
    cls, solid = line.kind == "CLS", components == 3
    drawn: dict[str, Any] = {"color": line.colour, "width": (3.0 if cls else 1.2) * (2 if solid else 1)}
    trace: dict[str, Any] = {"mode": "lines"}
    if by == "time" and solid:
        drawn |= _shades(of[:, 0], paths)
    elif by == "time":
        bar = {"title": {"text": look.TIME, "side": "right"}, "thickness": 12}
        trace = {"mode": "lines+markers", "marker": _shades(of[:, 0], paths) | {"size": 5, "showscale": cls, "colorbar": bar}}
    if not solid and line.kind == "registers":
        drawn["dash"] = "dash"
    return trace | {
        "type": kind, "name": line.group, "legendgroup": line.group, "line": drawn, "customdata": of,
        **dict(zip("xyz", points)),
        "hovertemplate": f"{line.name}<br>t = %{{customdata[0]:.3g}} layers, image %{{customdata[1]}}<extra></extra>",
        "showlegend": first and (by != "class" or line.kind in ("CLS", "tokens")), "opacity": 1.0 if cls else 0.65,
    }  # fmt: skip


def _shades(times: np.ndarray, paths: TokenPathReport) -> dict:
    return {"color": times, "colorscale": look.SEQUENTIAL, "cmin": float(paths.time.min()), "cmax": float(paths.time.max())}


def _states(paths: TokenPathReport, lines: Sequence[Line], kind: str, components: int) -> tuple[np.ndarray, list[str]]:
    """Where the drawn tokens of one kind are at every time (K, n, components), and their colours."""
    mine = [line for line in lines if line.kind == kind]
    image, token = np.array([pair for line in mine for pair in line.where]).T
    colours = [line.colour for line in mine for _ in line.where]
    return paths.coordinates[:, image, token, :components].astype(np.float32), colours


def _markers(points: np.ndarray, kind: str, marker: dict) -> dict:
    """Points (n, components) as markers that have no hover and no place in the legend."""
    place = dict(zip("xyz", points.T))
    return {"type": kind, "mode": "markers", "hoverinfo": "skip", "showlegend": False, "marker": marker} | place


def _patch_key(figure: go.Figure, paths: TokenPathReport) -> None:
    """A small map of the image that tells the place of a patch from its colour, right of the plot."""
    colours = patch_colours(int(np.prod(paths.patch_grid)))
    scale = [[i / max(1, len(colours) - 1), colour] for i, colour in enumerate(colours)]
    key = go.Heatmap(
        z=np.arange(len(colours)).reshape(paths.patch_grid), colorscale=scale if len(scale) > 1 else look.SEQUENTIAL,
        showscale=False, xaxis="x2", yaxis="y2", xgap=1, ygap=1, hovertemplate="patch (%{y}, %{x})<extra></extra>",
    )  # fmt: skip
    figure.add_trace(key)
    figure.data = (figure.data[-1], *figure.data[:-1])
    bare = {"showticklabels": False, "showgrid": False, "zeroline": False, "ticks": ""}
    title = {"title": {"text": "patches"}, "side": "top"}
    figure.update_layout(
        xaxis={"domain": [0.0, 0.86]}, xaxis2=bare | title | {"domain": [0.88, 1.0], "anchor": "y2"},
        yaxis2=bare | {"domain": [0.72, 1.0], "anchor": "x2", "autorange": "reversed", "scaleanchor": "x2"},
    )  # fmt: skip
