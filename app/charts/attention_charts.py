"""Charts of attention over t: maps of one query head by head under a time slider; entropy, distance and shares as curves."""

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.figures.attention_curves import uniform_distance
from analysis.figures.choices import layout_of
from analysis.reports import AttentionReport
from analysis.reports.paths import AttentionRowsReport
from odevit.layout import TokenLayout

from . import look, token_maps
from .token_maps import GREY

PANEL = 182  # pixels of a row of maps with what stands above and below it


class _Maps(NamedTuple):
    """Maps of one query at all saved times, (K, H + 2, rows, columns), and its shares of CLS and registers, (K, H + 2)."""

    time: np.ndarray
    titles: list[str]
    grids: np.ndarray
    cls: np.ndarray
    registers: np.ndarray | None


def token_name(position: int, layout: TokenLayout) -> str:
    """Name of a position on the token axis.

    Args:
        position: 0 is CLS.   layout: of the tokens. Of a patch its row and column on the grid are named, from 0.
    """
    if position == 0:
        return "CLS"
    if position >= layout.registers.start:
        return f"register {position - layout.registers.start + 1}"
    row, column = divmod(position - 1, layout.grid[1])
    return f"patch {row}, {column}"


def head_maps(
    report: AttentionRowsReport, pixels: np.ndarray, *, image: int = 0, at: float | None = None, own_scale: bool = False
) -> go.Figure:
    """Where one query looks at the time of a slider: mean over heads, each head, the rollout up to then.

    What falls on CLS and the registers stands beside the maps, never in them.

    Args:
        report: AttentionRowsReport.   pixels: the image, uint8 (C, H, W).   image: which of the report.
        at: the time shown first; the last with attention unless given.   own_scale: every head on a scale of its own.
    """
    maps, layout = _all_maps(report, image), _layout(report)
    figure, cells = _panels(maps, layout, report.query)
    figure.add_trace(token_maps.under(pixels, layout.grid), 1, 1)
    token_maps.map_axes(figure, 1, 1, layout.grid)
    shown = token_maps.frame_times(len(maps.time))
    tops = _tops(maps.grids, own_scale, report.query - layout.patches.start)
    frames = [[*(go.Heatmap(z=z) for z in maps.grids[k]), *_outside(maps, k)] for k in shown]
    for i, cell in enumerate(cells):
        token_maps.map_axes(figure, *cell, layout.grid)
        bar = token_maps.beside(figure, *cell) if i < 2 or own_scale else None
        figure.add_trace(_map(maps, i, tops[i], bar), *cell)
    for cell in cells:
        figure.add_trace(_below(layout), *cell)
    _mark_query(figure, [(1, 1), *cells], report.query, layout)
    return look.framed(figure, maps.time[shown].tolist(), frames, at=report.time[-1] if at is None else at)


def _layout(report: AttentionRowsReport) -> TokenLayout:
    rows, columns = report.patch_grid
    return TokenLayout(report.registers, (int(rows), int(columns)))


def _all_maps(report: AttentionRowsReport, image: int) -> _Maps:
    """Mean, rollout and heads at all saved times; NaN where no layer acts any more, the identity before the first."""
    layout, rows = _layout(report), report.rows[:, image]
    time = np.concatenate([report.time[:1], report.rollout_time])
    late = np.full((len(time) - len(rows), *rows.shape[1:]), np.nan)
    rows = np.concatenate([rows, late])
    start = np.eye(layout.size)[report.query]
    rollout = np.concatenate([start[None], report.rollout[:, image]])
    every = np.concatenate([rows.mean(1, keepdims=True), rollout[:, None], rows], 1)
    grids = every[..., layout.patches].reshape(*every.shape[:2], *layout.grid).astype(np.float32)
    titles = ["mean of heads", "rollout", *(f"head {h}" for h in range(rows.shape[1]))]
    registers = every[..., layout.registers].sum(-1) if layout.num_registers else None
    return _Maps(time, titles, grids, every[..., layout.cls].sum(-1), registers)


