"""One other solver: this image's probabilities and path under it, which images could flip, and those that do."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st

from analysis import figures
from analysis.reports import AnswersReport, SolverPathsReport
from analysis.running.subject import Subject
from analysis.token_paths import solver_in_words, solver_paths
from app import charts, computing, panels
from app.sidebar import thumbnail
from app.state import Visit
from app.views.patience import wanted
from odevit.flow import find_method, methods

from .solver_table import AMONG, adaptive, answers, calls, solves

FLIPS, WIDE = 24, 120  # thumbnails at most, and pixels of one with its words

_ONE = r"""Class probabilities of this image with the trained solver (pale) and with the chosen one: the same weights, the same
$x(0)$, other steps."""
_PATHS = r"""CLS on the two principal axes of its path in the ODE, which a fine solve (rk4) stands for; every sign is a state
that the solver visits. Right: $\|x_h(t) - x(t)\|$ over all tokens, to the fine solve."""
_MARGINS = r"""Every image: how far its readout's input moves under the chosen solver, against its no-flip radius. A flip above
the diagonal would contradict a theorem on the last linear map; below it a flip is possible."""


def other(visit: Visit) -> list[tuple[str, str, str]]:
    """The chosen solver on this image, its path, the margins of all images, and those that flip; returns the radius."""
    left, right = st.columns([1, 3])
    with left, st.container(border=True):
        method, steps = _chosen(visit)
        count = min(int(st.session_state.get("among") or AMONG[1]), len(visit.data))
    if not wanted(visit, count * (1 + solves(visit, method, steps)), f"the answers to {count} images", "ask_flips"):
        return []
    report = answers(visit, method, steps, count)
    if report.broken:
        panels.nothing(f"{solver_in_words(method, steps)} gives no answer: {report.broken}.")
        return [_radius(report)]
    with right:
        one, two = st.columns(2)
        with one:
            _probabilities(visit, report)
        with two:
            _margins(visit, report)
    _paths(visit, method, steps)
    _flips(visit, report)
    return [_radius(report)]


def _chosen(visit: Visit) -> tuple[str, int]:
    """Method and steps, those that work for the model: steps end where the field changes its block."""
    names, trained, pieces = tuple(methods()), visit.model.solver.steps, len(visit.model.field.blocks)
    default = names.index("rk4") if "rk4" in names else 0
    method = st.selectbox("Solver", names, default, key="method", bind="query-params", required=True) or names[default]
    options = list(range(pieces, 4 * trained + 1, pieces))
    if st.session_state.get("steps") not in (None, *options):  # of a model with other blocks
        del st.session_state["steps"]
    if adaptive(method):
        st.caption(f"Chooses its own steps: rtol {visit.model.solver.rtol:g}, atol {visit.model.solver.atol:g}.")
        return method, trained
    if len(options) == 1:
        return method, options[0]
    start = min(options, key=lambda s: abs(s - max(pieces, trained // 2)))
    steps = int(st.select_slider("Steps", options, start, key="steps", bind="query-params"))
    plain = solver_in_words(visit.model.solver.method, trained)
    st.caption(f"Order {find_method(method).order}, NFE {calls(method, steps):.0f}; trained: {plain}.")
    return method, steps


def _radius(report: AnswersReport) -> tuple[str, str, str]:
    moved = "" if report.broken else f" The chosen solver moves it by {report.shift[0]:.3g}."
    text = "The prediction cannot change while the readout's input moves by less (exact for a linear head)."
    return "No-flip radius, this image", f"{report.radius[0]:.3g}", text + moved


def _probabilities(visit: Visit, report: AnswersReport) -> None:
    name = solver_in_words(report.method, report.steps)
    words = (f"trained: {solver_in_words(report.trained_method, report.trained_steps)}", name)
    same = report.logits[0].argmax() == report.trained_logits[0].argmax()
    safe = report.shift[0] < report.radius[0]
    said = "proven to stay" if safe else "it stays, which was not certain" if same else "it flips"
    panels.plot(
        visit, partial(charts.two_answers, report.trained_logits[0], report.logits[0], visit.classes, words, visit.label),
        [report], name="solver_answer", title=f"This image with {name}", status="proven" if safe else "measured", what=_ONE,
        paper=partial(figures.two_answers, report.trained_logits[0], report.logits[0], visit.classes, words),
        note=f"prediction: {said}; logits move by up to {np.abs(report.logits[0] - report.trained_logits[0]).max():.2g}",
    )  # fmt: skip


def _margins(visit: Visit, report: AnswersReport) -> None:
    certain = int((report.shift < report.radius).sum())
    panels.plot(
        visit, partial(charts.solver_margins, report), [report], name="solver_margins", title="Which images could flip",
        status="proven",
        note=f"{certain} of {len(report.shift)} predictions are proven to stay; {len(report.flips)} flip", what=_MARGINS,
        paper=partial(figures.no_flip_margins, report),
    )  # fmt: skip


def _paths(visit: Visit, method: str, steps: int) -> None:
    """Where CLS goes under the trained and the chosen solver, and how far from the ODE."""
    plain = (visit.model.solver.method, visit.model.solver.steps)
    solvers = list(dict.fromkeys([plain, (method, steps)]))
    cost = 50 * max([s for _, s in solvers]) / plain[1]
    if not wanted(visit, cost, "the paths, with a fine solve beside them", "ask_paths"):
        return
    part = ("the paths, beside a fine solve", partial(_solved, solvers=solvers))
    (report,) = computing.custom(visit, "solver_paths", f"1: {solvers}", [part])
    assert isinstance(report, SolverPathsReport)
    note = f"{report.name[0]}, its own error at T about {report.reference_error:.1g}"
    left, right = st.columns(2)
    with left:
        panels.plot(
            visit, partial(charts.solver_plane, report), [report], name="solver_plane", title="The path of CLS",
            status="measured", note=panels.plain(note), what=_PATHS, paper=partial(figures.solver_paths, report),
        )  # fmt: skip
    with right:
        panels.plot(
            visit, partial(charts.solver_distance, report), [report], name="solver_distance",
            title="Distance to the ODE's solution",
            status="measured", note=panels.plain(note), what=_PATHS, paper=partial(figures.solver_paths, report),
        )  # fmt: skip


def _solved(who: Subject, solvers: Sequence[tuple[str, int]]) -> SolverPathsReport:
    return solver_paths(who.model, who.images[:1], solvers)


def _flips(visit: Visit, report: AnswersReport) -> None:
    """Thumbnails of the images that flip, with both predictions and the class."""
    flips, indices, names = report.flips, visit.indices(len(report.logits)), tuple(map(panels.plain, visit.classes))
    name = solver_in_words(report.method, report.steps)
    if not len(flips):
        panels.nothing(f"No prediction of the {len(report.logits)} images flips with {name}.")
        return
    shown = flips[:FLIPS]
    more = f", the first {FLIPS} of them" if len(flips) > FLIPS else ""
    st.markdown(f"**{len(flips)} of {len(report.logits)} images flip with {name}**{more}: trained → {name}")
    with st.container(horizontal=True):
        for i in shown:
            before, after = (names[int(z[i].argmax())] for z in (report.trained_logits, report.logits))
            truth = "" if report.labels[i] < 0 else f", class {names[report.labels[i]]}"
            with st.container(width=WIDE):
                st.image(thumbnail(visit.data.images[indices[i]].numpy()))
                st.markdown(f"{before} → **{after}**  \n:small[image {indices[i]}{truth}]")
