"""Charts of the solver: accuracy and flips under others, where paths go, errors of Euler's method and their bounds."""

from collections.abc import Iterator, Sequence

import numpy as np
import plotly.graph_objects as go

from analysis.figures.solver_plots import ESTIMATES
from analysis.reports import AnswersReport, DiscretizationReport, SolverPathsReport, StabilityReport, SwapReport

from . import look, token_maps

NFE = "field evaluations of a solve (NFE)"
WORDS = {  # estimate -> legend
    "measured": "measured", "principal": "principal (estimate)", "stepwise": "stepwise bound", "logarithmic": "bound with γₕ",
    "classical": "classical bound",
}  # fmt: skip
LEAST_SPAN = 0.1  # of the axis of accuracies, so that one image more or less looks like that
DECADES_ABOVE = 1e6  # times the largest error: where the axis ends
METHODS = ("euler", "midpoint", "heun2", "heun3", "rk4", "dopri5", "bosh3", "lie_trotter", "strang", "dopri8", "fehlberg2")


def _style(method: str) -> dict:
    """Colour, dash and symbol of a method, the same in all charts."""
    i = METHODS.index(method) if method in METHODS else len(METHODS)
    colour = (*look.OKABE_ITO[:6], token_maps.GREY)[i % 7]
    line = {"color": colour, "dash": look.DASHES[i % 6], "width": 2}
    return {"line": line, "marker": {"symbol": look.class_symbol(i), "size": 8}}


def _curves(report: SwapReport) -> Iterator[tuple[str, np.ndarray]]:
    """(method, its rows in the order of their cost)."""
    for method in dict.fromkeys(map(str, report.method)):
        rows = np.flatnonzero(report.method == method)
        yield method, rows[np.argsort(report.nfe[rows], kind="stable")]


def _steps(report: SwapReport, rows: np.ndarray) -> list[str]:
    return [f"{report.steps[r]} steps" if report.steps[r] else "its own steps" for r in rows]


def solver_accuracy(report: SwapReport) -> go.Figure:
    """Accuracy against NFE for every solver; a ring marks the trained one. Needs labels."""
    figure = go.Figure()
    for method, rows in _curves(report):
        figure.add_scatter(
            x=report.nfe[rows], y=report.accuracy[rows], name=method, mode="lines+markers", text=_steps(report, rows),
            hovertemplate=f"{method}, %{{text}}, NFE %{{x}}: accuracy %{{y:.1%}}<extra></extra>", **_style(method),
        )  # fmt: skip
    trained = (report.method == report.trained_method) & (report.steps == report.trained_steps)
    if not trained.any():  # an adaptive solver has one row
        trained = (report.method == report.trained_method) & (report.steps == 0)
    figure.add_scatter(
        x=report.nfe[trained], y=report.accuracy[trained], name="as trained", mode="markers", hoverinfo="skip",
        marker={"symbol": "circle-open", "size": 16, "color": token_maps.GREY, "line": {"width": 2}},
    )  # fmt: skip
    look.lay_out(figure, NFE, f"accuracy ({report.images} images)")
    low, high = float(np.nanmin(report.accuracy)), float(np.nanmax(report.accuracy))
    spare = 0.02 + max(0.0, LEAST_SPAN - (high - low)) / 2
    top = min(1.02, high + spare)
    figure.update_yaxes(tickformat=".0%", range=[max(-0.02, min(low - spare, top - LEAST_SPAN)), top])
    return _nfe_axis(figure, report.nfe)


def solver_flips(report: SwapReport) -> go.Figure:
    """Share of the images whose prediction changes, and (thin, pale) the largest share that the no-flip radius allows."""
    figure = go.Figure()
    for method, rows in _curves(report):
        look_of, steps = _style(method), _steps(report, rows)
        figure.add_scatter(
            x=report.nfe[rows], y=1 - report.certain_rate[rows], name="at most (proven)", legendgroup="most", opacity=0.45,
            showlegend=method == str(report.method[0]), text=steps, mode="lines+markers",
            line={**look_of["line"], "width": 1, "dash": "dot"}, marker={"symbol": "line-ew-open", "size": 14},
            hovertemplate=f"{method}, %{{text}}: at most %{{y:.1%}} can flip<extra></extra>",
        )  # fmt: skip
        figure.add_scatter(
            x=report.nfe[rows], y=report.flip_rate[rows], name=method, mode="lines+markers", text=steps,
            hovertemplate=f"{method}, %{{text}}, NFE %{{x}}: %{{y:.1%}} flip<extra></extra>", **look_of,
        )  # fmt: skip
    look.lay_out(figure, NFE, f"share of the {report.images} images that flip")
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    return _nfe_axis(figure, report.nfe)


