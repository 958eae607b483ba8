"""Errors of Euler's method with their bounds, the observed order, and the largest stable steps."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st

from analysis import figures, step_stability
from analysis.reports import DiscretizationReport, OrderReport, StabilityReport
from app import charts, computing, panels
from app.state import Visit
from app.views.patience import wanted

ERROR_SOLVES, EIGEN_SOLVES = 300, 60  # of all Euler errors; of the eigenvalues at all times; in solves of one image

_ERROR = r"""With $x'' = \partial_t f + J f$, $M = \max \|x''\|$, $L = \max \|J\|$, $\gamma_h = (\max \|I + hJ\| - 1)/h$:
classical $hM(e^{LT} - 1)/(2L)$; with $\gamma_h$ for $L$; stepwise $E_{k+1} = \|I + hJ_k\| E_k + h^2 M_k / 2$; and the principal
error $h\,e(T)$, $e' = Je - x''/2$, an estimate with a direction (Hairer, Norsett and Wanner, *Solving ODEs I*, II.3 and II.8).
The bounds take their constants on the trajectory, not on a tube around it: they hold to first order in $h$. Vacuous: $LT > 50$.
Observed order: $\log_2(\|x_h - x_{h/2}\| / \|x_{h/2} - x_{h/4}\|)$; far from the method's, $h$ is too large for the ODE to
speak about the net."""
_LIMITS = r"""$h_{\max}$: the largest step with $|R(h\lambda)| \le 1$ for every leading eigenvalue with
$\mathrm{Re}\,\lambda < 0$; for Euler $-2\,\mathrm{Re}\,\lambda / |\lambda|^2$ (Hairer and Wanner, *Solving ODEs II*, IV.2).
Beyond it a mode that decays in the ODE grows in the solver. Eigenvalues are a heuristic where $J$ is far from normal (page
Spectra). A gap: no leading mode decays."""


def errors(visit: Visit) -> list[tuple[str, str, str]]:
    """Errors over the steps and over t; returns the observed order."""
    said = _order(visit)
    reason = computing.why_not(visit, "euler_error")
    if reason:
        panels.nothing(f"No error here: it {reason}.")
        return said
    if not wanted(visit, ERROR_SOLVES, "the errors and their bounds", "ask_errors", "euler_error,observed_order"):
        return said
    names = [n for n in ("euler_error", "euler_error_x2", "euler_error_x4") if not computing.why_not(visit, n)]
    reports = [r for n in names for r in computing.reports(visit, n) if isinstance(r, DiscretizationReport)]
    order = None if computing.why_not(visit, "observed_order") else computing.reports(visit, "observed_order")[0]
    assert order is None or isinstance(order, OrderReport)
    left, right = st.columns(2)
    with left:
        panels.plot(
            visit, partial(charts.euler_errors, reports), [*reports, *([order] if order else [])], name="euler_errors",
            title="Error at T over the steps", status="vacuous" if np.all(reports[0].vacuous) else "measured",
            note=panels.plain(_error_note(reports, order)), what=_ERROR, paper=partial(figures.euler_error, reports, order),
            command=f"odevit analyze {visit.entry.argument} --reports {','.join(names)},observed_order --images 1",
        )  # fmt: skip
    with right:
        panels.plot(
            visit, partial(charts.error_along, reports[0]), reports[:1], name="error_along",
            title="Error along t, trained steps",
            status="measured", note=panels.plain("; ".join(reports[0].notes)), what=_ERROR,
            paper=partial(figures.error_along, reports[0]),
        )  # fmt: skip
    return said


def _order(visit: Visit) -> list[tuple[str, str, str]]:
    if computing.why_not(visit, "observed_order") or not wanted(visit, 7, "the observed order", "ask_order", "observed_order"):
        return []
    (report,) = computing.reports(visit, "observed_order")
    assert isinstance(report, OrderReport)
    seen = float(np.ravel(report.observed)[0])
    text = "no error" if np.isnan(seen) else f"{seen:.2f} of {report.expected}"
    return [("Observed order", text, panels.plain(report.verdict) + ".")]


def _error_note(reports: Sequence[DiscretizationReport], order: OrderReport | None) -> str:
    first = reports[0]
    measured = float(np.ravel(first.true_error[..., -1])[0])
    estimate, bound = (float(np.ravel(v[..., -1])[0]) for v in (first.principal, first.stepwise))
    seen = "" if order is None else f"observed order {float(np.ravel(order.observed)[0]):.2f}; "
    return (
        f"{seen}with {first.steps} steps: measured {measured:.3g}, principal {estimate:.3g}, stepwise bound {bound:.3g}; "
        f"norms with residuals up to {max(r.residual for r in reports):.0e}; first order in h"
    )


def limits(visit: Visit) -> list[tuple[str, str, str]]:
    """Largest stable step at each time, of the trained and of two other methods; returns the smallest of the trained."""
    reason = computing.why_not(visit, "stability_region")
    if reason:
        panels.nothing(f"No largest step here: {reason}.")
        return []
    if not wanted(visit, EIGEN_SOLVES, "the eigenvalues that limit the step", "ask_limits", "eigenvalues"):
        return []
    spectra = computing.reports(visit, "eigenvalues")
    names = dict.fromkeys((visit.model.solver.method, "euler", "rk4"))
    h = abs(visit.model.grid.h)
    reports = {m: [step_stability(charts.values_of(s), m, h) for s in spectra] for m in names}
    flat = [r for rows in reports.values() for r in rows]
    smallest = min(r.h_max_all for r in reports[visit.model.solver.method])
    times = [s.t for s in spectra]
    panels.plot(
        visit, partial(charts.step_limits, flat, times), flat, name="step_limits", title="Largest stable step over t",
        paper=partial(figures.step_limits, flat, times),
        status="measured", what=_LIMITS, note=_limits_note(reports[visit.model.solver.method], spectra),
    )  # fmt: skip
    text = "no limit" if np.isinf(smallest) else f"{smallest:.3g}, h = {h:.3g}"
    return [("h_max (t)", text, f"Of {visit.model.solver.method}: the largest step in which all leading decaying modes decay.")]


def _limits_note(reports: Sequence[StabilityReport], spectra) -> str:
    decaying = sum(int((r.eigenvalues.real < 0).sum()) for r in reports)
    residual = max(float(np.nan_to_num(s.residuals).max()) for s in spectra)
    return f"of {decaying} decaying among the leading eigenvalues at {len(reports)} times; residual up to {residual:.0e}"
