"""Charts of how tokens move and how alike they become: speed, length, curvature; straightness and turning; cosines, ranks."""

from collections.abc import Iterator

import numpy as np
import plotly.graph_objects as go

from analysis.figures.choices import token_kinds
from analysis.figures.motion_plots import length_so_far
from analysis.reports import TokenPathReport

from . import look
from .trajectory_charts import token_names

DOTS = 20_000  # of the chart of straightness
KINDS = {"CLS": look.OKABE_ITO[1], "patches": look.OKABE_ITO[0], "registers": look.OKABE_ITO[2], "tokens": look.OKABE_ITO[0]}
QUANTITIES = {
    "speed": "speed |dx/dt| (state/t)", "length": "length since t = 0 (state)", "curvature": "curvature (1/state)",
    "acceleration": "acceleration |d²x/dt²| (state/t²)", "norm": "norm |x| (state)",
}  # fmt: skip
SHARES = {
    "mean_cosine": "mean cosine, x", "mean_cosine_centred": "mean cosine, Πx", "collapse": "distance from equal, x",
    "collapse_centred": "distance from equal, Πx",
}  # fmt: skip
COUNTS = {
    "stable_rank": "stable rank", "participation_ratio": "participation ratio", "effective_rank": "effective rank",
    "clusters": "clusters",
}  # fmt: skip


def token_motion(paths: TokenPathReport, quantity: str = "speed") -> go.Figure:
    """One quantity of QUANTITIES over t for CLS, patches and registers; median and 10 to 90 % of tokens and images."""
    values = length_so_far(paths) if quantity == "length" else getattr(paths, quantity)
    figure = go.Figure()
    for dash, (kind, where) in zip(look.DASHES, token_kinds(paths).items()):
        for trace in band(paths.time, values[..., where].reshape(len(values), -1), kind, KINDS[kind], dash):
            figure.add_trace(trace)
    look.lay_out(figure, look.TIME, QUANTITIES[quantity])
    return figure.update_yaxes(rangemode="tozero")


def path_shape(paths: TokenPathReport) -> go.Figure:
    """Straightness against turning, a dot for each token of each image; (1, 0) is a straight line."""
    figure, names = go.Figure(), np.array(token_names(paths))
    kinds = token_kinds(paths)
    symbols = dict(zip(kinds, ("star", "circle", "square")))
    for kind in sorted(kinds, key=["tokens", "patches", "registers", "CLS"].index):
        where = kinds[kind]
        x, y, length = (part[:, where].ravel() for part in (paths.straightness, paths.turning, paths.length))
        kept = look.thin(len(x), DOTS // len(kinds))
        images = np.repeat(np.arange(len(paths.length)), len(names[where]))
        text = [f"{name}, image {i}" for name, i in zip(np.tile(names[where], len(paths.length))[kept], images[kept])]
        hover = "%{text}<br>straightness %{x:.3f}<br>turning %{y:.3g} rad<br>length %{customdata:.3g}<extra></extra>"
        figure.add_trace({
            "type": look.kind(paths.straightness.size), "x": x[kept].astype(np.float32), "y": y[kept].astype(np.float32),
            "mode": "markers", "name": kind, "text": text, "customdata": length[kept].astype(np.float32), "opacity": 0.75,
            "marker": {"color": KINDS[kind], "symbol": symbols[kind], "size": 11 if kind == "CLS" else 6},
            "hovertemplate": hover,
        })  # fmt: skip
    look.lay_out(figure, "straightness |x(T) - x(0)| / length", "turning (rad)")
    return figure.update_yaxes(rangemode="tozero")


def dots_left_out(paths: TokenPathReport) -> str:
    """What `path_shape` does not draw, in one sentence; '' where it draws everything."""
    kinds = token_kinds(paths)
    room = DOTS // len(kinds)
    sizes = [paths.straightness[:, where].size for where in kinds.values()]
    drawn = sum(min(size, room) for size in sizes)
    return f"{drawn:,} of {sum(sizes):,} tokens drawn, evenly spread." if drawn < sum(sizes) else ""


def token_alikeness(paths: TokenPathReport) -> go.Figure:
    """Mean cosine of pairs of tokens (1: all point one way), distance from equal tokens over the norm (0: all equal)."""
    figure = _over_time(paths, SHARES)
    figure.add_hline(y=0, line={"color": "grey", "width": 0.8})
    return look.lay_out(figure, look.TIME, "cosine, relative distance")


def token_ranks(paths: TokenPathReport) -> go.Figure:
    """Three ranks of the N x D matrix of a state, and the clusters of its tokens."""
    figure = look.lay_out(_over_time(paths, COUNTS), look.TIME, "number (log scale)", log_y=True)
    return figure.update_yaxes(dtick="D2", exponentformat="none")


def _over_time(paths: TokenPathReport, fields: dict[str, str]) -> go.Figure:
    figure = go.Figure()
    for i, (field, name) in enumerate(fields.items()):
        for trace in band(paths.time, getattr(paths, field), name, look.OKABE_ITO[i], look.DASHES[i]):
            figure.add_trace(trace)
    return figure


def band(time: np.ndarray, rows: np.ndarray, name: str, colour: str, dash: str = "solid") -> Iterator[go.Scatter]:
    """Median of rows (K, n) over time as a line, and 10 % to 90 % as a band where there is more than one; NaN is left out."""
    there = np.isfinite(rows).any(1)
    time, rows = time[there], rows[there]
    low, middle, high = np.nanquantile(rows, (0.1, 0.5, 0.9), axis=1)
    if rows.shape[1] > 1:
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        yield go.Scatter(
            x=np.concatenate([time, time[::-1]]), y=np.concatenate([high, low[::-1]]), fill="toself", mode="lines",
            line={"width": 0}, fillcolor=f"rgba({red},{green},{blue},0.15)", legendgroup=name, showlegend=False,
            hoverinfo="skip",
        )  # fmt: skip
    yield go.Scatter(
        x=time, y=middle, mode="lines+markers", name=name, legendgroup=name, line={"color": colour, "dash": dash, "width": 2.2},
        marker={"size": 6}, hovertemplate=f"{name}<br>t = %{{x:.3g}} layers<br>median %{{y:.4g}}<extra></extra>",
    )  # fmt: skip