def _nfe_axis(figure: go.Figure, nfe: np.ndarray) -> go.Figure:
    low, high = np.floor(np.log2(nfe.min())), np.ceil(np.log2(nfe.max()))
    return figure.update_xaxes(type="log", tickvals=(2.0 ** np.arange(low, high + 1)).tolist(), tickformat="d")


def solver_margins(report: AnswersReport) -> go.Figure:
    """How far the readout's input moves against the no-flip radius of each image: below the diagonal a flip is possible."""
    flipped = np.zeros(len(report.shift), bool)
    flipped[report.flips] = True
    figure = go.Figure()
    for word, chosen, symbol, colour in (
        ("kept", ~flipped, "circle", look.OKABE_ITO[0]), ("flipped", flipped, "x", look.OKABE_ITO[1]),
    ):  # fmt: skip
        figure.add_scatter(
            x=report.shift[chosen], y=report.radius[chosen], name=f"prediction {word} ({int(chosen.sum())})", mode="markers",
            marker={"symbol": symbol, "size": 8, "color": colour, "opacity": 0.8},
            hovertemplate=word + ": moved by %{x:.4g}, radius %{y:.4g}<extra></extra>",
        )  # fmt: skip
    ends = [0.0, 1.05 * float(max(report.shift.max(), np.median(report.radius), 1e-12))]
    figure.add_scatter(
        x=ends, y=ends, name="moved as far as the radius", mode="lines", hoverinfo="skip",
        line={"color": token_maps.GREY, "dash": "dash"},
    )  # fmt: skip
    look.lay_out(figure, "‖Δ readout input‖ under the other solver", "no-flip radius")
    return figure.update_xaxes(rangemode="tozero").update_yaxes(rangemode="tozero")


def solver_plane(report: SolverPathsReport) -> go.Figure:
    """CLS in the plane of its fine path's two principal axes, under each solver; a star marks the end of each path."""
    figure = go.Figure()
    for row, name in enumerate(map(str, report.name)):
        there = ~np.isnan(report.time[row])
        looks, (x, y) = _path_style(report, row), report.plane[row][there].T
        time = report.time[row][there]
        figure.add_scatter(
            x=x, y=y, name=name, customdata=time, hovertemplate=f"{name}<br>t = %{{customdata:.4g}}<extra></extra>", **looks
        )
        figure.add_scatter(
            x=x[-1:], y=y[-1:], mode="markers", showlegend=False, hoverinfo="skip",
            marker={"symbol": "star", "size": 12, "color": looks["line"]["color"]},
        )  # fmt: skip
    first, second = (f"{100 * s:.3g} %" for s in report.share)
    return look.lay_out(figure, f"CLS, axis 1 (state, {first})", f"CLS, axis 2 (state, {second})", equal=True)


def _path_style(report: SolverPathsReport, row: int) -> dict:
    """The reference as a plain line, the solves with a sign at each saved time."""
    if row == 0:
        return {"mode": "lines", "line": {"color": token_maps.GREY, "width": 4}}
    i = row - 1
    line = {"color": look.OKABE_ITO[i % 6], "dash": look.DASHES[i % 6], "width": 2}
    return {"mode": "lines+markers", "line": line, "marker": {"symbol": look.class_symbol(i), "size": 7}}


def solver_distance(report: SolverPathsReport) -> go.Figure:
    """Distance of the state under each solver to the fine solve over t, all tokens, logarithmic; 0 at the start."""
    figure = go.Figure()
    for row, name in list(enumerate(map(str, report.name)))[1:]:
        there = ~np.isnan(report.time[row])
        values = report.distance[row][there]
        figure.add_scatter(
            x=report.time[row][there], y=np.where(values > 0, values, np.nan), name=name,
            hovertemplate=f"{name}: %{{y:.4g}} at t = %{{x:.4g}}<extra></extra>", **_path_style(report, row),
        )  # fmt: skip
    return look.lay_out(figure, look.TIME, "‖x(t) − x_ODE(t)‖ (state)", log_y=True)


