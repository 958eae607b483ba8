"""Charts of the Jacobian J = df/dx along the flow: eigenvalues against the solver's stability region, rates, residuals.

A step of size h multiplies a mode of eigenvalue lambda by R(h lambda); it does not grow where |R(h lambda)| <= 1, so the region
is drawn scaled by 1/h (Hairer & Wanner, Solving ODEs II, ch. IV.2).
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.reports import RangeReport, RatesReport, RegionReport, SpectrumReport, StabilityReport

from . import look

REACH = 6.0  # a stability region this many times larger than the eigenvalues is cut, so that they can be seen
GREY = "#7f7f7f"  # readable on both themes
KINDS = {  # of a mode: colour and symbol
    "decays": (look.OKABE_ITO[0], "circle"),
    "grows (Re λ ≥ 0)": (look.OKABE_ITO[1], "triangle-up"),
    "decays, but a step lets it grow": (look.OKABE_ITO[3], "x"),
}
_GREYISH = "rgba(127, 127, 127, 0.2)"
RATES = {  # field of a RatesReport, in the order of its residuals: what it is called
    "norm": "‖J‖ (spectral norm)",
    "logarithmic_norm": "μ(J) (logarithmic norm)",
    "contraction": "−μ(−J) (contraction)",
    "abscissa": "α(J) (spectral abscissa)",
}


def eigenvalue_plane(
    spectra: Sequence[SpectrumReport], rates: Sequence[RatesReport], steps: Sequence[StabilityReport] = (),
    region: RegionReport | None = None, ranges: Sequence[RangeReport] = (), *, h: float = 1.0, at: float | None = None,
) -> go.Figure:  # fmt: skip
    """Eigenvalues of J in the complex plane beside the rates over t, under one time slider.

    Left: those of the time chosen, sign and colour by what becomes of the mode; all other times in grey; shaded: the stability
    region scaled by 1/h. Right: ||J||, mu(J), alpha and -mu(-J) over t.

    Args:
        spectra: one image, one report for each time.   rates: of the same times.
        steps: of the same times, which say what a step makes of each eigenvalue; none for a splitting.
        region: of the solver, or None.   h: size of its step.   ranges: numerical ranges of the same times, or none.
    """
    figure = make_subplots(1, 2, column_widths=[0.52, 0.48], horizontal_spacing=0.13)
    found = [values_of(r) for r in spectra]
    if region is not None:
        figure.add_trace(_shade(region, h), row=1, col=1)
    _add_past(figure, spectra, found)
    _add_rates(figure, rates)
    frames = [_moment(k, spectra, found, steps, ranges, rates) for k in range(len(spectra))]
    for trace in frames[-1]:
        figure.add_scatter(**trace, row=1, col=2 if trace["name"] == "t" else 1)
    look.lay_out(figure, "Re λ (1/t)", "Im λ (1/t)", height=look.HEIGHT + 40)
    _axes_of_plane(figure, found, [_first(r.abscissa) for r in rates], ranges, region, h)
    figure.update_xaxes(title_text=look.TIME, row=1, col=2)
    figure.update_yaxes(title_text="rate (1/t)", row=1, col=2)
    return look.framed(figure, [r.t for r in spectra], frames, at=at)


def values_of(report: SpectrumReport) -> np.ndarray:
    """The eigenvalues of a report that are numbers, padding left out, (k,)."""
    values = np.asarray(report.eigenvalues, dtype=complex).ravel()
    return values[np.isfinite(values)]


def _first(values) -> float:
    return float(np.ravel(values)[0])


def _residuals_of(report: SpectrumReport) -> np.ndarray:
    """Residuals in the places of `values_of`."""
    return report.residuals.ravel()[np.isfinite(np.asarray(report.eigenvalues, dtype=complex).ravel())]


def _shade(region: RegionReport, h: float) -> go.Contour:
    rows, columns = look.thin(len(region.im), 101), look.thin(len(region.re), 101)
    modulus = np.minimum(region.modulus[np.ix_(rows, columns)], 2.0).astype(np.float32)
    return go.Contour(
        x=region.re[columns] / h, y=region.im[rows] / h, z=modulus, showscale=False, hoverinfo="skip", showlegend=True,
        contours={"type": "constraint", "operation": ">=", "value": 1.0}, fillcolor=_GREYISH,  # fills where it does not hold
        line={"color": GREY, "dash": "dash", "width": 1.2}, name=f"|R(hλ)| ≤ 1, {region.method}, h = {h:.4g}",
    )  # fmt: skip


def _add_past(figure: go.Figure, spectra: Sequence[SpectrumReport], found: Sequence[np.ndarray]) -> None:
    everything = np.concatenate(found)
    times = np.concatenate([np.full(len(values), r.t) for r, values in zip(spectra, found)])
    figure.add_scatter(
        x=everything.real, y=everything.imag, customdata=times, mode="markers", name="all times", row=1, col=1,
        marker={"size": 5, "color": GREY, "opacity": 0.45},
        hovertemplate="λ = %{x:.4g} %{y:+.4g} i<extra>t = %{customdata:.4g}</extra>",
    )  # fmt: skip


def _add_rates(figure: go.Figure, rates: Sequence[RatesReport]) -> None:
    time = [r.t for r in rates]
    for i, (field, name) in enumerate(RATES.items()):
        values = [_first(getattr(r, field)) for r in rates]
        figure.add_scatter(
            x=time, y=values, name=name, mode="lines+markers", marker={"symbol": look.SYMBOLS[i], "size": 7},
            line={"color": look.OKABE_ITO[(0, 1, 2, 4)[i]], "dash": look.DASHES[i]}, row=1, col=2,
            customdata=[float(np.nan_to_num(r.residuals.reshape(-1, 4)[0, i])) for r in rates],
            hovertemplate=f"{name} = %{{y:.4g}}, residual %{{customdata:.1e}}<extra>t = %{{x:.4g}}</extra>",
        )  # fmt: skip


def _moment(k: int, spectra, found, steps, ranges, rates) -> list[dict]:
    """The moving traces at the k-th time: numerical range, the three kinds of modes, the abscissa, the line at t."""
    traces = _polygons(ranges[k]) if ranges else []
    values, kind = found[k], np.where(found[k].real < 0, 0, 1)
    if steps:
        kind[(values.real < 0) & (np.ravel(steps[k].factor) > 1 + 1e-12)] = 2
    residuals = _residuals_of(spectra[k])
    for i, (name, (colour, symbol)) in enumerate(KINDS.items()):
        mine = kind == i
        traces.append({
            "x": values[mine].real, "y": values[mine].imag, "customdata": np.nan_to_num(residuals[mine]), "mode": "markers",
            "name": name, "marker": {"size": 9, "color": colour, "symbol": symbol, "line": {"width": 0.8, "color": "white"}},
            "hovertemplate": "λ = %{x:.4g} %{y:+.4g} i, residual %{customdata:.1e}<extra>" + name + "</extra>",
        })  # fmt: skip
    alpha = _first(rates[k].abscissa)
    reach = 1.2 * float(np.abs(np.concatenate([*found, *(r.outer for r in ranges), [alpha]])).max())
    traces.append({
        "x": [alpha, alpha], "y": [-reach, reach], "mode": "lines", "name": "largest Re λ = α(J)",
        "hoverinfo": "name", "showlegend": False,
        "line": {"color": look.OKABE_ITO[4], "dash": "dashdot", "width": 1.5},
    })  # fmt: skip
    ends = [_first(getattr(r, field)) for r in rates for field in ("norm", "contraction")]
    return [*traces, {
        "x": [spectra[k].t] * 2, "y": [min(0.0, *ends), max(0.0, *ends)], "mode": "lines", "name": "t", "showlegend": False,
        "line": {"color": GREY, "width": 1.5, "dash": "dot"}, "hoverinfo": "skip",
    }]  # fmt: skip


def _polygons(report: RangeReport) -> list[dict]:
    inner, outer = (np.append(p, p[0]) for p in (report.points, report.outer))
    looks = (("numerical range, inside", inner, "solid", "toself"), ("outside (dotted)", outer, "dot", "none"))
    return [
        {
            "x": p.real, "y": p.imag, "mode": "lines", "name": name, "fill": fill, "fillcolor": "rgba(0, 158, 115, 0.12)",
            "line": {"color": look.OKABE_ITO[2], "dash": dash, "width": 1.2}, "hoverinfo": "skip",
        }
        for name, p, dash, fill in looks
    ]  # fmt: skip


def _axes_of_plane(figure: go.Figure, found, alphas, ranges, region: RegionReport | None, h: float) -> None:
    """One scale on both axes, the imaginary axis drawn, and limits around all that matters."""
    points = np.concatenate([*found, *(r.outer for r in ranges), [0j], alphas])
    size = float(np.abs(points).max()) or 1.0
    if region is not None:
        inside = (region.re[None, :] + 1j * region.im[:, None])[region.modulus <= 1] / h
        if inside.size and np.abs(inside).max() <= REACH * size:
            points = np.append(points, inside)
    for axis, part in ((figure.update_xaxes, points.real), (figure.update_yaxes, points.imag)):
        margin = 0.06 * max(float(np.ptp(points.real)), float(np.ptp(points.imag)), size)
        axis(range=[float(part.min()) - margin, float(part.max()) + margin], zeroline=False, row=1, col=1)
    figure.update_yaxes(scaleanchor="x", scaleratio=1, row=1, col=1)
    figure.add_vline(x=0, line={"color": GREY, "width": 1.6}, row=1, col=1)
    figure.add_hline(y=0, line={"color": GREY, "width": 0.8, "dash": "dot"}, row=1, col=1)
    figure.add_hline(y=0, line={"color": GREY, "width": 0.8}, row=1, col=2)


def departure(spectra: Sequence[SpectrumReport], rates: Sequence[RatesReport]) -> go.Figure:
    """How far from normal J is over t: mu(J) - alpha and ||J|| - max |lambda|, both 0 where J is normal."""
    figure = go.Figure()
    first = [{name: _first(getattr(r, name)) for name in RATES} for r in rates]
    curves = {
        "μ(J) − α(J)": [r["logarithmic_norm"] - r["abscissa"] for r in first],
        "‖J‖ − max |λ|": [r["norm"] - float(np.abs(values_of(s)).max()) for r, s in zip(first, spectra)],
    }  # fmt: skip
    for i, (name, values) in enumerate(curves.items()):
        figure.add_scatter(
            x=[r.t for r in rates], y=values, name=name, mode="lines+markers", marker={"symbol": look.SYMBOLS[i], "size": 7},
            line={"color": look.OKABE_ITO[i], "dash": look.DASHES[i]},
            hovertemplate=f"{name} = %{{y:.4g}}<extra>t = %{{x:.4g}}</extra>",
        )  # fmt: skip
    figure.update_yaxes(rangemode="tozero")
    return look.lay_out(figure, look.TIME, "distance from normal (1/t)")


def convergence(spectra: Sequence[SpectrumReport]) -> go.Figure:
    """Residual ||J v - lambda v|| of every eigenvalue by its size, and what was asked for; hollow where it was not reached."""
    figure = go.Figure()
    for i, report in enumerate(spectra):
        values, residuals = values_of(report), np.maximum(np.nan_to_num(_residuals_of(report)), 1e-17)
        wanted = 2 * report.tolerance * float(np.abs(values).max())
        symbol = look.SYMBOLS[i % len(look.SYMBOLS)]
        figure.add_scatter(
            x=np.abs(values), y=residuals, name=f"t = {report.t:.4g}", mode="markers",
            marker={
                "size": 8, "color": look.OKABE_ITO[i % 6], "line": {"width": 1, "color": look.OKABE_ITO[i % 7]},
                "symbol": [symbol if report.dense or r <= wanted else f"{symbol}-open" for r in residuals],
            },
            hovertemplate="|λ| = %{x:.4g}, residual %{y:.1e}<extra></extra>",
        )  # fmt: skip
    if not all(r.dense for r in spectra):
        sizes = np.abs(np.concatenate([values_of(r) for r in spectra]))
        figure.add_scatter(
            x=[sizes.min(), sizes.max()], y=[spectra[0].tolerance * sizes.max()] * 2, mode="lines", name="asked for",
            line={"color": GREY, "dash": "dash"}, hoverinfo="skip",
        )  # fmt: skip
    return look.lay_out(figure, "|λ| (1/t)", "residual ‖Jv − λv‖ (1/t)", log_y=True)
