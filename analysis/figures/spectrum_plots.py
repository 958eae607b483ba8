"""Figures of the Jacobian J(t, x) = df/dx: eigenvalues in the complex plane, norms over t, the numerical range."""

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from odevit.errors import UserError

from ..reports import CertificateReport, FlowBoundReport, RangeReport, RatesReport, RegionReport, SpectrumReport
from . import style

FAR = 8.0  # times the usual modulus, from where an eigenvalue is left beyond the axes
FLATTEST = 0.4  # height over width of a picture of the plane, and the other way round
REACH = 6.0  # a stability region this many times larger than the eigenvalues is cut, so that they can be seen


@style.figure
def jacobian_eigenvalues(
    spectra: CertificateReport | SpectrumReport | Sequence[SpectrumReport],
    region: RegionReport | None = None,
    h: float | None = None,
    *,
    ax: Axes | None = None,
) -> Figure:
    """Leading eigenvalues of the Jacobian in the complex plane.

    Colour and marker tell the time t; all images are drawn. Shaded: the stability region |R(h lambda)| <= 1 of the solver at
    its step size h, inside which a mode does not grow from one step to the next; modes right of the imaginary axis do grow.
    Eigenvalues are a heuristic where J is far from normal.

    Args:
        spectra: SpectrumReports of eigenvalues, one for each time, or a CertificateReport, which holds them for all times.
        region: RegionReport of the solver.   h: its step size; that of the certificate, or 1, unless given.
        ax: axes to draw on.
    """
    times, found = _by_time(spectra)
    if h is None:
        h = float(np.diff(spectra.grid_time[:2])[0]) if isinstance(spectra, CertificateReport) else 1.0
    everything, outline = np.concatenate(found), None if region is None else _outline(region, h)
    limits = _limits(_near(everything, outline), outline)
    made, ax = _plane(ax, limits)
    style.note_gaps(made, everything, "eigenvalues")
    _say_beyond(made, everything, limits)
    if region is not None:
        _shade(ax, region, h)
    shades = matplotlib.colormaps[style.sequential](np.linspace(0.0, 0.95, len(times)))
    for i, (time, points) in enumerate(zip(times, found)):
        look = {"color": shades[i], "markeredgecolor": "black", "markeredgewidth": 0.3, "linestyle": "none"}
        ax.plot(points.real, points.imag, style.MARKERS[i % len(style.MARKERS)], label=f"$t = {time:g}$", **look)
    style.outside_legend(ax, columns=7, columnspacing=1.0, handlelength=1.0)
    return made


def _by_time(spectra) -> tuple[list[float], list[np.ndarray]]:
    """Times and the eigenvalues of all images at each of them."""
    if isinstance(spectra, CertificateReport):
        style.check_report(spectra, CertificateReport, "time", "eigenvalues")
        padded = [row.reshape(-1) for row in spectra.eigenvalues]
        return spectra.time.tolist(), [row[~np.isnan(row)] for row in padded]
    reports = sorted(style.check_reports(spectra, SpectrumReport, "residuals"), key=lambda r: r.t)
    return [r.t for r in reports], [_eigenvalues(r) for r in reports]


def _eigenvalues(report: SpectrumReport) -> np.ndarray:
    if report.eigenvalues is None:
        raise UserError("report: this SpectrumReport holds singular values, the complex plane needs eigenvalues")
    return np.asarray(report.eigenvalues, dtype=complex).reshape(-1)


def _shade(ax: Axes, region: RegionReport, h: float) -> None:
    ax.contourf(region.re / h, region.im / h, region.modulus, [-1.0, 1.0], colors=["0.92"])
    ax.contour(region.re / h, region.im / h, region.modulus, [1.0], colors=["0.45"], linewidths=0.8, linestyles="dashed")
    ax.plot([], [], color="0.45", linewidth=0.8, linestyle="dashed", label=rf"$|R| = 1$, {region.method}, $h = {h:g}$")


def _outline(region: RegionReport, h: float) -> np.ndarray:
    """Points of the grid inside the region, as lambda = z / h."""
    style.check_report(region, RegionReport, "modulus")
    if not h > 0:
        raise UserError(f"h: {h} must be a positive step size")
    inside = region.modulus <= 1
    return (region.re[None, :] + 1j * region.im[:, None])[inside] / h


def _near(points: np.ndarray, outline: np.ndarray | None) -> np.ndarray:
    """The points within FAR times the usual modulus, or the region's; those beyond would leave the others too small to see."""
    size = np.abs(points[np.isfinite(points)])
    usual = float(np.median(size)) if size.size else 0.0
    if outline is not None and outline.size:
        usual = max(usual, float(np.abs(outline).max()) / 2)
    return points[np.abs(points) <= FAR * usual] if usual else points


def _say_beyond(made: Figure, points: np.ndarray, limits: tuple[float, float, float, float]) -> None:
    """Say how many points lie beyond the axes, and how far."""
    left, right, bottom, top = limits
    beyond = points[(points.real < left) | (points.real > right) | (points.imag < bottom) | (points.imag > top)]
    if beyond.size:
        largest = np.abs(beyond).max()
        style.note(made, f"{beyond.size} of {points.size} eigenvalues beyond the axes, modulus up to {largest:.3g}")


