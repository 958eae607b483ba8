"""Lipschitz: bounds of ||J|| from below and above over t, part by part, which is sharpest, and what the flow can stretch."""

from functools import partial

import numpy as np
import streamlit as st

from analysis import figures
from analysis.reports import FlowBoundReport, LyapunovReport
from app import charts, computing, panels
from app.state import Visit
from app.views.patience import LIMIT, duration, seconds_of, wanted

BOUNDS_SOLVES, FLOW_SOLVES, SIGMA_SOLVES = 300, 65, 60  # cost of each, in solves of one image
_OVER_TIME = r"""$L = \|J\|_2$, $J = \partial f / \partial x$, is what a perturbation can gain at a moment. Three sides:
$$\mathrm{lower} = \|J v\| / \|v\| \;\le\; \|J\| \;\le\; \mathrm{local} \;\le\; \mathrm{upper}.$$
**Lower** is found by power iteration at this state, **local** is proven at this state from its attention map and
pre-activations, **upper** is proven on the whole ball $\max_i \|x_i\| \le R$ with $R$ the largest token of the state.
The ascent is the largest stretch that a gradient search found in that ball: a measured lower bound of what *upper*
bounds, so it may exceed *local*. Dot-product attention has no global Lipschitz constant (Kim et al. 2020,
arXiv 2006.04710); the ½ of softmax is a constant of softmax, not of $f$."""
_FLOW = r"""$$e^{-\int_0^t \mu(-J)\,ds} \;\le\; \sigma_n(\Phi_t) \;\le\; \sigma_1(\Phi_t) \;\le\; e^{\int_0^t \mu(J)\,ds}
\;\le\; e^{L t}$$
for the derivative $\Phi_t = \partial x(t) / \partial x(0)$ of the exact flow along this trajectory, the integral by the
trapezoid rule over the saved times (Dahlquist 1958, Söderlind 2006). It is about tiny perturbations of this one image;
the measured $\sigma_1$ is that of the solver's own steps at T, finite-time."""
_BRANCH = {
    "F": r"""The MLP acts on each token alone, so $\|J_F\| = \max_i \|J_{ii}\|$. *Product*: $1.1289\,\|W_2\|\|W_1 C\|$ with the
constant of GELU (Szegedy et al. 2014, arXiv 1312.6199). *Centred*: $g' = \frac12 + 0.6289\,e$, $|e| \le 1$ gives
$\frac12\|W_2 W_1 C\| + 0.6289\,\|W_2\|\|W_1 C\|$, never worse. *Exact per token*: the singular values of every $J_{ii}$.
Solid: at the state; dashed: everywhere; thick: the sharpest of its side.""",
    "G": r"""One head is $P \otimes W_v$, plus what moves the logits, through the covariance of values and keys under each
row of the attention $P$. *Block norm* bounds the three parts by themselves; *attention map* in the form of Yudin et al. 2025
(arXiv 2507.07814) through the softmax Jacobian of each row; *ball* holds for all states with $\max_i \|x_i\| \le R$ and
grows like $\sqrt N R^2$; Castin et al. 2023 (arXiv 2312.14820). Solid: at the state; dashed: on the ball or everywhere;
thick: the sharpest of its side.""",
}
_NAMES = r"""Every bound that holds for this model, ours beside published ones ("in the form of": restated and tested on random
fields). MLP and attention are bounds of the branches $F$ and $G$ of $f = F + G$; *local* and *upper* of the whole field
combine the sharpest of both, or take the norm of the map of all block norms $\|J_{ij}\|$ where that is smaller. Bounds in
another norm are named and cannot be compared. Vacuous: true, and says nothing, as through the global constant
$\max|\gamma| / \sqrt\epsilon$ of LayerNorm."""


def show(visit: Visit) -> None:
    """The numbers, the three sides over t, the flow, the branches, every bound by name."""
    panels.head(
        "Lipschitz", "How strongly can the field and the flow stretch a perturbation, proven from above, measured from below?"
    )
    numbers = st.container()
    left, right = st.columns(2)
    bounds: tuple = ()
    with left, panels.section():
        if wanted(visit, BOUNDS_SOLVES, "the bounds", "ask_bounds", "lipschitz"):
            bounds = computing.reports(visit, "lipschitz")
            with numbers:
                _numbers(bounds)
            _over_time(visit, bounds)
    with right, panels.section():
        if wanted(visit, FLOW_SOLVES, "what the flow can stretch", "ask_flow", "flow_bound"):
            _flow(visit)
    if not bounds:
        return
    st.subheader("Part by part", anchor=False)
    for column, branch in zip(st.columns(2), ("F", "G")):
        with column, panels.section():
            _branch(visit, bounds, branch)
    with panels.section():
        _by_name(visit, bounds)


