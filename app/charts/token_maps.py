"""Panels of maps on the image grid, shared by the charts that draw them: picture beneath, bare axes, times of frames."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from . import look

FRAMES = 48  # times of a slider, at most
GREY = "#7d7d7d"  # of lines that are no class; 3 : 1 or better against both themes
MARK = "#D55E00"


def frame_times(count: int) -> np.ndarray:
    """Indices of the saved times that a slider shows, first and last among them."""
    return look.thin(count, FRAMES)


def frames_note(count: int) -> str:
    """What to say below a chart of `count` saved times: nothing, or how many the slider leaves out."""
    return "" if count <= FRAMES else f"The slider shows {FRAMES} of the {count} saved times; the downloads hold all of them."


def under(pixels: np.ndarray, grid: tuple[int, int], *, grey: bool = False) -> go.Image:
    """The image as a trace whose coordinates are patches: patch (i, j) is the square around y = i, x = j.

    Args:
        pixels: uint8, (C, H, W).   grid: rows and columns of patches.   grey: by luminance, to lie under colours.
    """
    if grey and len(pixels) == 3:
        pixels = np.tensordot([0.299, 0.587, 0.114], pixels, 1).round().astype(np.uint8)[None]
    trace = look.picture(pixels)
    dy, dx = grid[0] / pixels.shape[1], grid[1] / pixels.shape[2]
    return trace.update(x0=(dx - 1) / 2, dx=dx, y0=(dy - 1) / 2, dy=dy)


def map_axes(figure: go.Figure, row: int, col: int, grid: tuple[int, int]) -> None:
    """Bare axes of one panel, in patches, the first row on top, squares square."""
    bare = {"showticklabels": False, "showgrid": False, "zeroline": False, "ticks": "", "title_text": "", "constrain": "domain"}
    place = {"row": row, "col": col}
    figure.update_xaxes(range=[-0.5, grid[1] - 0.5], **bare, **place)
    across = figure.get_subplot(row, col).xaxis.plotly_name.replace("axis", "")
    figure.update_yaxes(range=[grid[0] - 0.5, -0.5], scaleanchor=across, constraintoward="top", **bare, **place)


def outline(figure: go.Figure, row: int, col: int, cell: tuple[int, int]) -> None:
    """A square around one patch of a panel."""
    y, x = cell
    square = {"x0": x - 0.5, "x1": x + 0.5, "y0": y - 0.5, "y1": y + 0.5}
    figure.add_shape(type="rect", line={"color": MARK, "width": 2.5}, row=row, col=col, **square)


def beside(figure: go.Figure, row: int, col: int) -> dict:
    """A colour bar right of a panel, as high as it."""
    cell = figure.get_subplot(row, col)
    (low, high), right = cell.yaxis.domain, cell.xaxis.domain[1]
    return {
        "x": right, "xpad": 3, "y": high, "yanchor": "top", "len": high - low, "thickness": 7, "nticks": 4, "outlinewidth": 0,
        "tickfont": {"size": 9}, "ypad": 0,
    }  # fmt: skip


def below(figure: go.Figure, row: int, col: int) -> dict:
    """A colour bar under a panel, as wide as it."""
    cell = figure.get_subplot(row, col)
    left, right = cell.xaxis.domain
    return {
        "orientation": "h", "x": (left + right) / 2, "len": right - left, "y": cell.yaxis.domain[0], "yanchor": "top",
        "xpad": 0, "ypad": 3, "thickness": 7, "nticks": 4, "outlinewidth": 0, "tickfont": {"size": 9},
    }  # fmt: skip


def ceiling(values: np.ndarray | Sequence[float]) -> float:
    """The largest finite value, or 1 where none is above 0: the upper end of a scale that starts at 0."""
    finite = np.asarray(values)[np.isfinite(values)]
    return float(finite.max(initial=0.0)) or 1.0
