"""Charts of two models on the same image: paths on common axes, eigenvalues with both stability regions, rates, probabilities.

The first model is blue, with circles and solid lines, the second orange, with squares and dashes. Where their horizons differ,
equal shares t / T of the way belong together.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from analysis.figures.choices import class_name, token_kinds
from analysis.figures.lens_plots import probabilities
from analysis.reports import LensReport, RatesReport, RegionReport, SpectrumReport, TokenPathReport

from . import look
from .motion_charts import band
from .trajectory_charts import RIM, SLIDER, label_axes

Names = tuple[str, str]
LOOKS = ((look.OKABE_ITO[0], "circle", "solid"), (look.OKABE_ITO[1], "square", "dash"))
NAMED = 10  # classes of the chart of probabilities
REACH = 12.0  # a region this many times larger than the eigenvalues is cut, so that they can be seen
REGION = 121  # points of each axis of a stability region
PATCHES = 32  # paths of patches of each model
SHARE = "t / T (share of the way)"
RATES = {"norm": "‖J‖", "logarithmic_norm": "μ(J)"}


def share_of(time: Sequence[float] | np.ndarray) -> np.ndarray:
    """Times as shares of the way from the first to the last."""
    time = np.asarray(time, dtype=float)
    return (time - time[0]) / (np.ptp(time) or 1.0)


def paired_paths(first: TokenPathReport, second: TokenPathReport, names: Names, *, at: float | None = None) -> go.Figure:
    """Paths of two models on common axes; the slider moves both, at equal shares of their ways.

    Bold: CLS of the chosen image; thin: CLS of the others; faint: patches of the chosen image, where the reports have them.
    Rings are t = 0.

    Args:
        first, second: from `analysis.token_paths.paired_paths`, the same images.   at: time of the first that is shown first.
    """
    figure, moving = go.Figure(), []
    for report, name, style in zip((first, second), names, LOOKS):
        _paths_of(figure, report, name, style)
        moving.append(_at_shares(report.time, report.coordinates[:, :, 0, :2], share_of(first.time)))
    for points, name, (colour, symbol, _) in zip(moving, names, LOOKS):
        sizes = [15, *[9] * (points.shape[1] - 1)]
        marker = {"symbol": symbol, "size": sizes, "color": colour, "line": {"color": RIM, "width": 1}}
        figure.add_scatter(mode="markers", marker=marker, name=f"{name} at t", showlegend=False, hoverinfo="name")
    label_axes(figure, first)
    frames = [[{"x": p[k, :, 0], "y": p[k, :, 1]} for p in moving] for k in range(len(first.time))]
    return look.framed(figure, first.time.tolist(), frames, at=at)


def _at_shares(time: np.ndarray, states: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """States (K, B, k) at shares of the way, on the straight lines between the saved ones."""
    flat = states.reshape(len(states), -1)
    found = np.stack([np.interp(shares, share_of(time), column) for column in flat.T], -1)
    return found.reshape(len(shares), *states.shape[1:])


def _paths_of(figure: go.Figure, report: TokenPathReport, name: str, style: tuple[str, str, str]) -> None:
    colour, symbol, dash = style
    images, kinds = report.norm.shape[1], token_kinds(report)
    patches = np.arange(report.norm.shape[2])[kinds.get("patches", slice(0))]
    patches = patches[look.thin(len(patches), PATCHES)] if len(patches) else patches
    others = look.thin(images, min(images, 20_000 // len(report.time)))[1:]
    groups: tuple[Any, ...] = (
        (report.coordinates[:, 0, patches], 0.8, 0.35, "patches of the chosen image"),
        (report.coordinates[:, others, 0], 1.2, 0.7, "CLS of other images"),
        (report.coordinates[:, :1, 0], 4.0, 1.0, "CLS of the chosen image"),
    )
    for states, width, opacity, what in groups:
        if states.shape[1]:
            x, y, time = _strung(report.time, states)
            figure.add_scatter(
                x=x, y=y, customdata=time, mode="lines", name=name, legendgroup=name, showlegend=width == 4.0, opacity=opacity,
                line={"color": colour, "width": width, "dash": dash},
                hovertemplate=f"{name}, {what}<br>t = %{{customdata:.3g}} layers<extra></extra>",
            )  # fmt: skip
    start = report.coordinates[0, :, 0, :2]
    ring = {"symbol": f"{symbol}-open", "size": 10, "color": colour, "line": {"width": 2}}
    figure.add_scatter(
        x=start[:, 0], y=start[:, 1], mode="markers", marker=ring, legendgroup=name, showlegend=False, hoverinfo="skip"
    )


def _strung(time: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and time of paths (K, n, k), one after another with gaps."""
    gap = np.full((1, *states.shape[1:]), np.nan)
    x, y = np.concatenate([states, gap]).swapaxes(0, 1).reshape(-1, states.shape[-1])[:, :2].T.astype(np.float32)
    return x, y, np.tile(np.append(time, np.nan), states.shape[1]).astype(np.float32)


