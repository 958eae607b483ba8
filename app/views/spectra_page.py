"""Spectra: eigenvalues of the Jacobian against the solver's stability region, rates over t, which patch moves which."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st

from analysis import figures
from analysis.discretization import step_stability
from analysis.reports import RangeReport, RegionReport, StabilityReport
from analysis.running.jobs import ANGLES, MODES, RANGE_TOLERANCE
from analysis.running.subject import Subject
from analysis.spectra import numerical_range
from app import charts, computing, panels
from app.state import Visit
from app.views import shared_reports
from app.views.patience import LIMIT, duration, seconds_of, wanted
from odevit.flow import find_method

SPECTRA_SOLVES, RANGE_SOLVES, INFLUENCE_SOLVES = 200, 340, 200  # cost of each at all times, in solves of one image
STEPS = {"h/4": 0.25, "h/2": 0.5, "h": 1.0, "2h": 2.0}  # times the trained step
WAYS = ("of the others on it", "of it on the others")
_PLANE = r"""$J = \partial f / \partial x$ at the states of this image's trajectory. A mode $J v = \lambda v$ grows at the
rate $\mathrm{Re}\,\lambda$ in the ODE, and by the factor $R(h\lambda)$ in one step of the solver; shaded is where
$|R(h\lambda)| \le 1$ (Hairer and Wanner, *Solving ODEs II*, IV.2). Shown are the eigenvalues of largest modulus; the
dash-dotted line is the largest real part, from a search of its own. CenterNorm forces one eigenvalue a token to 0: these
are no dynamics and are left out. On the right, at every state and in this order,
$$-\mu(-J) \le \alpha = \max \mathrm{Re}\,\lambda \le \mu(J) \le \|J\|, \qquad \mu(J) = \lambda_{\max}((J + J^\top)/2),$$
and the distance of neighbouring trajectories changes at a rate between $-\mu(-J)$ and $\mu(J)$ (Dahlquist 1958,
Lozinskii 1958): where $\mu(J) < 0$ all of them approach. The numerical range $\{v^* J v : \|v\| = 1\}$ (Johnson 1978)
lies between its two polygons, holds every eigenvalue, and reaches $\mu(J)$ on the right."""
_NORMAL = r"""$J$ is normal when $J J^\top = J^\top J$; then $\mu(J) = \alpha(J)$ and $\|J\| = \max |\lambda|$. Where these gaps
are large, perturbations can grow at first although every eigenvalue decays, and eigenvalues are a heuristic (Trefethen
and Embree 2005, *Spectra and Pseudospectra*). The paper version shows the rates themselves."""
_RESIDUAL = r"""Krylov-Schur iteration (Stewart 2001) gives Ritz pairs; $\|J v - \lambda v\|$ with $\|v\| = 1$ is measured
with a product of its own. Below 512 dimensions LAPACK computes all eigenvalues. For a matrix far from normal a small
residual does not bound the distance to an eigenvalue. Hollow: the tolerance was not reached."""
_INFLUENCE = r"""$J_{ij} = \partial f_i / \partial x_j$ is the $D \times D$ block through which token $j$ moves token $i$ at
this moment; colour is its Frobenius norm, in closed form from the attention weights and the MLP. All maps share one scale.
The token's own block also holds its MLP and is told in the title. Influence along the whole flow, and on the class, is on
the page Interventions."""


def show(visit: Visit) -> None:
    """The numbers, eigenvalues beside rates under one slider, how far from normal and how exact, influence."""
    panels.head("Spectra", "Which directions grow and which decay, does the solver keep that, and which patch moves which?")
    numbers = st.container()
    with panels.section():
        if wanted(visit, SPECTRA_SOLVES, "the eigenvalues and rates", "ask_spectra", "eigenvalues,singular_values"):
            spectra = computing.reports(visit, "eigenvalues")
            rates = shared_reports.rates(visit, [r.t for r in spectra])
            with numbers:
                _numbers(spectra, rates)
            _plane(visit, spectra, rates)
            left, right = st.columns(2)
            with left:
                _normality(visit, spectra, rates)
            with right:
                _convergence(visit, spectra)
    with panels.section("Which token moves which"):
        reason = computing.why_not(visit, "influence")
        if reason:
            panels.nothing(f"No map here: {reason}.")
        elif wanted(visit, INFLUENCE_SOLVES, "the influence between all tokens", "ask_influence", "influence"):
            _influence(visit)


def _ranges(visit: Visit, times: Sequence[float]) -> tuple[RangeReport, ...]:
    """The numerical ranges at these times, one part for each."""
    grid = np.asarray(visit.model.grid.times)
    parts = [(f"range at t = {t:g}", partial(_range_at, t=t, k=int(np.abs(grid - t).argmin()))) for t in times]
    return computing.custom(visit, "ranges", f"1: {ANGLES}, {RANGE_TOLERANCE}, {list(times)}", parts)


def _range_at(who: Subject, *, t: float, k: int) -> RangeReport:
    x = who.trajectory(who.images).x[k, 0]
    return numerical_range(who.model.field, x, t, ANGLES, tolerance=RANGE_TOLERANCE, seed=who.seed)


def _numbers(spectra, rates) -> None:
    """The largest of each rate with its time, and how many eigenvalues converged."""

    def top(field: str, meaning: str) -> tuple[str, str]:
        values = [float(np.ravel(getattr(r, field))[0]) for r in rates]
        return f"{max(values):.3g}", f"{meaning}, at t = {rates[int(np.argmax(values))].t:.3g}. {side}"

    found, asked, worst = _converged(spectra)
    side = "Exact, by LAPACK." if rates[0].dense else f"Ritz value, residual up to {_residual(rates):.0e}."
    panels.numbers([
        ("Largest Re λ (1/t)", *top("abscissa", "Spectral abscissa α: late growth of the linear system")),
        ("Largest μ(J) (1/t)", *top("logarithmic_norm", "Logarithmic norm: fastest growth of a distance at a moment")),
        ("Largest ‖J‖ (1/t)", *top("norm", "Spectral norm, found from below")),
        ("Converged", f"{found} of {asked}", f"Eigenvalues; largest residual {worst:.0e}; {_zeros(spectra)}."),
    ])  # fmt: skip


def _converged(spectra) -> tuple[int, int, float]:
    """How many converged, of how many, and the largest residual."""
    asked = sum(min(MODES, r.n - r.structural_zeros) for r in spectra)
    return sum(int(np.min(r.converged)) for r in spectra), asked, _residual(spectra)


def _residual(reports) -> float:
    return max(float(np.nan_to_num(r.residuals).max()) for r in reports)


def _zeros(spectra) -> str:
    count = spectra[0].structural_zeros
    return f"{count} structural zeros (one a token) left out" if count else "no structural zeros here"


def _plane(visit: Visit, spectra, rates) -> None:
    """Eigenvalues with the region of the chosen step, the numerical range where asked for, rates."""
    left, right = st.columns([2, 3], vertical_alignment="bottom")
    step = left.segmented_control(
        "Step of the stability region", STEPS, default="h", key="hstep", bind="query-params", required=True,
        help="h is the trained step: can the net take fewer or larger ones?",
    )  # fmt: skip
    seconds = RANGE_SOLVES * seconds_of(visit.hash, visit.model)
    ranged = right.toggle(
        f"Numerical range (about {duration(seconds)})", key="range", bind="query-params", disabled=seconds > LIMIT,
        help="All values v* J v of unit vectors: how far growth at a moment goes beyond the eigenvalues.",
    )  # fmt: skip
    ranges = _ranges(visit, [r.t for r in spectra]) if ranged and seconds <= LIMIT else ()
    h = visit.model.grid.h * STEPS[step or "h"]
    reason = computing.why_not(visit, "stability_region")
    region = None if reason else _region(visit)
    steps = () if reason else _steps(visit, spectra, h)
    panels.plot(
        visit, partial(charts.eigenvalue_plane, spectra, rates, steps, region, ranges, h=h, at=visit.t),
        [*spectra, *rates, *steps, *ranges], name="eigenvalues", first=True,
        title="Eigenvalues of the Jacobian, and its rates over t",
        status="measured", what=_PLANE, note=_plane_note(visit, spectra, steps, ranges, reason),
        paper=partial(figures.jacobian_eigenvalues, spectra, region, h),
    )  # fmt: skip


def _region(visit: Visit) -> RegionReport:
    (region,) = computing.reports(visit, "stability_region")
    assert isinstance(region, RegionReport)
    return region


def _steps(visit: Visit, spectra, h: float) -> tuple[StabilityReport, ...]:
    return tuple(step_stability(charts.values_of(r), visit.model.solver.method, h) for r in spectra)


def _plane_note(visit: Visit, spectra, steps, ranges, reason: str) -> str:
    """Sides, residuals, what a step does to decaying modes, and what is not drawn."""
    n, k = spectra[0].n, len(charts.values_of(spectra[0]))
    said = [f"this image, {k} of {n} eigenvalues a time, {_zeros(spectra)}"]
    if steps:
        decaying = sum(int((r.eigenvalues.real < 0).sum()) for r in steps)
        grown = sum(int(((r.eigenvalues.real < 0) & (r.factor > 1 + 1e-12)).sum()) for r in steps)
        said.append(f"{grown} of {decaying} decaying modes grow in a step of h = {steps[0].h:.4g}; all decay up to h = "
                    f"{min(r.h_max_all for r in steps):.3g}")  # fmt: skip
    if reason:
        said.append(f"no region: {reason}")
    elif find_method(visit.model.solver.method).kind == "adaptive":
        said.append(f"{visit.model.solver.method} chooses its own steps, h is T over the saved ones")
    if ranges:
        said.append(f"numerical range: residual up to {max(r.residual for r in ranges):.0e}")
    return "; ".join(said)


def _normality(visit: Visit, spectra, rates) -> None:
    panels.plot(
        visit, partial(charts.departure, spectra, rates), [*rates, *spectra], name="normality", title="How far from normal",
        status="measured", what=_NORMAL, paper=partial(figures.norms_over_time, rates),
        note="differences of values found by iteration, no bounds" if not rates[0].dense else "exact to rounding",
    )  # fmt: skip


def _convergence(visit: Visit, spectra) -> None:
    late = "; ".join(f"t = {r.t:g}: {r.remark}" for r in spectra if r.remark)
    found, asked, _ = _converged(spectra)
    panels.plot(
        visit, partial(charts.convergence, spectra), spectra, name="residuals", title="How exact the eigenvalues are",
        status="measured",
        what=_RESIDUAL, note=late or f"{found} of {asked} within the tolerance {spectra[0].tolerance:g} of the largest",
    )  # fmt: skip


def _influence(visit: Visit) -> None:
    """The token on the image, and its influence at every time."""
    reports, layout = computing.reports(visit, "influence"), visit.model.layout
    names = charts.token_names(layout)
    left, right = st.columns([1, 3])
    with left:
        way, token = _choice(names)
        figure = charts.token_chooser(visit.image, layout, token)
        st.plotly_chart(figure, key="token_image", on_select=_click, selection_mode="points", config=panels.CONFIG)
        st.caption("Click a patch, or choose CLS or a register above.")
    with right:
        panels.plot(
            visit, partial(charts.influence_maps, reports, layout, visit.image, token, onto=way == WAYS[0]), reports,
            name="influence", title=f"Influence {way}: {names[token]}", status="measured", what=_INFLUENCE,
            note="this image, each time by itself; closed form, exact to rounding; its own block is left out of the colours, "
            "which reach to the largest patch",
            paper=partial(figures.block_influence, reports),
        )  # fmt: skip


def _choice(names: list[str]) -> tuple[str, int]:
    """Direction, and index of the token."""
    if st.session_state.get("token", names[0]) not in names:  # of a model with more tokens
        del st.session_state["token"]
    token = st.selectbox("Token", names, key="token", bind="query-params")
    way = st.radio("Influence", WAYS, key="moves", bind="query-params")
    return way or WAYS[0], names.index(token or names[0])


def _click() -> None:
    """Take the patch that was clicked on the image."""
    points = st.session_state["token_image"].selection.points
    if points:
        st.session_state["token"] = f"patch {int(points[0]['y'])},{int(points[0]['x'])}"
