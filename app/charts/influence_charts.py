"""Charts of who moves whom: block norms |J_ij| of one token with all others, on the image at every time."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.reports import InfluenceReport
from odevit.layout import TokenLayout

from . import look, token_maps
from .intervention_charts import patch_chooser

COLUMNS = 4  # maps in a row, at most
PALE = 150  # darkest grey of the picture under the maps, so that their colour is seen everywhere
GAP, STRIP = 0.05, 0.16  # below the image: space and the row of CLS and registers, as shares of its height
CLEAR = [[0.0, "rgba(213, 94, 0, 0.04)"], [1.0, "rgba(213, 94, 0, 0.95)"]]  # over a grey picture
EMPTY = -1  # no patch: outside every grid


def token_names(layout: TokenLayout) -> list[str]:
    """What each token is called: "CLS", "patch 0,3" (row, column), "register 1"."""
    patches = [f"patch {i},{j}" for i, j in np.ndindex(layout.grid)]
    return ["CLS", *patches, *(f"register {i}" for i in range(layout.num_registers))]


def token_chooser(pixels: np.ndarray, layout: TokenLayout, token: int) -> go.Figure:
    """The image with a point on each patch, to be clicked, and a frame around the chosen one.

    Args:
        pixels: uint8 (C, H, W).   layout: names of the tokens.   token: index of the chosen one.
    """
    on_grid = layout.patches.start <= token < layout.patches.stop
    row, column = divmod(token - layout.patches.start, layout.grid[1]) if on_grid else (EMPTY, EMPTY)
    figure = patch_chooser(pixels, layout.grid, (row, row), (column, column))
    if not on_grid:
        figure.layout.shapes = ()
    return figure


def influence_maps(
    reports: Sequence[InfluenceReport], layout: TokenLayout, pixels: np.ndarray, token: int, *, onto: bool = True
) -> go.Figure:
    """Influence between one token and all others on the image, a map for each time, all on one scale from 0.

    Below each map CLS and the registers; colours reach to the largest patch, so that these do not drown the patches. The
    token's own block, which also holds the MLP, is left out and told in the title.

    Args:
        reports: one image, one report for each time.   layout: names of the tokens.   pixels: uint8 (C, H, W).
        token: index of the chosen one.   onto: influence of the others on it (row of J), else of it on the others (column).
    """
    found = [_one(r) for r in reports]
    vectors = [(b[token] if onto else b[:, token]).copy() for b in found]
    own = [float(v[token]) for v in vectors]
    for v in vectors:
        v[token] = np.nan
    rows = -(-len(found) // COLUMNS)
    columns = -(-len(found) // rows)
    titles = [f"t = {r.t:.3g}<br>itself {alone:.2g}" for r, alone in zip(reports, own)]
    figure = make_subplots(rows, columns, subplot_titles=titles, horizontal_spacing=0.02, vertical_spacing=0.2 / rows)
    pale = (PALE + pixels * ((255 - PALE) / 255)).astype(np.uint8)
    for k, vector in enumerate(vectors):
        _draw(figure, vector, layout, pale, token, k // columns + 1, k % columns + 1)
    look.lay_out(figure, "", "", height=look.HEIGHT + 120 * (rows - 1))
    figure.update_layout(margin={"l": 8, "r": 70, "t": 48, "b": 12}, coloraxis={
        "cmin": 0.0, "cmax": token_maps.ceiling(np.stack(vectors)[:, layout.patches]), "colorscale": CLEAR,
        "colorbar": {"title": {"text": f"‖J_ij‖ {_norm(reports[0])} (1/t)", "side": "right"}, "thickness": 12},
    })  # fmt: skip
    return figure.update_annotations(font_size=12)


def _one(report: InfluenceReport) -> np.ndarray:
    """(to, from) of the first image."""
    return report.influence[0] if report.influence.ndim == 3 else report.influence


def _norm(report: InfluenceReport) -> str:
    return "Frobenius" if report.norm == "frobenius" else report.norm


def _draw(
    figure: go.Figure, vector: np.ndarray, layout: TokenLayout, pixels: np.ndarray, token: int, row: int, col: int
) -> None:
    """One map: the picture in grey, the patches over it, CLS and registers as a row below, the token framed."""
    high, wide = layout.grid
    figure.add_trace(token_maps.under(pixels, layout.grid, grey=True), row=row, col=col)
    figure.add_heatmap(
        z=look.grid_of(vector[layout.patches], layout.grid), coloraxis="coloraxis", row=row, col=col,
        hovertemplate="patch %{y},%{x}: %{z:.4g}<extra></extra>",
    )  # fmt: skip
    apart = [0, *range(layout.registers.start, layout.registers.stop)]
    step, top, bottom = wide / len(apart), high * (1 + GAP) - 0.5, high * (1 + GAP + STRIP) - 0.5
    figure.add_heatmap(
        z=vector[apart][None], x0=-0.5 + step / 2, dx=step, y0=(top + bottom) / 2, dy=bottom - top, row=row, col=col,
        text=[["CLS", *(f"R{i}" for i in range(layout.num_registers))]], texttemplate="%{text}", xgap=1, coloraxis="coloraxis",
        textfont_color="black",
        hovertemplate="%{text}: %{z:.4g}<extra></extra>",
    )  # fmt: skip
    strip = {"x0": -0.5, "x1": wide - 0.5, "y0": top, "y1": bottom, "fillcolor": "white", "line_width": 0, "layer": "below"}
    figure.add_shape(type="rect", row=row, col=col, **strip)
    token_maps.map_axes(figure, row, col, layout.grid)
    figure.update_yaxes(range=[bottom, -0.5], row=row, col=col)
    if token in apart:
        left = -0.5 + step * apart.index(token)
        corners = {"x0": left, "x1": left + step, "y0": top, "y1": bottom}
        figure.add_shape(type="rect", line={"color": token_maps.MARK, "width": 2.5}, row=row, col=col, **corners)
    else:
        i, j = divmod(token - layout.patches.start, wide)
        token_maps.outline(figure, row, col, (i, j))