def paired_spectra(
    spectra: tuple[Sequence[SpectrumReport], Sequence[SpectrumReport]], regions: Sequence[RegionReport | None],
    steps: tuple[float, float], names: Names, *, at: float | None = None,
) -> go.Figure:  # fmt: skip
    """Eigenvalues of both Jacobians in one complex plane, each solver's stability region as an outline scaled by its 1/h.

    Faint: all times. Filled: the time of the slider (of the first model), and the nearest share of the way of the second.

    Args:
        spectra: of one image, for each model one report a time.   regions: of the solvers, None for a splitting.   steps: h.
    """
    figure, found = go.Figure(), [[_eigenvalues(r) for r in group] for group in spectra]
    for region, h, name, (colour, _, dash) in zip(regions, steps, names, LOOKS):
        if region is not None:
            figure.add_trace(_outline(region, h, name, colour, dash))
    for group, values, name, (colour, symbol, _) in zip(spectra, found, names, LOOKS):
        everything = np.concatenate(values)
        times = np.concatenate([np.full(len(v), r.t) for r, v in zip(group, values)])
        figure.add_scatter(
            x=everything.real, y=everything.imag, customdata=times, mode="markers", showlegend=False, name=name,
            marker={"color": colour, "symbol": f"{symbol}-open", "size": 5, "opacity": 0.5},
            hovertemplate=f"{name}<br>λ = %{{x:.4g}} %{{y:+.4g}} i (1/t)<br>t = %{{customdata:.3g}} layers<extra></extra>",
        )  # fmt: skip
    for name, (colour, symbol, _) in zip(names, LOOKS):
        marker = {"color": colour, "symbol": symbol, "size": 9, "line": {"color": RIM, "width": 0.8}}
        figure.add_scatter(mode="markers", marker=marker, name=f"{name}, this t", hoverinfo="skip")
    look.lay_out(figure, "Re λ (1/t)", "Im λ (1/t)", equal=True)
    figure.add_vline(x=0, line={"color": RIM, "width": 1})
    figure.update_layout(_window(np.concatenate([v for values in found for v in values]), regions, steps))
    moments = [r.t for r in spectra[0]]
    nearest = [np.abs(share_of([r.t for r in group])[:, None] - share_of(moments)).argmin(0) for group in spectra]
    frames = [[{"x": v[n[k]].real, "y": v[n[k]].imag} for v, n in zip(found, nearest)] for k in range(len(moments))]
    return look.framed(figure, moments, frames, at=at)


def _eigenvalues(report: SpectrumReport) -> np.ndarray:
    values = np.asarray(report.eigenvalues, dtype=complex).ravel()
    return values[np.isfinite(values)]


def _window(values: np.ndarray, regions: Sequence[RegionReport | None], steps: Sequence[float]) -> dict:
    """Ranges of both axes around 0, all eigenvalues and the regions that are at most REACH times as large."""
    points, size = np.append(values, 0j), float(np.abs(values).max(initial=0.0)) or 1.0
    for region, h in zip(regions, steps):
        if region is not None:
            inside = (region.re[None, :] + 1j * region.im[:, None])[region.modulus <= 1] / h
            if inside.size and np.abs(inside).max() <= REACH * size:
                points = np.concatenate([points, inside])
    sides = {"xaxis": points.real, "yaxis": points.imag}
    pads = {name: 0.08 * max(float(np.ptp(part)), size / 2) for name, part in sides.items()}
    return {f"{name}_range": [float(p.min()) - pads[name], float(p.max()) + pads[name]] for name, p in sides.items()}


def _outline(region: RegionReport, h: float, name: str, colour: str, dash: str) -> go.Contour:
    rows, columns = look.thin(len(region.im), REGION), look.thin(len(region.re), REGION)
    modulus = np.minimum(region.modulus[np.ix_(rows, columns)], 2.0).astype(np.float32)
    return go.Contour(
        x=region.re[columns] / h, y=region.im[rows] / h, z=modulus, showscale=False, hoverinfo="skip", showlegend=True,
        contours={"start": 1.0, "end": 1.0, "size": 1.0, "coloring": "lines"}, colorscale=[[0, colour], [1, colour]],
        line={"dash": dash, "width": 1.5}, name=f"{name}: |R(hλ)| = 1",
    )  # fmt: skip


