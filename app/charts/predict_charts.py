"""Charts of when the class is decided: logit lens and attention of CLS under one time slider, the margin, many images."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.figures.choices import class_name
from analysis.figures.lens_plots import probabilities
from analysis.reports import AttentionReport, LensReport

from . import look, token_maps
from .token_maps import GREY, MARK

NAMED = 6  # classes with a curve and a bar of their own, those of the largest probability at any time
TRANSPARENT = [[0.0, "rgba(213, 94, 0, 0)"], [1.0, "rgba(213, 94, 0, 0.95)"]]  # attention over a grey picture
POINT = "%{meta}<br>t = %{x:.4g} layers<br>probability = %{y:.4f}<extra></extra>"


class _Story(NamedTuple):
    """One image through time, as it is drawn."""

    time: np.ndarray
    chance: np.ndarray
    best: list[int]
    final: int
    label: int | None
    names: Sequence[str]
    decided: float
    hidden: np.ndarray

    def title(self, c: int) -> str:
        """Name of class c: bold where it is the prediction, with the true one called so, and a wrong prediction too."""
        name, final, true = class_name(c, self.names), c == self.final, c == self.label
        if final and self.label is not None and not true:
            return f"<b>{name}</b> ✗ wrong"
        return (f"<b>{name}</b>" if final else name) + (" (true)" if true else "")


def prediction_over_time(
    lens: LensReport, attention: AttentionReport, pixels: np.ndarray, *, image: int = 0, label: int | None = None,
    names: Sequence[str] = (), at: float | None = None,
) -> go.Figure:  # fmt: skip
    """The image, where CLS looks, and what the readout says, at the time of one slider.

    Args:
        lens, attention: of the same image, along the same trajectory.   pixels: the image, uint8 (C, H, W).
        image: which of the reports.   label: its true class, or None.   names: of the classes.
        at: the time shown first; the last with attention unless given.
    """
    story = _story(lens, image, label, names)
    figure = _panels(story)
    grid = (int(attention.patch_grid[0]), int(attention.patch_grid[1]))
    figure.add_trace(token_maps.under(pixels, grid), 1, 1)
    figure.add_trace(token_maps.under(pixels, grid, grey=True), 1, 2)
    for col in (1, 2):
        token_maps.map_axes(figure, 1, col, grid)
    _draw_curves(figure, story)
    shown = token_maps.frame_times(len(story.time))
    maps = _maps_at(attention, image, story.time)
    moving = [_moment(story, maps[k], k) for k in shown]
    for trace, (row, col) in zip(moving[0], ((1, 2), (1, 3), (1, 3), (1, 3), (2, 1), (2, 1))):
        figure.add_trace(trace, row, col)
    spot = figure.data[len(figure.data) - len(moving[0])]
    spot.update(zmin=0, zmax=token_maps.ceiling(maps), colorbar=token_maps.below(figure, 1, 2))
    return look.framed(figure, story.time[shown].tolist(), moving, at=attention.time[-1] if at is None else at)


def _story(lens: LensReport, image: int, label: int | None, names: Sequence[str]) -> _Story:
    chance = probabilities(lens.logits[:, image])
    ranked = np.argsort(-np.nan_to_num(chance).max(0), kind="stable")[:NAMED]
    final = int(lens.prediction[-1, image])
    kept = {*ranked.tolist(), final, *([] if label is None else [label])}
    best = sorted(kept, key=lambda c: (-chance[-1, c], c))
    return _Story(lens.time, chance, best, final, label, names, float(lens.decision_time[image]), ~lens.resolved[:, image])


def _panels(story: _Story) -> go.Figure:
    """Three panels above a wide one."""
    figure = make_subplots(
        2, 3, specs=[[{}, {}, {}], [{"colspan": 3}, None, None]], column_widths=[0.27, 0.27, 0.46], row_heights=[0.5, 0.5],
        horizontal_spacing=0.05, vertical_spacing=0.17, subplot_titles=("image", "attention of CLS", "probability at t"),
    )  # fmt: skip
    look.lay_out(figure, look.TIME, "probability", height=490)
    figure.update_layout(legend={"y": figure.get_subplot(2, 1).yaxis.domain[1], "font": {"size": 12}})
    figure.update_yaxes(range=[-0.02, 1.06], row=2, col=1)
    figure.update_xaxes(title_text="", range=[-0.01, 1.02], tickvals=[0, 0.5, 1], row=1, col=3)
    bottom = len(story.best) - 0.5
    figure.update_yaxes(title_text="", range=[bottom, -0.75], showticklabels=False, showgrid=False, row=1, col=3)
    figure.update_annotations(font_size=13)
    return figure


def _draw_curves(figure: go.Figure, story: _Story) -> None:
    """The probabilities, when they are decided, and where a flip could hide."""
    others = [c for c in range(story.chance.shape[1]) if c not in story.best]
    if others:
        figure.add_trace(_joined(story, others), 2, 1)
    for c in story.best:
        figure.add_trace(_curve(story, c), 2, 1)
    figure.add_trace(_ruler(story.decided, "dash", f"decided, t* = {story.decided:.4g}"), 2, 1)
    if story.hidden.any():
        figure.add_trace(_unsure(story), 2, 1)


def _curve(story: _Story, c: int) -> go.Scatter:
    """The probability of one class; the bars above say which it is."""
    line = {"color": look.class_colour(c), "width": 3.5 if c == story.final else 1.8, "dash": look.DASHES[c % len(look.DASHES)]}
    name = story.title(c)
    drawn = {"mode": "lines", "line": line, "name": name, "meta": name, "showlegend": False, "hovertemplate": POINT}
    return go.Scatter(x=story.time, y=story.chance[:, c], **drawn)


def _joined(story: _Story, others: list[int]) -> go.Scatter:
    """The curves of the classes that never matter, as one grey trace."""
    x = np.tile([*story.time, np.nan], len(others))
    y = _with_gaps(story.chance[:, others])
    line = {"color": GREY, "width": 0.8}
    return go.Scatter(x=x, y=y, mode="lines", line=line, opacity=0.6, name=f"{len(others)} other classes", hoverinfo="skip")


def _ruler(t: float, dash: str, name: str) -> go.Scatter:
    """A vertical line at time t over the whole panel."""
    line = {"color": GREY, "width": 1.6, "dash": dash}
    return go.Scatter(x=[t, t], y=[0, 1], mode="lines", line=line, name=name, hovertemplate=f"{name}<extra></extra>")


def _unsure(story: _Story) -> go.Scatter:
    """A bar above the steps inside which the prediction could flip unseen."""
    steps = np.flatnonzero(story.hidden)
    x = np.ravel([[story.time[k], story.time[k + 1], np.nan] for k in steps])
    y = np.where(np.isnan(x), np.nan, 1.03)
    said = "a flip could hide in this step"
    return go.Scatter(
        x=x, y=y, mode="lines", line={"color": GREY, "width": 7}, name=said, hovertemplate=f"{said}<extra></extra>"
    )


def _maps_at(attention: AttentionReport, image: int, times: np.ndarray) -> np.ndarray:
    """Mean over heads of the CLS maps at `times`, NaN where the report has none (after the last layer of a discrete net)."""
    maps = attention.cls_maps[:, image].mean(1).astype(np.float32)
    return np.concatenate([maps, np.full((len(times) - len(maps), *maps.shape[1:]), np.nan, np.float32)])


def _moment(story: _Story, attention: np.ndarray, k: int) -> tuple:
    """What moves, at the k-th time: attention; bars, their ends and names; the cursor and a symbol on every curve."""
    spot = go.Heatmap(
        z=attention, colorscale=TRANSPARENT, xgap=1, ygap=1,
        hovertemplate="patch row %{y}, column %{x}<br>share of attention = %{z:.4f}<extra></extra>",
    )  # fmt: skip
    line = {"color": MARK, "width": 2}
    cursor = go.Scatter(x=[story.time[k]] * 2, y=[0, 1], mode="lines", line=line, showlegend=False, hoverinfo="skip")
    chance = story.chance[k, story.best]
    dots = _symbols(story, k, np.full(len(chance), story.time[k]), chance)
    return spot, *_bars(story, k), cursor, dots


def _bars(story: _Story, k: int) -> tuple[go.Bar, go.Scatter, go.Scatter]:
    """Probabilities at the k-th time as thin bars that end in the symbol of the class, its name above; the largest bold."""
    best, chance = story.best, story.chance[k, story.best]
    places, leading = np.arange(len(best)), int(np.argmax(chance))
    colours = [look.class_colour(c) for c in best]
    bars = go.Bar(
        x=chance, y=places, width=0.22, orientation="h", marker_color=colours, showlegend=False,
        customdata=[story.title(c) for c in best], hovertemplate="%{customdata}<br>probability = %{x:.4f}<extra></extra>",
    )  # fmt: skip
    said = [f"{story.title(c)}  {p:.3f}" for c, p in zip(best, chance)]
    said[leading] = f"{said[leading]} ◂ now"
    names = go.Scatter(
        x=np.zeros(len(best)), y=places - 0.42, mode="text", text=said, textposition="middle right", textfont_size=12,
        showlegend=False, hoverinfo="skip", cliponaxis=False,
    )  # fmt: skip
    return bars, _symbols(story, k, chance, places), names


def _symbols(story: _Story, k: int, x: np.ndarray, y: np.ndarray) -> go.Scatter:
    """The symbols of the classes at (x, y), that of the largest probability larger."""
    leading = int(np.argmax(story.chance[k, story.best]))
    marker = {
        "color": [look.class_colour(c) for c in story.best], "symbol": [look.class_symbol(c) for c in story.best],
        "size": [13 if i == leading else 8 for i in range(len(story.best))], "line": {"color": GREY, "width": 1},
        "opacity": 1,
    }  # fmt: skip
    return go.Scatter(x=x, y=y, mode="markers", marker=marker, showlegend=False, hoverinfo="skip", cliponaxis=False)


def margin_over_time(lens: LensReport, image: int = 0, labels: Sequence[int] | None = None) -> go.Figure:
    """How sure the readout is of its largest class: the margin of the chosen image over those of all images of the report.

    Args:
        lens: LensReport.   image: the chosen one.   labels: true class of each image, or None: then none is called wrong.
    """
    count = lens.margin.shape[1]
    wrong = np.zeros(count, bool) if labels is None else lens.prediction[-1] != np.asarray(labels)
    figure = look.lay_out(go.Figure(), look.TIME, "largest minus second logit")
    groups = (("other images", GREY, "solid", ~wrong), ("other images, wrong in the end", MARK, "dot", wrong))
    for name, colour, dash, members in groups:
        chosen = [i for i in np.flatnonzero(members).tolist() if i != image]
        if chosen:
            x, y = np.tile([*lens.time, np.nan], len(chosen)), _with_gaps(lens.margin[:, chosen])
            line = {"color": colour, "width": 1.2, "dash": dash}
            trace = go.Scatter(x=x, y=y, mode="lines", line=line, opacity=0.7, name=f"{name} ({len(chosen)})", hoverinfo="skip")
            figure.add_trace(trace)
    hover = "t = %{x:.4g} layers<br>margin = %{y:.4g}<extra>this image</extra>"
    line, symbol = {"color": look.OKABE_ITO[0], "width": 3}, "x" if wrong[image] else "circle"
    name = "this image" + (" (wrong)" if wrong[image] else "")
    figure.add_trace(
        go.Scatter(
            x=lens.time, y=lens.margin[:, image], line=line, mode="lines+markers", marker={"symbol": symbol, "size": 9},
            name=name, hovertemplate=hover,
        )
    )  # fmt: skip
    return figure.update_yaxes(rangemode="tozero")


def _with_gaps(columns: np.ndarray) -> np.ndarray:
    """Curves (K, n) one after the other, a NaN behind each."""
    return np.concatenate([columns, np.full((1, columns.shape[1]), np.nan)]).T.ravel()


def decision_shares(lens: LensReport, image: int = 0, labels: Sequence[int] | None = None) -> go.Figure:
    """When the class is decided, over all images of the report; a vertical line where the chosen one is.

    Args:
        lens: LensReport, times ascending.   image: the chosen one.   labels: true class of each image, or None.
    """
    count = lens.prediction.shape[1]
    reached = lens.decision_time <= lens.time[:, None]
    curves = {"decided": reached.mean(1), "decided, no flip can hide": (reached & lens.decision_resolved).mean(1)}
    if labels is not None:
        curves["accuracy of the readout"] = (lens.prediction == np.asarray(labels)).mean(1)
    figure = look.lay_out(go.Figure(), look.TIME, f"share of {count} images")
    hover = "t = %{x:.4g} layers<br>%{fullData.name}: %{y:.1%}<extra></extra>"
    for i, (name, share) in enumerate(curves.items()):
        line = {"color": look.OKABE_ITO[i], "dash": look.DASHES[i], "shape": "hv" if i < 2 else "linear", "width": 2.2}
        symbol = look.class_symbol(i)
        trace = go.Scatter(
            x=lens.time, y=share, name=name, line=line, mode="lines+markers", marker_symbol=symbol, hovertemplate=hover
        )
        figure.add_trace(trace)
    decided = float(lens.decision_time[image])
    figure.add_trace(_ruler(decided, "dash", f"this image, t* = {decided:.4g}"))
    return figure.update_yaxes(range=[-0.02, 1.04], tickformat=".0%")
