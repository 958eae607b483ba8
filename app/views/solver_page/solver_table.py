"""All solvers and steps on some images: accuracy and flips against cost; the answers under each, computed in parts."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import streamlit as st

from analysis import figures
from analysis.discretization import solver_answers, tabulated
from analysis.reports import AnswersReport, SwapReport
from analysis.running.subject import Subject
from analysis.token_paths import solver_in_words
from app import charts, computing, panels
from app.state import Visit
from app.views.patience import images_a_part, wanted
from odevit.flow import calls_per_step, find_method

METHODS = ("euler", "midpoint", "rk4", "dopri5")
AMONG = (16, 64, 256)  # images that are asked
ADAPTIVE_CALLS = 100  # field evaluations of an adaptive solve, about

_TABLE = r"""The weights stay, the solver changes. An ODE keeps its answers when the solver gets better; a net whose accuracy
falls with a better solver has learnt its steps. NFE: field evaluations of one solve; an adaptive solver has one point, at the
model's tolerances. A prediction $a$ cannot change while the readout's input moves by less than its **no-flip radius**
$\min_j (z_a - z_j) / \|w_a - w_j\|$: dotted is the share of images that move further, which no share of flips exceeds."""


def adaptive(method: str) -> bool:
    """Whether a method chooses its own steps."""
    return find_method(method).kind == "adaptive"


def solves(visit: Visit, method: str, steps: int) -> float:
    """What a solve costs, in those of the trained solver."""
    trained = calls(visit.model.solver.method, visit.model.solver.steps)
    return calls(method, steps) / trained


def calls(method: str, steps: int) -> float:
    """Field evaluations of a solve; of an adaptive one, about."""
    return ADAPTIVE_CALLS if adaptive(method) else steps * calls_per_step(find_method(method))


def _among(visit: Visit) -> int:
    """How many images are asked."""
    count = st.segmented_control(
        "Images asked", AMONG, default=AMONG[1], key="among", bind="query-params", required=True,
        help="Spread evenly over the split, the chosen one first.",
    )  # fmt: skip
    return min(count or AMONG[1], len(visit.data))


def _rows(visit: Visit) -> list[tuple[str, int]]:
    """(method, steps) of the table: the trained solver and the usual ones with half, once, twice and four times the steps."""
    n, pieces = visit.model.solver.steps, len(visit.model.field.blocks)
    steps = [s for s in sorted({max(1, n // 2), n, 2 * n, 4 * n}) if s % pieces == 0]
    names = dict.fromkeys((visit.model.solver.method, *METHODS))
    return [(m, s) for m in names for s in ((n,) if adaptive(m) else steps)]


def table(visit: Visit) -> None:
    """Accuracy and flips of every solver."""
    count, rows = _among(visit), _rows(visit)
    cost = count * (sum(solves(visit, m, s) for m, s in rows) + len(rows))
    if not wanted(visit, cost, f"{len(rows)} solves of {count} images", "table", "solver_swap"):
        return
    found = [answers(visit, m, s, count) for m, s in rows]
    report, lost = tabulated(found), [f"{solver_in_words(m, s)} blows up" for (m, s), r in zip(rows, found) if r.broken]
    left, right = st.columns(2)
    command = f"odevit analyze {visit.entry.argument} --reports solver_swap --images {count}"
    with left:
        _accuracy(visit, report, lost, command)
    with right:
        panels.plot(
            visit, partial(charts.solver_flips, report), [report], name="solver_flips", first=True,
            title="Predictions that change", status="proven",
            what=_TABLE, paper=partial(figures.solver_flips, report), command=command,
            note="; ".join(["shares measured on these images, their limit (dotted) is a theorem", *lost]),
        )  # fmt: skip


def answers(visit: Visit, method: str, steps: int, count: int) -> AnswersReport:
    """The answers to `count` images under a solver, in parts."""
    size = images_a_part(visit, 1 + solves(visit, method, steps))
    name = solver_in_words(method, steps)
    parts = [
        (f"{name}, image {first + 1} of {count}", partial(_asked, method=method, steps=steps, first=first, last=first + size))
        for first in range(0, count, size)
    ]
    found = computing.custom(visit, "answers", f"1: {method}, {steps}, {size}", parts, images=count)
    return AnswersReport.joined([part for part in found if isinstance(part, AnswersReport)])


def _asked(who: Subject, method: str, steps: int, first: int, last: int) -> AnswersReport:
    labels = None if who.labels is None else who.labels[first:last]
    return solver_answers(who.model, who.images[first:last], method, steps, labels=labels)


def _accuracy(visit: Visit, report: SwapReport, lost: Sequence[str], command: str) -> None:
    if np.isnan(report.accuracy).all():
        panels.nothing("These images have no labels, so there are no accuracies; flips need none.")
        return
    panels.plot(
        visit, partial(charts.solver_accuracy, report), [report], name="solver_accuracy", first=True,
        title="Accuracy against cost",
        status="measured", what=_TABLE, paper=partial(figures.solver_accuracy, report), command=command,
        note="; ".join([f"{report.images} images: one is {1 / report.images:.1%}", *lost]),
    )  # fmt: skip