def _panels(maps: _Maps, layout: TokenLayout, query: int) -> tuple[go.Figure, list[tuple[int, int]]]:
    """The image, the mean, the rollout and the heads, row by row; and the cells of the maps."""
    count = len(maps.titles) + 1
    columns = 4 if count <= 8 else 5
    rows = -(-count // columns)
    cells = [(1 + i // columns, 1 + i % columns) for i in range(count)]
    specs: list[list[dict | None]] = [
        [{} if (r, c) in cells else None for c in range(1, columns + 1)] for r in range(1, rows + 1)
    ]
    figure = make_subplots(
        rows, columns, specs=specs, subplot_titles=[f"query: {token_name(query, layout)}", *maps.titles],
        horizontal_spacing=0.3 / columns, vertical_spacing=52 / (rows * PANEL),
    )  # fmt: skip
    look.lay_out(figure, "", "", height=rows * PANEL + 76)
    figure.update_annotations(font_size=12)
    figure.update_layout(margin={"l": 8, "r": 36})
    return figure, cells[1:]


def _tops(grids: np.ndarray, own_scale: bool, patch: int) -> np.ndarray:
    """Upper end of the scale of each map, over all times: mean and heads together, or each its own; the rollout its own.

    The query's share in its own rollout, 1 at first, is left out, or nothing else could be seen; `patch` is its number.
    """
    others = np.delete(grids[:, 1].reshape(len(grids), -1), patch, axis=1) if 0 <= patch < grids[0, 0].size else grids[:, 1]
    own = np.array([token_maps.ceiling(others if i == 1 else grids[:, i]) for i in range(grids.shape[1])])
    together = np.full(len(own), np.delete(own, 1).max())
    return own if own_scale else np.where(np.arange(len(own)) == 1, own, together)


def _map(maps: _Maps, i: int, top: float, bar: dict | None) -> go.Heatmap:
    """The frame of a map, which stays while its values move; `bar` is its colour bar, if it has one."""
    hover = f"{maps.titles[i]}<br>patch row %{{y}}, column %{{x}}<br>share = %{{z:.4f}}<extra></extra>"
    return go.Heatmap(
        z=maps.grids[0, i], zmin=0, zmax=top, colorscale=look.SEQUENTIAL, showscale=bar is not None, colorbar=bar,
        name=maps.titles[i], hovertemplate=hover,
    )  # fmt: skip


def _outside(maps: _Maps, k: int) -> list[go.Scatter]:
    """What falls outside the grid at the k-th time, in words for below each map; where no layer acts, this."""
    said = [f"CLS {share:.3f}" if np.isfinite(share) else "no layer acts any more" for share in maps.cls[k]]
    if maps.registers is not None:
        more = maps.registers[k]
        said = [f"{words}<br>registers {share:.3f}" if np.isfinite(share) else words for words, share in zip(said, more)]
    return [go.Scatter(text=[words]) for words in said]


def _below(layout: TokenLayout) -> go.Scatter:
    """The place of the words below a map; the marker that nobody sees keeps them off it."""
    rows, columns = layout.grid
    return go.Scatter(
        x=[(columns - 1) / 2], y=[rows - 0.5], mode="markers+text", textposition="bottom center", textfont_size=11,
        marker={"opacity": 0, "size": 6}, cliponaxis=False, showlegend=False, hoverinfo="skip",
    )  # fmt: skip


def _mark_query(figure: go.Figure, cells: list[tuple[int, int]], query: int, layout: TokenLayout) -> None:
    """The query on the image and in every map, where it is a patch."""
    if layout.patches.start <= query < layout.patches.stop:
        row, column = divmod(query - layout.patches.start, layout.grid[1])
        for cell in cells:
            token_maps.outline(figure, *cell, (row, column))


def head_entropy(report: AttentionReport, image: int = 0, token: int | None = None) -> go.Figure:
    """Entropy of the attention of each head over time, with that of uniform attention.

    Args:
        report: AttentionReport.   image: which.   token: position of the query; the mean over all queries unless given.
    """
    values = report.entropy[:, image]
    values = values.mean(-1) if token is None else values[..., token]
    top = float(np.log(report.entropy.shape[-1]))
    return _curves(report.time, values, top, "entropy (nats)", f"uniform {top:.3f}")


def head_distance(report: AttentionReport, image: int = 0, patch: int | None = None) -> go.Figure:
    """Mean distance between a patch and the patches that it attends to, of each head over time.

    Args:
        report: AttentionReport.   image: which.   patch: number of the query among the patches; their mean unless given.
    """
    values = report.distance[:, image]
    if patch is None:
        values = np.where(np.isnan(values).all(-1), np.nan, np.nansum(values, -1) / np.maximum(1, (~np.isnan(values)).sum(-1)))
    else:
        values = values[..., patch]
    uniform = uniform_distance(report)
    return _curves(report.time, values, uniform, "mean distance (patches)", f"uniform {uniform:.3f}")


def _curves(time: np.ndarray, values: np.ndarray, uniform: float, quantity: str, said: str) -> go.Figure:
    """A line for each head, (K', H), and a dotted one for uniform attention."""
    figure = look.lay_out(go.Figure(), look.TIME, quantity)
    for h in range(values.shape[1]):
        line = {"color": look.class_colour(h), "dash": look.DASHES[h % len(look.DASHES)], "width": 2}
        marker = {"symbol": look.class_symbol(h), "size": 7}
        hover = f"head {h}<br>t = %{{x:.4g}} layers<br>{quantity} = %{{y:.4g}}<extra></extra>"
        trace = go.Scatter(
            x=time, y=values[:, h], mode="lines+markers", line=line, marker=marker, name=f"head {h}", hovertemplate=hover
        )
        figure.add_trace(trace)
    flat = {"color": GREY, "dash": "dot", "width": 1.6}
    return figure.add_trace(go.Scatter(x=time[[0, -1]], y=[uniform] * 2, mode="lines", line=flat, name=said, hoverinfo="skip"))


def register_shares(rows: AttentionRowsReport, image: int = 0) -> go.Figure:
    """Share of one query's attention on CLS and on each register over time, mean over heads.

    Args:
        rows: AttentionRowsReport.   image: which.
    """
    layout = _layout(rows)
    mean = rows.rows[:, image].mean(1)
    shares = np.concatenate([mean[:, layout.cls], mean[:, layout.registers]], 1).T
    names = ["CLS", *(token_name(position, layout) for position in range(layout.registers.start, layout.size))]
    figure = look.lay_out(go.Figure(), look.TIME, "")
    figure.add_trace(
        go.Heatmap(
            x=rows.time, y=names, z=shares, zmin=0, zmax=token_maps.ceiling(shares), colorscale=look.SEQUENTIAL, ygap=2,
            colorbar={"title": {"text": "share of attention", "side": "right"}, "thickness": 12},
            hovertemplate="%{y}<br>t = %{x:.4g} layers<br>share = %{z:.4f}<extra></extra>",
        )
    )  # fmt: skip
    return figure.update_yaxes(autorange="reversed", type="category")


def attention_shares(report: AttentionReport, rows: AttentionRowsReport, image: int = 0) -> go.Figure:
    """Shares of attention that go to CLS, patches and registers over time, mean over heads: of one query, and of all tokens.

    Args:
        report, rows: of the same image.   image: which. Dotted: the shares of uniform attention.
    """
    layout = layout_of(report)
    found = {"CLS": layout.cls, "patches": layout.patches, "registers": layout.registers}
    kinds = {name: where for name, where in found.items() if where.stop > where.start}
    one = np.stack([rows.rows[:, image][..., where].sum(-1).mean(1) for where in kinds.values()], -1)
    every = report.mass[:, image].mean(1)[:, : len(kinds)]
    titles = (f"query: {token_name(rows.query, layout)}", "all tokens")
    figure = make_subplots(1, 2, shared_yaxes=True, subplot_titles=titles, horizontal_spacing=0.05)
    look.lay_out(figure, look.TIME, "share of attention")
    figure.update_annotations(font_size=12)
    figure.update_layout(legend={"y": 1.09}, margin_t=54)
    figure.update_yaxes(title_text="", row=1, col=2)
    for col, values in enumerate((one, every), 1):
        for i, (name, where) in enumerate(kinds.items()):
            _share(figure, col, i, name, report.time, values[:, i], (where.stop - where.start) / layout.size)
    return figure.update_yaxes(range=[-0.02, 1.02])


def _share(figure: go.Figure, col: int, i: int, name: str, time: np.ndarray, values: np.ndarray, uniform: float) -> None:
    """The share of one kind of token, and what it would be if attention were uniform."""
    line = {"color": look.OKABE_ITO[i], "dash": look.DASHES[i], "width": 2.5}
    hover = f"{name}<br>t = %{{x:.4g}} layers<br>share = %{{y:.4f}}<br>uniform: {uniform:.4f}<extra></extra>"
    marker = {"symbol": look.class_symbol(i), "size": 7}
    shared = {"x": time, "legendgroup": name}
    drawn = {"y": values, "mode": "lines+markers", "line": line, "marker": marker, "hovertemplate": hover}
    figure.add_trace(go.Scatter(**shared, **drawn, name=name, showlegend=col == 1), 1, col)
    flat = {"color": look.OKABE_ITO[i], "dash": "dot", "width": 1}
    level = {"y": np.full(len(time), uniform), "mode": "lines", "line": flat, "showlegend": False, "hoverinfo": "skip"}
    figure.add_trace(go.Scatter(**shared, **level), 1, col)
