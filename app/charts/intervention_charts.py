"""Charts of interventions: which tokens are changed, what becomes of class and path, where and when it matters.

x(t) -> x'(t) -> x'(T) -> logits, against the unchanged path; InterventionReport and EffectMapReport.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.figures.lens_plots import probabilities
from analysis.reports import EffectMapReport, InterventionReport
from odevit.layout import TokenLayout

from . import look, token_maps

SHOWN = 10  # classes with bars
MAP_HEIGHT = 320  # pixels, to which a slider adds 70
EFFECTS = {  # quantity of an EffectMapReport -> (axis, signed)
    "logit_change": ("change of the predicted class's logit", True),
    "margin_change": ("change of the margin (logits)", True),
    "kl": ("KL before ‖ after (nats)", False),
    "size": ("size of the change (state)", False),
}
_COLOURS = {"all tokens": "#888888", "CLS": look.OKABE_ITO[0], "patches": look.OKABE_ITO[1], "registers": look.OKABE_ITO[2]}


def patch_chooser(pixels: np.ndarray, grid: tuple[int, int], rows: tuple[int, int], columns: tuple[int, int]) -> go.Figure:
    """The image with a point on each patch, to be selected, and a frame around the chosen rectangle.

    Args:
        pixels: uint8 (C, H, W).   grid: (rows, columns) of patches.   rows, columns: first and last chosen, from 0.
    """
    height, width = grid
    row, column = (index.ravel() for index in np.indices(grid))
    size = max(4, min(12, 72 // max(grid)))  # pixels
    figure = go.Figure(token_maps.under(pixels, grid))
    figure.add_scatter(
        x=column, y=row, customdata=np.stack([row, column], -1), mode="markers", showlegend=False,
        marker={"size": size, "color": "white", "line": {"color": "black", "width": 1}, "opacity": 0.55},
        hovertemplate="patch row %{y}, column %{x}<extra></extra>",
    )  # fmt: skip
    corners = {"x0": columns[0] - 0.5, "x1": columns[1] + 0.5, "y0": rows[0] - 0.5, "y1": rows[1] + 0.5}
    figure.add_shape(type="rect", **corners, line={"color": token_maps.MARK, "width": 4})
    look.lay_out(figure, "", "", height=260, equal=True)
    # with dragmode "select" Streamlit would let a click choose nothing
    figure.update_layout(dragmode=False, clickmode="event+select", margin={"l": 28, "r": 8, "t": 8, "b": 28})
    plain = {"showgrid": False, "zeroline": False, "constrain": "domain", "dtick": max(1, max(grid) // 8)}
    figure.update_xaxes(range=[-0.5, width - 0.5], **plain)
    return figure.update_yaxes(range=[height - 0.5, -0.5], **plain)


def class_effect(report: InterventionReport, classes: Sequence[str], image: int = 0, label: int | None = None) -> go.Figure:
    """Class probabilities before (faint) and after the change, and below it the change of each logit.

    The class predicted before is bold, that predicted after is marked: a circle where it is the true class, a cross where it is
    not, a diamond where the true class is not known. Of many classes the ten with the largest probability are drawn.

    Args:
        report: InterventionReport.   classes: names.   image: which.   label: its true class, or None.
    """
    before, after = (probabilities(z[image]) for z in (report.logits_before, report.logits_after))
    shown = np.sort(np.argsort(-np.maximum(before, after), kind="stable")[:SHOWN])
    first, last = int(before.argmax()), int(after.argmax())
    names = [f"<b>{classes[c]}</b>" if c == first else str(classes[c]) for c in shown]
    colours = [look.class_colour(c) for c in shown]
    figure = make_subplots(2, 1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.62, 0.38])
    full = {"color": colours, "line": {"color": "gray", "width": 1}}  # black and yellow are seen on both themes
    hover = "class %{x}: %{y:.3f}<extra>"
    figure.add_bar(
        x=names, y=before[shown], name="before (faint)", marker=full | {"opacity": 0.4},
        hovertemplate=hover + "before</extra>",
    )  # fmt: skip
    figure.add_bar(x=names, y=after[shown], name="after", marker=full, hovertemplate=hover + "after</extra>")
    symbol, said = ("diamond", "predicted") if label is None else _judged(last == label)
    figure.add_scatter(
        x=[names[list(shown).index(last)]], y=[min(1.0, after[last] + 0.06)], mode="markers", name=said,
        marker={"symbol": symbol, "size": 11, "color": look.class_colour(last), "line": {"width": 1, "color": "gray"}},
        hovertemplate=said + "<extra></extra>",
    )  # fmt: skip
    figure.add_bar(
        x=names, y=report.delta_logits[image][shown], marker=full, showlegend=False, row=2, col=1,
        hovertemplate="class %{x}: logit %{y:+.4g}<extra>after - before</extra>",
    )  # fmt: skip
    some = "" if len(shown) == len(before) else f" ({len(shown)} of {len(before)}, those of the largest probability)"
    look.lay_out(figure, "", "probability")
    figure.update_xaxes(type="category", title_text="")
    figure.update_xaxes(title_text=f"class{some}", row=2, col=1)
    figure.update_yaxes(range=[0, 1.05], row=1, col=1)
    return figure.update_yaxes(title_text="Δ logit", row=2, col=1)


def _judged(right: bool) -> tuple[str, str]:
    return ("circle", "then right") if right else ("x", "then wrong")


def spread(report: InterventionReport, layout: TokenLayout, image: int = 0) -> go.Figure:
    """Distance between the changed and the unchanged path from the time of the change on: of all tokens, and of each kind.

    Args:
        report: InterventionReport.   layout: names of the tokens.   image: which.
    """
    figure = go.Figure()
    for number, (name, where) in enumerate(_kinds(layout).items()):
        distance = np.linalg.norm(report.token_distance[:, image, where], axis=-1)
        line = {"color": _COLOURS[name], "dash": look.DASHES[number], "width": 2.5 if number == 0 else 1.8}
        figure.add_scatter(
            x=report.time, y=distance, name=name, mode="lines+markers", line=line, marker_symbol=look.SYMBOLS[number],
            hovertemplate=f"{name}: %{{y:.4g}} at t = %{{x:.4g}}<extra></extra>",
        )  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    return look.lay_out(figure, look.TIME, "‖x'(t) − x(t)‖ (state)")


def _kinds(layout: TokenLayout) -> dict[str, slice]:
    kinds = {"all tokens": slice(None), "CLS": layout.cls, "patches": layout.patches, "registers": layout.registers}
    return {name: where for name, where in kinds.items() if where.stop is None or where.stop > where.start}


def effect_frames(
    report: EffectMapReport, layout: TokenLayout, pixels: np.ndarray, quantity: str = "logit_change", *, image: int = 0,
    at: float | None = None,
) -> go.Figure:  # fmt: skip
    """The image, and the effect of changing each token alone at time t: patches on the image grid, CLS and registers beside it.

    One scale for all times, that of the patches, zero in the middle where the quantity is signed; CLS and registers, which may
    exceed it, have their numbers in their cells. A time slider that needs no server.

    Args:
        report: EffectMapReport over every single token.   layout: names of the tokens.   pixels: uint8 (C, H, W).
        quantity: logit_change, margin_change, kl or size.   image: which.   at: time shown first.
    """
    values, label, signed = _of_image(report, quantity, image)
    across = max(1.0, layout.grid[1] / 4)  # a column of CLS and registers that has room for numbers
    figure = make_subplots(1, 3, column_widths=[layout.grid[1], layout.grid[1], across], horizontal_spacing=0.03)
    figure.add_trace(token_maps.under(pixels, layout.grid), row=1, col=1)
    frames = [_maps(row, layout, across) for row in values]
    for column, trace in zip((2, 3), frames[-1]):
        figure.add_trace(trace, row=1, col=column)
    look.lay_out(figure, "", "", height=MAP_HEIGHT).update_layout(margin={"l": 8, "r": 8})
    seen = values[:, layout.patches]
    scale = look.signed(seen) if signed else {"zmin": 0.0, "zmax": token_maps.ceiling(seen), "colorscale": look.SEQUENTIAL}
    figure.update_layout(coloraxis={
        "cmin": scale["zmin"], "cmax": scale["zmax"], "colorscale": scale["colorscale"],
        "colorbar": {"title": {"text": label, "side": "right"}, "thickness": 12, "x": 1.0, "xpad": 48},
    })  # fmt: skip
    for column in (1, 2):
        token_maps.map_axes(figure, 1, column, layout.grid)
    _column(figure, layout.num_registers, across)
    return look.framed(figure, report.time.tolist(), frames, at=at)


def _of_image(report: EffectMapReport, quantity: str, image: int) -> tuple[np.ndarray, str, bool]:
    return getattr(report, quantity)[..., image].astype(float), *EFFECTS[quantity]


def _column(figure: go.Figure, registers: int, across: float) -> None:
    """Axes of the column of CLS and registers, whose cells are as high as a patch and `across` patches wide."""
    names = ["CLS", *(f"reg {i}" for i in range(registers))]
    token_maps.map_axes(figure, 1, 3, (len(names), 1))
    figure.update_yaxes(
        scaleanchor="x2", constraintoward="top", side="right", showticklabels=True, tickvals=list(range(len(names))),
        ticktext=names, row=1, col=3,
    )  # fmt: skip
    figure.update_yaxes(constraintoward="top", row=1)
    figure.update_xaxes(range=[-across / 2, across / 2], constraintoward="left", row=1, col=3)


def _maps(row: np.ndarray, layout: TokenLayout, across: float) -> tuple[go.Heatmap, go.Heatmap]:
    """The values of all tokens at one time: patches as a grid, the others as a column."""
    others = np.concatenate([row[layout.cls], row[layout.registers]])
    grid = look.grid_of(row[layout.patches], layout.grid)
    said = "{z:.4g}<extra></extra>"
    on_grid = go.Heatmap(z=grid, coloraxis="coloraxis", hovertemplate="patch row %{y}, column %{x}: %" + said)
    names = [[_token(layout, i)] for i in (0, *range(layout.size)[layout.registers])]
    cells = {"text": names, "texttemplate": "%{z:.2g}", "hovertemplate": "%{text}: %" + said}
    beside = go.Heatmap(z=others[:, None], x0=0, dx=across, coloraxis="coloraxis", **cells)
    return on_grid, beside


def effect_over_time(
    report: EffectMapReport, layout: TokenLayout, quantity: str = "logit_change", *, image: int = 0
) -> go.Figure:
    """The same effect over the time of the change: CLS, and the strongest patch and register at each time, named on hover.

    Args:
        report: EffectMapReport over every single token.   layout: names of the tokens.   quantity, image: as in the map.
    """
    values, label, _ = _of_image(report, quantity, image)
    figure = go.Figure()
    for number, (name, where) in enumerate(list(_kinds(layout).items())[1:], 1):
        found = values[:, where]
        strongest = np.abs(found).argmax(1)
        said = name if name == "CLS" else f"strongest of {name}"
        figure.add_scatter(
            x=report.time, y=found[np.arange(len(found)), strongest], name=said, mode="lines+markers",
            line={"color": _COLOURS[name], "dash": look.DASHES[number], "width": 2}, marker_symbol=look.SYMBOLS[number],
            text=[_token(layout, where.start + i) for i in strongest],
            hovertemplate="%{text}: %{y:.4g} at t = %{x:.4g}<extra></extra>",
        )  # fmt: skip
    figure.add_hline(0.0, line={"color": "gray", "width": 1, "dash": "dot"})
    return look.lay_out(figure, "changed at " + look.TIME, label, height=MAP_HEIGHT + 70)  # beside a map with its slider


def head_effects(report: EffectMapReport, quantity: str = "logit_change", *, image: int = 0) -> go.Figure:
    """The effect of silencing each head alone from time t on.

    Args:
        report: EffectMapReport over heads.   quantity, image: as in the map.
    """
    values, label, _ = _of_image(report, quantity, image)
    figure = go.Figure()
    for number, (head, found) in enumerate(zip(report.regions, values.T)):
        figure.add_scatter(
            x=report.time, y=found, name=f"head {head}", mode="lines+markers", marker_symbol=look.class_symbol(number),
            line={"color": look.class_colour(number), "dash": look.DASHES[number % 6]},
            hovertemplate=f"head {head}: %{{y:.4g}} from t = %{{x:.4g}}<extra></extra>",
        )  # fmt: skip
    figure.add_hline(0.0, line={"color": "gray", "width": 1, "dash": "dot"})
    return look.lay_out(figure, "silenced from " + look.TIME, label)


def _token(layout: TokenLayout, index: int) -> str:
    """What a token is called beside a chart."""
    if index >= layout.registers.start and layout.num_registers:
        return f"register {index - layout.registers.start}"
    row, column = divmod(index - 1, layout.grid[1])
    return f"patch row {row}, column {column}" if index else "CLS"