def _numbers(bounds) -> None:
    """Of the time with the largest measured norm: the three sides, and how loose the local bound is."""
    report = max(bounds, key=lambda r: _first(r.lower))
    lower, local, at = _first(report.lower), _first(report.local), f"at t = {report.t:.3g}, where the lower one is largest"
    upper = "no bound known" if np.isinf(report.upper) else f"{report.upper:.3g}"
    upper += " (vacuous)" if report.vacuous else ""
    panels.numbers([
        ("‖J‖, lower (1/t)", f"{lower:.3g}", f"Measured {at}; relative residual {_first(report.residual):.0e}."),
        ("‖J‖, local (1/t)", f"{local:.3g}", f"Proven at the state {at}; from {charts.sharpest_whole(report)}."),
        ("‖J‖, upper (1/t)", upper, f"Proven for all tokens up to norm {report.radius:.3g}."),
        ("local / lower", f"{local / lower:.3g}", "1 would be exact: the truth lies between the two."),
    ])  # fmt: skip


def _first(values) -> float:
    return float(np.ravel(values)[0])


def _over_time(visit: Visit, bounds) -> None:
    empty = sum(r.vacuous for r in bounds)
    said = f"upper is vacuous at {empty} of {len(bounds)} times; " if empty else ""
    panels.plot(
        visit, partial(charts.bounds_over_time, bounds), bounds, name="lipschitz", first=True, title="Bounds of ‖J‖ over t",
        what=_OVER_TIME, status="proven" if np.isfinite([_first(r.local) for r in bounds]).all() else "vacuous",
        note=f"local and upper are proven, lower and ascent measured (relative residual up to "
        f"{max(_first(r.residual) for r in bounds):.0e}); {said}this image, 2-norm",
        paper=partial(figures.lipschitz_over_time, bounds),
    )  # fmt: skip


def _flow(visit: Visit) -> None:
    """The bound on the stretch of the flow, with the measured one where asked for."""
    (flow,) = computing.reports(visit, "flow_bound")
    assert isinstance(flow, FlowBoundReport)
    slot = st.container()
    seconds = SIGMA_SOLVES * seconds_of(visit.hash, visit.model)
    said = f"Measure the largest stretch at T beside it (about {duration(seconds)})"
    beside = st.toggle(said, key="sigma", bind="query-params", disabled=seconds > LIMIT)
    measured = computing.reports(visit, "finite_time")[0] if beside and seconds <= LIMIT else None
    assert measured is None or isinstance(measured, LyapunovReport)
    with slot:
        panels.plot(
            visit, partial(charts.flow_stretch, flow, measured), [flow] if measured is None else [flow, measured],
            name="flow-bound", first=True,
            title="What the flow can stretch", status="measured", what=_FLOW, note=_flow_note(visit, flow, measured),
        )  # fmt: skip


def _flow_note(visit: Visit, flow: FlowBoundReport, measured: LyapunovReport | None) -> str:
    """Side, residual, and how far the statement reaches for this model."""
    said = [f"μ by iteration, residual up to {flow.residual:.0e}: a bound once μ is exact"]
    if visit.entry.kind != "odevit":
        said.append("the flow between the layers of this discrete net, not its layers")
    if visit.model.field.breaks:
        said.append("the field changes its block in time: only the ends are drawn")
    if measured is not None:
        said.append(f"cross: {measured.system}, {measured.quantity}")
    return "; ".join(said)


def _branch(visit: Visit, bounds, branch: str) -> None:
    title = {"F": "MLP", "G": "Attention"}[branch]
    here, beyond = (charts.sharpest(bounds[-1], branch, local=local)[2:] or "none" for local in (True, False))
    proven = any(part.status == "proven" for name, part in bounds[-1].parts.items() if name.startswith(f"{branch} "))
    panels.plot(
        visit, partial(charts.branch_over_time, bounds, branch), bounds, name=f"lipschitz-{title.lower()}", title=title,
        status="proven" if proven else "vacuous", what=_BRANCH[branch],
        note=f"sharpest at t = {bounds[-1].t:.3g}: “{here}” at the state, “{beyond}” beyond it",
    )  # fmt: skip


def _by_name(visit: Visit, bounds) -> None:
    """Every bound at the time of the slider, and the same as a table."""
    at = bounds[-1].t if visit.t is None else visit.t
    report = min(bounds, key=lambda r: abs(r.t - at))
    hidden = sum(bool(np.isinf(part.values).any() or part.value <= 0) for part in report.parts.values())
    panels.plot(
        visit, partial(charts.bounds_by_name, bounds, at=at), bounds, name="lipschitz-parts", title="Every bound by name",
        status="proven", what=_NAMES, paper=partial(figures.lipschitz_parts, [report]),
        note=f"lower, ascent: measured; sharpest of the whole field at t = {report.t:.3g}: {charts.sharpest_whole(report)}"
        + (f"; {hidden} that a logarithmic axis cannot show are in the table" if hidden else ""),
    )  # fmt: skip
    with st.expander(f"As a table, at t = {report.t:.4g}"):
        number = st.column_config.NumberColumn(format="%.4g")
        st.dataframe(
            charts.bound_table(report), hide_index=True, column_config={"value (1/t)": number, "times the smallest": number}
        )