def euler_errors(reports: Sequence[DiscretizationReport], image: int = 0) -> go.Figure:
    """Error of Euler's method at T against steps: measured, its estimate, three bounds; hollow where a bound is vacuous.

    An error of first order falls like the thin dotted line.
    """
    found = sorted(reports, key=lambda r: r.steps)
    steps = np.array([r.steps for r in found])
    figure = go.Figure()
    seen: list[float] = []
    for number, name in enumerate(ESTIMATES):
        values = np.array([_at_end(r, name, image) for r in found])
        if not np.isfinite(values).any():
            continue
        hollow = [name == "classical" and bool(np.atleast_1d(r.vacuous)[image]) for r in found]
        label = WORDS[name] + (" (vacuous)" if all(hollow) else "")
        seen += values[np.isfinite(values) & (values > 0)].tolist() if number < 2 else []
        figure.add_scatter(
            x=steps, y=np.where(values > 0, values, np.nan), name=label, mode="lines+markers",
            line={"color": look.OKABE_ITO[number], "dash": look.DASHES[number], "width": 3 if number == 0 else 2},
            marker={"symbol": [look.SYMBOLS[number] + ("-open" if h else "") for h in hollow], "size": 8},
            hovertemplate=f"{label}: %{{y:.3g}} with %{{x}} steps<extra></extra>",
        )  # fmt: skip
    first = _at_end(found[0], "principal", image)
    figure.add_scatter(
        x=steps, y=first * steps[0] / steps, name="first order", mode="lines", hoverinfo="skip", showlegend=False,
        line={"color": token_maps.GREY, "dash": "dot", "width": 1},
    )  # fmt: skip
    look.lay_out(figure, "steps", "‖x_h(T) − x(T)‖ (state)", log_y=True)
    figure.update_xaxes(type="log", tickvals=steps.tolist(), ticktext=[str(s) for s in steps])
    return _sight(figure, seen)


def _sight(figure: go.Figure, errors: Sequence[float]) -> go.Figure:
    """The axis from a third of the smallest error to some decades above the largest; bounds may leave it."""
    if not errors:
        return figure
    drawn = np.concatenate([np.asarray(trace.y, dtype=float) for trace in figure.data])
    top = min(DECADES_ABOVE * max(errors), 3 * float(np.nanmax(drawn[np.isfinite(drawn)], initial=max(errors))))
    return figure.update_yaxes(range=[np.log10(min(errors) / 3), np.log10(top)])


def _at_end(report: DiscretizationReport, name: str, image: int) -> float:
    """An estimate of the error at T; NaN where it was not measured."""
    values = np.asarray(getattr(report, "true_error" if name == "measured" else name), dtype=float)
    if name == "measured" and values.size == 0:
        return float("nan")
    values = values[..., -1] if name in ("measured", "principal", "stepwise") else values
    return float(np.atleast_1d(values)[image])


def error_along(report: DiscretizationReport, image: int = 0) -> go.Figure:
    """Error of Euler's method over t with the trained steps: measured, principal error, stepwise bound; 0 at the start."""
    figure = go.Figure()
    for number, name in enumerate(("measured", "principal", "stepwise")):
        values = np.asarray(report.true_error if name == "measured" else getattr(report, name))
        if not values.size:
            continue
        label = WORDS[name]
        figure.add_scatter(
            x=report.time[1:], y=np.atleast_2d(values)[image, 1:], name=label, mode="lines+markers",
            line={"color": look.OKABE_ITO[number], "dash": look.DASHES[number], "width": 3 if number == 0 else 2},
            marker={"symbol": look.SYMBOLS[number], "size": 8},
            hovertemplate=f"{label}: %{{y:.4g}} at t = %{{x:.4g}}<extra></extra>",
        )  # fmt: skip
    return look.lay_out(figure, look.TIME, "‖x_h(t) − x(t)‖ (state)", log_y=True)


def step_limits(reports: Sequence[StabilityReport], times: Sequence[float]) -> go.Figure:
    """Largest stable step of the decaying modes at each time, for each method, and the step that is taken.

    Args:
        reports: StabilityReports, in the order of `times` for each method.   times: unit t.
    """
    figure = go.Figure()
    for method in dict.fromkeys(r.method for r in reports):
        mine = [r for r in reports if r.method == method]
        limits = np.array([r.h_max_all for r in mine])
        figure.add_scatter(
            x=list(times), y=np.where(np.isfinite(limits), limits, np.nan), name=f"h_max, {method}", mode="lines+markers",
            hovertemplate=f"{method}: h_max = %{{y:.4g}} at t = %{{x:.4g}}<extra></extra>", **_style(method),
        )  # fmt: skip
    h, line = reports[0].h, {"color": token_maps.GREY, "dash": "dash"}
    figure.add_scatter(
        x=[times[0], times[-1]], y=[h, h], name=f"h = {h:.4g}, as trained", mode="lines", line=line, hoverinfo="skip"
    )
    look.lay_out(figure, look.TIME, "step size h (t)", log_y=True)
    return figure
