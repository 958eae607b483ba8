"""Charts of stability: finite-time and QR exponents, exponents over images, and two paths that drift apart.

Two exponents that differ at finite T: (1/T) log sigma_i(Phi) by SVD, and averages of log |R_ii| by QR; see theory of each.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.reports import ExponentsOverReport, LyapunovReport, PerturbationReport, StretchReport

from . import look, token_maps

NAMED = 4  # exponents with a line of their own in the plot of convergence
BOUNDS = {  # name -> (legend, colour, dash)
    "along": ("along one (1st order)", look.OKABE_ITO[4], "dash"),
    "between": ("between them", look.OKABE_ITO[2], "solid"),
    "logarithmic": ("∫μ dt (1st order)", look.OKABE_ITO[5], "dot"),
    "proven": ("proven", look.OKABE_ITO[3], "longdash"),
}
KINDS = {  # field -> (legend, colour, dash)
    "distance": ("all tokens", token_maps.GREY, "solid"), "distance_cls": ("CLS", look.OKABE_ITO[0], "dash"),
    "distance_patches": ("patches", look.OKABE_ITO[1], "dot"), "distance_registers": ("registers", "#a05a9c", "dashdot"),
}  # fmt: skip
ABOVE = 30.0  # times the largest distance that the sizes allow: where the axis of distances ends


def exponent_spectrum(finite: LyapunovReport, qr: LyapunovReport, image: int = 0) -> go.Figure:
    """Leading exponents by index: finite-time (SVD, descending) and QR averages; hollow where a value has not converged."""
    figure = go.Figure()
    for number, (report, name) in enumerate(((finite, "finite-time, (1/T) log σᵢ(Φ)"), (qr, "QR, (1/T) Σ log |Rᵢᵢ|"))):
        values = np.atleast_2d(report.exponents)[image]
        done = np.broadcast_to(np.atleast_2d(report.converged), np.atleast_2d(report.exponents).shape)[image]
        colour = look.OKABE_ITO[number]
        figure.add_scatter(
            x=np.arange(1, len(values) + 1), y=values, name=name, mode="lines+markers",
            customdata=np.where(done, "", ", not converged"), line={"color": colour, "dash": look.DASHES[number]},
            hovertemplate="i = %{x}: %{y:.4g} 1/t%{customdata}<extra></extra>",
            marker={"symbol": [look.SYMBOLS[number] + ("" if d else "-open") for d in done], "size": 8, "color": colour},
        )  # fmt: skip
    figure.add_hline(0.0, line={"color": token_maps.GREY, "width": 1})
    figure.update_xaxes(dtick=1)
    return look.lay_out(figure, "index i", "exponent (1/t), finite T")


def exponent_convergence(report: LyapunovReport, image: int = 0) -> go.Figure:
    """QR averages against the time over which they are averaged; the first are named, the others grey."""
    history = report.history if report.history.ndim == 3 else report.history[None]
    figure = go.Figure()
    for i in reversed(range(history.shape[-1])):
        named, values = i < NAMED, history[image, :, i]
        figure.add_scatter(
            x=report.time, y=values, name=f"λ{i + 1} = {values[-1]:.3g}", mode="lines+markers" if named else "lines",
            legendrank=i + 1, showlegend=named, marker={"symbol": look.SYMBOLS[i % len(look.SYMBOLS)], "size": 6},
            line={"color": look.OKABE_ITO[i] if named else token_maps.GREY, "dash": look.DASHES[i] if named else "solid",
                  "width": 2 if named else 1},
            hovertemplate=f"λ{i + 1} up to T = %{{x:.4g}}: %{{y:.4g}} 1/t<extra></extra>",
        )  # fmt: skip
    figure.add_hline(0.0, line={"color": token_maps.GREY, "width": 1})
    return look.lay_out(figure, "averaging time T (layers)", "(1/T) Σ log |Rᵢᵢ| (1/t)")


def exponents_by_class(report: ExponentsOverReport, names: Sequence[str]) -> go.Figure:
    """Largest finite-time exponent of every image by class, set off sideways (fixed): circles right, crosses wrong.

    Bars: mean and standard deviation of a class. Classes are the true ones, or the predicted ones without labels.
    """
    labelled = bool((report.labels >= 0).all())
    groups, values = report.labels if labelled else report.predicted, report.exponents[:, 0]
    places = {int(c): place for place, c in enumerate(report.classes)}
    x = np.array([places[int(c)] for c in groups]) + 0.5 * (np.random.default_rng(0).random(len(values)) - 0.5)
    kinds = {"right": report.correct, "wrong": ~report.correct} if labelled else {"images": np.ones(len(values), bool)}
    figure = go.Figure()
    for kind, chosen in kinds.items():
        said = [f"{names[int(p)]}, confidence {c:.2f}" for p, c in zip(report.predicted[chosen], report.confidence[chosen])]
        figure.add_scatter(
            x=x[chosen], y=values[chosen], mode="markers", name=f"{kind} ({int(chosen.sum())})", customdata=said,
            marker={
                "symbol": "x" if kind == "wrong" else "circle", "size": 8 if kind == "wrong" else 6, "opacity": 0.85,
                "color": [look.class_colour(int(c)) for c in groups[chosen]], "line": {"width": 0.5, "color": "gray"},
            },
            hovertemplate=f"{kind}: λ₁ = %{{y:.4g}} 1/t, predicted %{{customdata}}<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(
        x=np.arange(len(report.classes)), y=report.class_mean, mode="markers", name="mean and deviation of a class",
        error_y={"array": report.class_std, "color": token_maps.GREY},
        marker={"symbol": "line-ew-open", "size": 16, "color": token_maps.GREY},
        hovertemplate="mean %{y:.4g} 1/t<extra></extra>",
    )  # fmt: skip
    look.lay_out(figure, "class" if labelled else "predicted class", "largest finite-time exponent λ₁ (1/t)")
    figure.update_xaxes(tickvals=list(places.values()), ticktext=[str(names[c]) for c in places])
    return figure


def exponents_right_wrong(report: ExponentsOverReport) -> go.Figure:
    """Share of the images with an exponent up to each value, for right and wrong predictions; labels are needed."""
    figure = go.Figure()
    for number, (word, chosen) in enumerate((("right", report.correct), ("wrong", ~report.correct))):
        group = np.sort(report.exponents[chosen, 0])
        if len(group):
            figure.add_scatter(
                x=np.append(group[:1], group), y=np.arange(len(group) + 1) / len(group), name=f"{word} ({len(group)})",
                mode="lines", line={"shape": "hv", "color": look.OKABE_ITO[number], "dash": look.DASHES[number]},
                hovertemplate=f"{word}: %{{y:.0%}} have λ₁ ≤ %{{x:.4g}} 1/t<extra></extra>",
            )  # fmt: skip
    return look.lay_out(figure, "largest finite-time exponent λ₁ (1/t)", "share of the images")


def perturbed_picture(before: np.ndarray, after: np.ndarray, grid: tuple[int, int]) -> go.Figure:
    """The image, the perturbed image as the model sees it, and their difference (mean of the channels, grey levels).

    Args:
        before, after: uint8 (C, H, W).   grid: (rows, columns) of patches; the axes count patches.
    """
    titles = ("image", "perturbed", "difference")
    figure = make_subplots(2, 2, horizontal_spacing=0.04, vertical_spacing=0.08, subplot_titles=titles)
    figure.add_trace(token_maps.under(before, grid), row=1, col=1)
    figure.add_trace(token_maps.under(after, grid), row=1, col=2)
    change = after.astype(float).mean(0) - before.astype(float).mean(0)
    (rows, columns), (high, wide) = grid, change.shape
    figure.add_trace(
        go.Heatmap(
            z=change, x0=(columns / wide - 1) / 2, dx=columns / wide, y0=(rows / high - 1) / 2, dy=rows / high,
            colorbar={"x": 0.49, "y": 0.23, "len": 0.46, "thickness": 10, "title": {"text": "grey levels", "side": "right"}},
            hovertemplate="%{z:+.0f} grey levels<extra></extra>", **look.signed(change),
        ),
        row=2, col=1,
    )  # fmt: skip
    look.lay_out(figure, "", "")
    for row, column in ((1, 1), (1, 2), (2, 1)):
        token_maps.map_axes(figure, row, column, grid)
    figure.update_xaxes(visible=False, row=2, col=2).update_yaxes(visible=False, row=2, col=2)
    return figure.update_annotations(font_size=12).update_layout(margin={"l": 8, "b": 8})


def separation(report: PerturbationReport, stretch: StretchReport | None = None) -> go.Figure:
    """Distance of the two paths over t, of all tokens and of each kind, below its bounds; logarithmic.

    The grey band starts at ||x|| + ||x'||, which no distance can exceed: a bound in it is vacuous. Bounds that leave the axis
    go on above it.

    Args:
        report: PerturbationReport.   stretch: StretchReport of all its steps, or None for no bounds but the proven one.
    """
    figure = go.Figure()
    for field, (name, colour, dash) in KINDS.items():
        values = getattr(report, field)
        if len(values):
            figure.add_scatter(
                x=report.time, y=np.where(values > 0, values, np.nan), name=name, mode="lines+markers",
                line={"color": colour, "dash": dash, "width": 3 if field == "distance" else 1.8},
                hovertemplate=f"{name}: %{{y:.4g}} at t = %{{x:.4g}}<extra></extra>",
            )  # fmt: skip
    for name, values in bounds_of(report, stretch).items():
        label, colour, dash = BOUNDS[name]
        figure.add_scatter(
            x=report.time, y=values, name=f"≤ {label}", mode="lines+markers",
            line={"color": colour, "dash": dash, "width": 1.8},
            marker={"symbol": ["circle-open" if v else "circle" for v in report.vacuous(values)], "size": 7},
            hovertemplate=f"bound, {label}: %{{y:.4g}} at t = %{{x:.4g}}<extra></extra>",
        )  # fmt: skip
    top = ABOVE * float(report.reach.max())
    figure.add_scatter(
        x=report.time, y=np.full(len(report.time), top), showlegend=False, mode="lines", line_width=0, hoverinfo="skip"
    )
    figure.add_scatter(
        x=report.time, y=report.reach, name="‖x‖ + ‖x'‖", mode="lines", fill="tonexty",
        fillcolor="rgba(125,125,125,0.15)", line={"color": token_maps.GREY, "width": 1, "dash": "dot"},
        hovertemplate="‖x‖ + ‖x'‖ = %{y:.4g}<extra></extra>",
    )  # fmt: skip
    look.lay_out(figure, look.TIME, "‖x'(t) − x(t)‖ (state)", log_y=True, height=look.HEIGHT + 70)
    figure.update_layout(legend_traceorder="normal")
    return _sight(figure, report, top).update_yaxes(dtick=1)


def _sight(figure: go.Figure, report: PerturbationReport, top: float) -> go.Figure:
    """The axis from a third of the smallest distance to `top`."""
    known = [getattr(report, field) for field in KINDS]
    positive = np.concatenate(known)[np.concatenate(known) > 0]
    low = float(positive.min()) / 3 if positive.size else top / 1e6
    return figure.update_yaxes(range=[np.log10(low), np.log10(top)])


def bounds_of(report: PerturbationReport, stretch: StretchReport | None) -> dict[str, np.ndarray]:
    """The bounds that there are, by name, at each time."""
    found = {} if stretch is None else stretch.bounds(float(report.distance[0]))
    return {name: found[name] for name in ("between", "along", "logarithmic") if name in found} | (
        {"proven": report.proven} if len(report.proven) else {}
    )


def token_separation(report: PerturbationReport, at: float | None = None) -> go.Figure:
    """Distance of each token: patches on the image grid, CLS and registers beside it, with a time slider.

    Args:
        report: PerturbationReport.   at: time shown first.
    """
    picked, patches = token_maps.frame_times(len(report.time)), report.patch_grid[0] * report.patch_grid[1]
    values = report.token_distance[picked]
    figure = make_subplots(1, 2, column_widths=[0.85, 0.15], horizontal_spacing=0.03)
    frames = [_maps(row, report.patch_grid, patches) for row in values]
    for column, trace in enumerate(frames[-1], 1):
        figure.add_trace(trace, row=1, col=column)
    look.lay_out(figure, "", "")
    figure.update_layout(coloraxis={
        "cmin": 0.0, "cmax": token_maps.ceiling(values), "colorscale": look.SEQUENTIAL,
        "colorbar": {"title": {"text": "‖x'ᵢ − xᵢ‖ (state)", "side": "right"}, "thickness": 12, "x": 1.1},
    })  # fmt: skip
    token_maps.map_axes(figure, 1, 1, report.patch_grid)
    figure.update_xaxes(showticklabels=False, showgrid=False, title_text="", row=1, col=2)
    figure.update_yaxes(autorange="reversed", side="right", ticks="", showgrid=False, title_text="", row=1, col=2)
    return look.framed(figure, report.time[picked].tolist(), frames, at=at)


def _maps(row: np.ndarray, grid: tuple[int, int], patches: int) -> tuple[go.Heatmap, go.Heatmap]:
    on_grid = go.Heatmap(
        z=look.grid_of(row[1 : 1 + patches], grid), coloraxis="coloraxis",
        hovertemplate="patch row %{y}, column %{x}: %{z:.4g}<extra></extra>",
    )  # fmt: skip
    names = ["CLS", *(f"reg {i}" for i in range(len(row) - 1 - patches))]
    apart = np.concatenate([row[:1], row[1 + patches :]])[:, None]
    return on_grid, go.Heatmap(z=apart, y=names, x=[""], coloraxis="coloraxis", hovertemplate="%{y}: %{z:.4g}<extra></extra>")
