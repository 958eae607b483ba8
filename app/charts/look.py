"""The look of all plotly charts: axes with quantity and unit, colours of classes, maps, the time slider, the budget of points.

Colours come from `analysis.figures.style`, so that a class looks the same in the browser and in a paper. A time slider carries
its frames along: they are sent once, and the browser moves between them without asking the server.
"""

import base64
import io
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from PIL import Image

from analysis.figures.style import OKABE_ITO, class_colour

__all__ = [
    "DASHES", "DIVERGING", "HEIGHT", "MAX_BYTES", "OKABE_ITO", "SEQUENTIAL", "SYMBOLS", "TIME", "class_colour", "class_symbol",
    "framed", "grid_of", "inked", "kind", "lay_out", "picture", "signed", "size", "thin",
]  # fmt: skip

TIME = "t (layers)"
HEIGHT = 380  # pixels of a plot; two in a row are of one height
SEQUENTIAL, DIVERGING = "Cividis", "RdBu_r"
SYMBOLS = (
    "circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "triangle-left", "star", "hexagram", "pentagon",
    "hexagon",
)  # fmt: skip
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
INK = ("#31333F", "#E6E8EB")  # of text on the light and the dark page
SMOOTH = 6_000  # points above which the browser draws with WebGL, which costs a tenth of a second to start
MAX_BYTES = 5_000_000  # of one figure on its way to the browser


def class_symbol(i: int) -> str:
    """The second cue of class i beside its colour; 11 symbols and 8 colours have no common factor."""
    return SYMBOLS[i % len(SYMBOLS)]


def lay_out(figure: go.Figure, x: str, y: str, *, height: int = HEIGHT, equal: bool = False, log_y: bool = False) -> go.Figure:
    """The figure with titled axes and margins that fit it.

    Args:
        x, y: quantity and unit, such as "t (layers)".   equal: one scale on both axes, for planes.
    """
    figure.update_layout(
        height=height, margin={"l": 60, "r": 16, "t": 28, "b": 48}, hovermode="closest", uirevision="kept",
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "xanchor": "left", "x": 0},
    )  # fmt: skip
    figure.update_xaxes(title_text=x)
    figure.update_yaxes(title_text=y)
    if log_y:
        figure.update_yaxes(type="log", exponentformat="power")
    if equal:
        figure.update_yaxes(scaleanchor="x", scaleratio=1)
    return figure


def framed(
    figure: go.Figure, times: Sequence[float], frames: Sequence[Sequence[go.Frame | dict]], *, at: float | None = None
) -> go.Figure:
    """The figure with a time slider and a play button; `frames[k]` are the traces at times[k], in the order of the figure's
    LAST len(frames[k]) traces. Traces before those stay as they are.

    Args:
        at: the time shown first, the nearest of `times`; the last where it is None.
    """
    if len(frames) != len(times) or not len(times):
        raise ValueError(f"{len(frames)} frames for {len(times)} times")
    moving = list(range(len(figure.data) - len(frames[0]), len(figure.data)))
    start = len(times) - 1 if at is None else int(np.abs(np.asarray(times) - at).argmin())
    names = [f"{t:.4g}" for t in times]
    figure.frames = [go.Frame(data=list(data), name=name, traces=moving) for data, name in zip(frames, names)]
    for index, trace in zip(moving, frames[start]):
        figure.data[index].update(trace)
    quick = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    play = {"frame": {"duration": 350, "redraw": True}, "transition": {"duration": 0}, "fromcurrent": True}
    steps = [{"label": name, "method": "animate", "args": [[name], quick]} for name in names]
    figure.update_layout(
        sliders=[
            {
                "active": start, "steps": steps, "x": 0, "len": 1, "y": 0, "yanchor": "top", "pad": {"t": 46, "b": 0, "l": 104},
                "currentvalue": {"prefix": "t = ", "suffix": " layers", "visible": True, "xanchor": "left"},
            }
        ],
        updatemenus=[
            {
                "type": "buttons", "direction": "left", "x": 0.0, "y": 0, "xanchor": "left", "yanchor": "top",
                "pad": {"t": 62, "r": 8}, "showactive": False,
                "buttons": [
                    {"label": "▶", "method": "animate", "args": [None, play]},
                    {"label": "❚❚", "method": "animate", "args": [[None], quick]},
                ],
            }
        ],
    )  # fmt: skip
    figure.update_layout(margin_b=120, height=(figure.layout.height or HEIGHT) + 70)
    return figure


def picture(pixels: np.ndarray) -> go.Image:
    """An image as a trace, sent as a PNG.

    Args:
        pixels: uint8, shape (C, H, W) with C = 1 or 3.
    """
    rows = np.ascontiguousarray(np.moveaxis(pixels, 0, -1))
    image = Image.fromarray(rows[..., 0] if rows.shape[-1] == 1 else rows).convert("RGB")
    file = io.BytesIO()
    image.save(file, format="PNG")
    source = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
    return go.Image(source=source, hoverinfo="skip")


def grid_of(values: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """Values of the patches (P,) as the image grid (rows, columns), the first patch top left; draw with a reversed y axis."""
    return np.asarray(values).reshape(grid)


def signed(values: np.ndarray) -> dict:
    """zmin, zmax and colour scale of a signed quantity, zero in the middle."""
    largest = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    return {"zmin": -largest, "zmax": largest, "colorscale": DIVERGING}


def thin(count: int, budget: int) -> np.ndarray:
    """Indices of at most `budget` of `count` things, evenly spaced, with first and last; say so where it leaves any out."""
    return np.arange(count) if count <= budget else np.unique(np.linspace(0, count - 1, budget).round().astype(int))


def kind(points: int) -> str:
    """Type of a trace of so many points: drawn as elements of the page, or by WebGL where they are many."""
    return "scattergl" if points > SMOOTH else "scatter"


def inked(figure: go.Figure, dark: bool) -> go.Figure:
    """The figure with its words in the colour of the page's text; Streamlit's own grey has a contrast below 4.5."""
    ink = INK[dark]
    words = {"tickfont": {"color": ink}, "title": {"font": {"color": ink}}}
    solid = any("scene" in trace for trace in figure.data)  # axes that are named would be drawn, so only the kind there is
    given = figure.layout.to_plotly_json()
    axes = [n for n in given if n.startswith(("xaxis", "yaxis"))] or ([] if solid else ["xaxis", "yaxis"])
    scenes = [n for n in given if n.startswith("scene")] or (["scene"] if solid else [])
    layout = {**dict.fromkeys(axes, words), **dict.fromkeys(scenes, {f"{a}axis": words for a in "xyz"})}
    figure.update_layout(font={"color": ink}, legend={"font": {"color": ink}}, **layout)  # one call: each costs milliseconds
    figure.for_each_annotation(lambda note: note.update(font_color=ink) if note.font.color is None else None)
    for trace in figure.data:
        for holder in [trace, *([trace.marker] if "marker" in trace else [])]:
            if "colorbar" in holder and holder.colorbar.to_plotly_json():  # a bar that is styled is also drawn
                holder.colorbar.update(tickfont_color=ink, title_font_color=ink)
    return figure


def size(figure: go.Figure) -> int:
    """Bytes of the figure as it is sent to the browser."""
    return len(figure.to_json())
