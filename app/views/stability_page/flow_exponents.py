"""Finite-time and QR exponents: of the chosen image, beyond T, and the largest of many images by class."""

from functools import partial

import numpy as np
import streamlit as st

from analysis import figures, lyapunov_spectrum
from analysis.lyapunov.dimension import KaplanYorke
from analysis.reports import ExponentsOverReport, LyapunovReport
from analysis.running.subject import Subject
from analysis.spectra import has_center_norms
from app import charts, computing, panels
from app.state import Visit
from app.views.patience import duration, seconds_of, wanted
from odevit.flow import find_method

OVER = (1, 4, 16)  # times T, over which QR exponents are averaged
MANY = ("none", "16", "64", "256")
PAIR_SOLVES, IMAGE_SOLVES = 60, 12  # both spectra of one image; the largest exponent of one; in solves

_MEANING = r"""Two quantities that differ at finite $T$. **Finite-time** (SVD): $\frac1T \log \sigma_i(\Phi)$,
$\Phi = \partial x(T) / \partial x(0)$ of the net as it is computed: how fast the most sensitive directions of *this* image
grow over $[0, T]$. **QR**: $V_{m+1} = \Phi_m Q_m = Q_{m+1} R_{m+1}$, $\lambda_i = \frac1T \sum_m \log |(R_m)_{ii}|$ (Benettin
et al. 1980; Shimada and Nagashima 1979), from the first unit vectors: over a finite path they depend on the path and on these
vectors, and $\sum_{i \le k} \lambda_i^{QR} \le \sum_{i \le k} \lambda_i^{SVD}$. Positive: expansion; per layer, times $h$. The
structural zeros of CenterNorm ($\Phi (a \otimes 1) = a \otimes 1$) are left out of the QR exponents only: singular values mix
with them. **Kaplan-Yorke** dimension: $j + \sum_{i \le j} \lambda_i / |\lambda_{j+1}|$ (Kaplan and Yorke 1979);
"> k" where $k$ exponents do not reach the change of sign. For an attractor it needs $T \to \infty$; here it is a finite-time
number."""
_CONVERGENCE = r"""$\frac1T \sum_{m} \log |(R_m)_{ii}|$ up to each time. Beyond the trained $T$ the same field is followed on
(it does not depend on $t$): only there do averages converge to exponents, and only if the flow stays bounded, which nothing
here proves."""
_OVER = r"""$\lambda_1 = \frac1T \log \sigma_1(\Phi)$ of every image. AUC: probability that a wrongly classified image has the
larger exponent, with a 95 % interval (DeLong et al. 1988); 0.5: exponents say nothing of errors."""


def of_image(visit: Visit) -> list[tuple[str, str, str]]:
    """Spectrum beside convergence; returns their numbers."""
    if not wanted(visit, PAIR_SOLVES, "the exponents of this image", "exps", "finite_time,lyapunov"):
        return []
    (finite,) = computing.reports(visit, "finite_time")
    (plain,) = computing.reports(visit, "lyapunov")
    assert isinstance(finite, LyapunovReport) and isinstance(plain, LyapunovReport)
    longer = _longer(visit, plain)
    left, right = st.columns(2)
    with left:
        panels.plot(
            visit, partial(charts.exponent_spectrum, finite, plain), [finite, plain], name="exponents", first=True,
            title="Leading exponents of this image", status="measured", note=_exponents_note(finite, plain), what=_MEANING,
            paper=partial(figures.lyapunov_spectrum, plain, finite), command=_analyze(visit, "finite_time,lyapunov"),
        )  # fmt: skip
    with right:
        _convergence(visit, longer)
    return _exponent_numbers(finite, plain)


def _exponents_note(finite: LyapunovReport, plain: LyapunovReport) -> str:
    missing = int((~finite.converged).sum())
    late = f", {missing} of {finite.exponents.size} not converged (lower bounds)" if missing else ""
    said = f"finite-time, T = {finite.horizon:g}, of {finite.system}"
    return panels.plain("; ".join(dict.fromkeys([said, _residual(finite.residuals) + late, *finite.notes, *plain.notes])))


def _residual(residuals: np.ndarray) -> str:
    """How exact the singular values are; the dense ones have no residual."""
    largest = float(residuals.max())
    return f"relative residual up to {largest:.0e}" if largest else "exact to rounding (LAPACK)"


def _exponent_numbers(finite: LyapunovReport, plain: LyapunovReport) -> list[tuple[str, str, str]]:
    first, along = float(finite.exponents[0, 0]), float(np.ravel(finite.along_flow)[0])
    dimension = KaplanYorke(float(np.ravel(plain.kaplan_yorke)[0]), bool(np.ravel(plain.kaplan_yorke_exact)[0]))
    flow = "" if along != along else f" Along the flow itself: {along:.3g}."
    return [
        ("λ₁, finite-time (1/t)", f"{first:.3g}", f"(1/T) log σ₁(Φ): no direction grows faster over this path.{flow}"),
        ("λ₁, QR average (1/t)", f"{plain.exponents.max():.3g}", f"Largest of {plain.exponents.shape[-1]} over this path."),
        ("Kaplan-Yorke dimension", str(dimension), f"From the QR exponents, of {plain.dimensions} dimensions; finite-time."),
    ]  # fmt: skip