def paired_rates(rates: tuple[Sequence[RatesReport], Sequence[RatesReport]], names: Names) -> go.Figure:
    """||J|| and mu(J) of both models over the share of the way; what is above 0 may drive neighbours apart."""
    figure = go.Figure()
    for group, name, (colour, symbol, dash) in zip(rates, names, LOOKS):
        times = [r.t for r in group]
        for i, (field, what) in enumerate(RATES.items()):
            residuals = [float(np.nan_to_num(r.residuals.reshape(-1, 4)[0, i])) for r in group]
            figure.add_scatter(
                x=share_of(times), y=[float(np.ravel(getattr(r, field))[0]) for r in group], mode="lines+markers",
                name=f"{what}, {name}", customdata=np.stack([times, residuals], -1),
                line={"color": colour, "dash": dash, "width": 2.4 - 0.8 * i},
                marker={"symbol": symbol + "-open" * i, "size": 8},
                hovertemplate=f"{name}<br>{what} = %{{y:.4g}} 1/t, residual %{{customdata[1]:.1e}}"
                "<br>t = %{customdata[0]:.3g} layers<extra></extra>",
            )  # fmt: skip
    figure.add_hline(y=0, line={"color": RIM, "width": 1})
    return look.lay_out(figure, SHARE, "rate (1/t)", height=look.HEIGHT + SLIDER)


def paired_chances(
    lenses: tuple[LensReport, LensReport], names: Names, classes: Sequence[str] = (), label: int | None = None
) -> go.Figure:
    """Class probabilities of both models at T for the chosen image; framed bars are predictions, hatched ones wrong."""
    chances = [probabilities(lens.logits[-1, 0]) for lens in lenses]
    best = np.sort(np.argsort(-np.maximum(*chances), kind="stable")[:NAMED])
    ticks = [f"<b>{class_name(c, classes)} ✓</b>" if c == label else class_name(c, classes) for c in best]
    figure = go.Figure()
    for chance, name, (colour, _, _) in zip(chances, names, LOOKS):
        said = int(chance.argmax())
        wrong = label is not None and said != label
        marker = {
            "color": colour, "opacity": [1.0 if c == said else 0.55 for c in best],
            "line": {"color": RIM, "width": [3 if c == said else 0 for c in best]},
            "pattern": {"shape": ["/" if wrong and c == said else "" for c in best]},
        }  # fmt: skip
        text = [class_name(c, classes) + (", predicted" if c == said else "") for c in best]
        figure.add_bar(
            x=list(range(len(best))), y=chance[best], name=f"{name}: {class_name(said, classes)}{' (wrong)' if wrong else ''}",
            marker=marker, text=text, textposition="none", hovertemplate=f"{name}<br>%{{text}}: %{{y:.1%}}<extra></extra>",
        )  # fmt: skip
    title = "class" + (" (✓ label)" if label is not None else "")
    look.lay_out(figure, title, "probability at T", height=look.HEIGHT + SLIDER)
    figure.update_xaxes(tickvals=list(range(len(best))), ticktext=ticks)
    return figure.update_yaxes(range=[0, 1], tickformat=".0%")


def paired_decisions(lenses: tuple[LensReport, LensReport], names: Names, classes: Sequence[str] = ()) -> go.Figure:
    """Probability of each model's own final class over the share of the way; vertical lines: the decision times."""
    figure = go.Figure()
    for lens, name, (colour, symbol, dash) in zip(lenses, names, LOOKS):
        said, share = int(lens.prediction[-1, 0]), share_of(lens.time)
        decided = float(np.interp(lens.decision_time[0], np.sort(lens.time), np.sort(share)))
        what = class_name(said, classes)
        figure.add_scatter(
            x=share, y=probabilities(lens.logits[:, 0])[:, said], customdata=lens.time, mode="lines+markers",
            name=f"{name}: {what}", line={"color": colour, "dash": dash, "width": 2.5}, marker={"symbol": symbol, "size": 8},
            hovertemplate=f"{name}<br>p({what}) = %{{y:.1%}}<br>t = %{{customdata:.3g}} layers<extra></extra>",
        )  # fmt: skip
        figure.add_vline(x=decided, line={"color": colour, "dash": "dot", "width": 1.5})
    look.lay_out(figure, SHARE, "probability of the final class")
    return figure.update_yaxes(range=[0, 1.02], tickformat=".0%")


def paired_speeds(paths: tuple[TokenPathReport, TokenPathReport], names: Names) -> go.Figure:
    """Speed of CLS of both models over the share of the way, the median over images and 10 % to 90 %."""
    figure = go.Figure()
    for report, name, (colour, _, dash) in zip(paths, names, LOOKS):
        for trace in band(share_of(report.time), report.speed[:, :, 0], name, colour, dash):
            figure.add_trace(trace)
    figure.update_traces(hovertemplate="%{fullData.name}<br>t / T = %{x:.3g}<br>median %{y:.4g} state/t<extra></extra>")
    look.lay_out(figure, SHARE, "speed of CLS (state/t)")
    return figure.update_yaxes(rangemode="tozero")