def _limits(points: np.ndarray, outline: np.ndarray | None = None) -> tuple[float, float, float, float]:
    """(left, right, bottom, top) around all points and the origin, and the whole outline where it is not too large.

    The shorter side is at least FLATTEST of the longer one, so that a figure with one scale on both axes can be read.
    """
    points = np.append(points[np.isfinite(points)], 0j)
    size = float(np.abs(points).max()) or 1.0
    if outline is not None and outline.size and np.abs(outline).max() <= REACH * size:
        points = np.concatenate([points, outline])
    sides = np.array([np.ptp(points.real), np.ptp(points.imag)])
    sides = 1.12 * np.maximum(sides, FLATTEST * max(sides.max(), size))
    middle = [(part.max() + part.min()) / 2 for part in (points.real, points.imag)]
    return tuple(float(m + s * side / 2) for m, side in zip(middle, sides) for s in (-1, 1))  # type: ignore[return-value]


def _plane(ax: Axes | None, limits: tuple[float, float, float, float]) -> tuple[Figure, Axes]:
    """A part of the complex plane with both axes on one scale, its axes through 0, and labels."""
    left, right, bottom, top = limits
    made, ax = style.new_axes(ax, height=min(0.75, 0.14 + 0.88 * (top - bottom) / (right - left)))
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top)
    ax.set_aspect("equal", adjustable="box")
    ax.axvline(0, color="0.4", linewidth=0.6)
    ax.axhline(0, color="0.8", linewidth=0.6)
    ax.set_xlabel(r"Re $\lambda$ (1/$t$)")
    ax.set_ylabel(r"Im $\lambda$ (1/$t$)")
    return made, ax


@style.figure
def numerical_range(report: RangeReport, spectrum: SpectrumReport | None = None, *, ax: Axes | None = None) -> Figure:
    """Numerical range of the Jacobian.

    The set of all v* J v with |v| = 1 lies between the inner polygon (solid, boundary points) and the outer one (dashed,
    support lines). It holds every eigenvalue (crosses); its rightmost point is the logarithmic norm, the fastest growth at this
    moment. Eigenvalues far inside say that J is far from normal.

    Args:
        report: RangeReport.   spectrum: SpectrumReport of the same state.   ax: axes to draw on.
    """
    style.check_report(report, RangeReport, "points")
    made, ax = _plane(ax, _limits(report.outer))
    polygons = (style.note_gaps(made, report.points, "points"), style.note_gaps(made, report.outer, "corners"))
    inner, outer = (np.append(p, p[0]) for p in polygons)
    ax.fill(inner.real, inner.imag, color=style.OKABE_ITO[0], alpha=0.12, linewidth=0)
    ax.plot(inner.real, inner.imag, "-", marker=".", color=style.OKABE_ITO[0], label="inner polygon")
    ax.plot(outer.real, outer.imag, linestyle="dashed", color=style.OKABE_ITO[1], label="outer polygon")
    ax.axvline(report.support[0], color=style.OKABE_ITO[2], linestyle="dotted", label=rf"$\mu(J) = {report.support[0]:.3g}$")
    if spectrum is not None:
        style.check_same_model([report, style.check_report(spectrum, SpectrumReport, "residuals")])
        values = style.note_gaps(made, _eigenvalues(spectrum), "eigenvalues")
        ax.plot(values.real, values.imag, "x", color="black", linestyle="none", label="eigenvalues")
    style.outside_legend(ax)
    return made


@style.figure
def norms_over_time(
    rates: CertificateReport | RatesReport | Sequence[RatesReport], flow: FlowBoundReport | None = None, *,
    ax: Axes | None = None,
) -> Figure:  # fmt: skip
    """Growth and contraction of the Jacobian along the flow.

    -mu(-J) <= Re lambda <= alpha <= mu(J) <= ||J|| at every state: fastest contraction, spectral abscissa, logarithmic norm,
    spectral norm (all Ritz values, measured). Line: median over the images; band: 10 % to 90 %. Where mu(J) < 0 all
    neighbouring paths approach each other.

    Args:
        rates: CertificateReport, or RatesReports, one for each time.   flow: FlowBoundReport of the same model, for the
            contraction of a certificate.   ax: axes to draw on.
    """
    time, norm, mu, alpha, contraction = _rates(rates)
    made, ax = style.new_axes(ax, height=0.5)
    ax.axhline(0, color="0.6", linewidth=0.6)
    style.curve(ax, time, norm, r"$\|J\|$ (spectral norm)", 0)
    style.curve(ax, time, mu, r"$\mu(J)$ (logarithmic norm)", 1)
    style.curve(ax, time, alpha, r"$\alpha(J)$ (spectral abscissa)", 2)
    if flow is not None and contraction is None:
        style.check_same_model([rates, style.check_report(flow, FlowBoundReport, "t")])  # type: ignore[list-item]
        time, contraction = flow.t, -flow.contraction
    if contraction is not None:
        style.curve(ax, time, contraction, r"$-\mu(-J)$ (contraction)", 3)
    ax.set_xlabel(style.TIME)
    ax.set_ylabel("rate (1/$t$)")
    style.outside_legend(ax, columns=4)
    return made


def _rates(reports) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Times, and over (image, time) ||J||, mu(J), alpha and, where it is known, -mu(-J)."""
    if isinstance(reports, CertificateReport):
        style.check_report(reports, CertificateReport, "time", "jacobian_norm")
        return reports.time, reports.jacobian_norm.T, reports.logarithmic_norm.T, reports.abscissa.T, None
    found = sorted(style.check_reports(reports, RatesReport, "norm"), key=lambda r: r.t)
    names = ("norm", "logarithmic_norm", "abscissa", "contraction")
    curves = [np.stack([np.atleast_1d(getattr(r, name)) for r in found], -1) for name in names]
    return np.array([r.t for r in found]), curves[0], curves[1], curves[2], curves[3]