def _longer(visit: Visit, plain: LyapunovReport) -> LyapunovReport:
    """QR averages over more than T where the flow can be continued and this is asked for."""
    if not _goes_on(visit):
        return plain
    over = st.segmented_control(
        "QR averages over", OVER, default=1, key="over", bind="query-params", required=True,
        format_func=lambda n: "T" if n == 1 else f"{n} T", help="Beyond the trained T the same field is followed on.",
    )  # fmt: skip
    if over is None or over == 1:
        return plain
    k = plain.exponents.shape[-1]
    part = ("QR exponents beyond T", partial(_beyond, factor=over, k=k))
    (found,) = computing.custom(visit, "lyapunov_beyond", f"1: {over}, {k}", [part])
    assert isinstance(found, LyapunovReport)
    return found


def _goes_on(visit: Visit) -> bool:
    """Whether the flow is the same map beyond T."""
    return visit.model.field.autonomous and find_method(visit.model.solver.method).kind != "adaptive"


def _convergence(visit: Visit, report: LyapunovReport) -> None:
    stopped = "" if _goes_on(visit) else "; this flow is not continued beyond T: its field or its steps change with t"
    panels.plot(
        visit, partial(charts.exponent_convergence, report), [report], name="lyapunov_convergence", first=True,
        title="Convergence of the QR averages", status="measured", what=_CONVERGENCE,
        paper=partial(figures.lyapunov_convergence, report),
        note=f"finite-time, averages up to T = {report.horizon:g}; {len(report.time)} values a line{stopped}",
    )  # fmt: skip


def _beyond(who: Subject, factor: int, k: int) -> LyapunovReport:
    model, x0 = who.model, who.trajectory(who.images).x[0]
    return lyapunov_spectrum(
        model.field, x0, model.grid, model.solver.method, k, horizon=factor * model.solver.horizon,
        project=has_center_norms(model.field, 0.0), batch_dims=1,
    )  # fmt: skip


def over_images(visit: Visit) -> None:
    """Largest exponents of many images by class, right against wrong."""
    asked = st.segmented_control(
        "Largest finite-time exponents of how many images?", MANY, default=MANY[0], key="many", bind="query-params",
        required=True, help="Spread evenly over the split, the chosen one among them.",
    )  # fmt: skip
    if asked is None or asked == MANY[0]:
        seconds = 16 * IMAGE_SOLVES * seconds_of(visit.hash, visit.model)
        panels.nothing(f"Choose how many images: about {duration(seconds)} for 16.")
        return
    count = min(int(asked), len(visit.data))
    if not wanted(visit, IMAGE_SOLVES * count, f"the exponents of {count} images", "ask_many", "exponents"):
        return
    (report,) = computing.reports(visit, "exponents", count)
    assert isinstance(report, ExponentsOverReport)
    left, right = st.columns(2)
    with left:
        _by_class(visit, report)
    with right:
        _right_wrong(visit, report)


def _by_class(visit: Visit, report: ExponentsOverReport) -> None:
    panels.plot(
        visit, partial(charts.exponents_by_class, report, visit.classes), [report], name="exponents_by_class", title="By class",
        status="measured", what=_OVER, paper=partial(figures.exponents_by_class, report, visit.classes),
        note=panels.plain("; ".join([
            f"{len(report.exponents)} images, finite-time, T = {report.horizon:g}",
            f"mean {report.mean:.3g} ± {report.std:.2g} (sd)", _residual(report.residuals), *report.notes,
        ])), command=_analyze(visit, "exponents"),
    )  # fmt: skip


def _right_wrong(visit: Visit, report: ExponentsOverReport) -> None:
    if (report.labels < 0).all():
        panels.nothing("These images have no labels, so right and wrong are not known.")
        return
    known = report.auc == report.auc
    interval = f" [{report.auc_low:.2f}, {report.auc_high:.2f}]" if report.auc_low == report.auc_low else " (no interval)"
    said = f"AUC {report.auc:.2f}{interval}" if known else "no AUC: all right, or all wrong"
    panels.plot(
        visit, partial(charts.exponents_right_wrong, report), [report], name="exponents_right_wrong",
        title="Right against wrong",
        status="measured", note=f"{said}; {int((~report.correct).sum())} of {len(report.correct)} are wrong", what=_OVER,
        paper=partial(figures.exponents_right_wrong, report), command=_analyze(visit, "exponents"),
    )  # fmt: skip


def _analyze(visit: Visit, names: str) -> str:
    return f"odevit analyze {visit.entry.argument} --reports {names} --images 4 --out runs/analysis"
