"""A perturbed picture: how it looks to the model, what it does to the answer, how far its path goes and what bounds that."""

from functools import partial

import streamlit as st

from analysis import figures
from analysis.perturbations import perturbation_growth, step_stretch
from analysis.reports import PerturbationReport, StretchReport
from analysis.running.subject import Subject
from app import charts, computing, panels
from app.state import Visit
from app.views.patience import wanted

from .disturbing import Disturbance, choose

STRETCH_SOLVES = 90  # of all steps, in solves of one image
SIDES = {  # bound -> how it is named below the plot
    "between": "between (measured)", "along": "along (first order)", "logarithmic": "∫μ (first order)", "proven": "proven",
}  # fmt: skip

_GROWTH = r"""Distance of the paths of the two pictures, $d_k = \|x'_k - x_k\|$, under the model's own steps $\psi_k$, and what
bounds it:

* **between the paths** $d_{k+1} \le \int_0^1 \|D\psi_k(x_k + s(x'_k - x_k))\| \, ds \; d_k$ holds for any distance (mean value
  theorem); the norms are measured at three points of each segment (Simpson), so the figure is measured, not proven;
* **along one path** $\prod_k \|D\psi_k(x_k)\|$, for Euler $\prod_k \|I + hJ_k\|$: first order in the distance, rigorous for
  infinitesimal perturbations only: the other path may stretch more;
* $e^{\int \mu(J(x(t))) dt}$, $\mu = \lambda_{\max}((J + J^\top)/2)$ (Dahlquist 1958; Soderlind 2006): the same for the ODE
  instead of its steps;
* **proven** $\prod_k (1 + h L_k)$ with $\|J\| \le L_k$ on the ball $\max_i \|x_i\| \le R_k$ that holds both states, from the
  weights alone (page Lipschitz): rigorous for these two paths of Euler steps.

Hollow signs, in the grey band: vacuous, above $\|x\| + \|x'\|$, which no distance exceeds. CLS and
registers see no picture at $t = 0$."""
_TOKENS = r"""$\|x'_i(t) - x_i(t)\|$ of every token $i$: at $t = 0$ the change sits where the picture was changed (and around
it, with a convolutional stem); attention carries it to the other tokens. One scale for all times."""
_ANSWER = r"""Class probabilities of the picture (pale) and of the perturbed one. The prediction cannot change while the
readout's input moves by less than the no-flip radius $\min_j (z_a - z_j) / \|w_a - w_j\|$: a theorem on the last linear map."""


def perturbed(visit: Visit) -> list[tuple[str, str, str]]:
    """Controls and pictures, answers, then distances beside the map of tokens; returns the growth."""
    left, middle, right = st.columns([4, 6, 6])
    with left, st.container(border=True):
        change = choose(visit)
    settings, part = f"1: {change.said}", ("the two paths", partial(_growth, change=change))
    (report,) = computing.custom(visit, "perturbation", settings, [part])
    assert isinstance(report, PerturbationReport)
    with middle:
        _pictures(visit, change, report)
    with right:
        _answers(visit, report)
    if not report.distance[0] > 0:
        panels.nothing("The two pictures are the same to the model: there is no distance to follow.")
        return []
    stretch = None
    if wanted(visit, STRETCH_SOLVES, "the bounds on the distance", "bounds"):
        parts = [(f"stretch of step {k + 1}", partial(_stretch, change=change, step=k)) for k in range(visit.model.grid.steps)]
        found = computing.custom(visit, "stretch", settings, parts)
        stretch = StretchReport.joined([step for step in found if isinstance(step, StretchReport)])
    left, right = st.columns(2)
    with left:
        _separation(visit, report, stretch)
    with right:
        _tokens(visit, report)
    meaning = f"‖x'(T) − x(T)‖ / ‖x'(0) − x(0)‖, at the rate {report.rate:.3g} 1/t."
    return [("Growth of this perturbation", f"× {report.growth:.3g}", meaning)]


def _growth(who: Subject, change: Disturbance) -> PerturbationReport:
    return perturbation_growth(who.model, who.images[:1], who.model.preprocess(change.pixels))


def _stretch(who: Subject, change: Disturbance, step: int) -> StretchReport:
    return step_stretch(who.model, who.images[:1], who.model.preprocess(change.pixels), step, seed=who.seed)


def _pictures(visit: Visit, change: Disturbance, report: PerturbationReport) -> None:
    figure = partial(charts.perturbed_picture, visit.image, change.pixels.numpy(), visit.model.layout.grid)
    panels.plot(
        visit, figure, [report], name="perturbed",
        title="As the model sees it", status="measured", note=f"{change.said}; normalised pixels move by {report.pixels:.3g}",
        what=r"Both pictures in the model's resolution, and their difference in grey levels (mean of the channels). What the "
        r"model gets is rounded to whole grey levels, so what is drawn is all that differs.",
    )  # fmt: skip


def _answers(visit: Visit, report: PerturbationReport) -> None:
    before, after = int(report.logits_before.argmax()), int(report.logits_after.argmax())
    names, safe = visit.classes, report.shift < report.radius
    said = "so it provably keeps its prediction" if safe else "a flip is possible" if before == after else "it flips"
    words = ("image", "perturbed")
    panels.plot(
        visit, partial(charts.two_answers, report.logits_before, report.logits_after, names, words, visit.label), [report],
        name="perturbed_answer", title=f"Predicted: {names[before]} → {names[after]}",
        status="proven" if safe else "measured",
        note=f"readout's input moves by {report.shift:.3g}, no-flip radius {report.radius:.3g}: {said}", what=_ANSWER,
        paper=partial(figures.two_answers, report.logits_before, report.logits_after, names, words),
    )  # fmt: skip


def _separation(visit: Visit, report: PerturbationReport, stretch: StretchReport | None) -> None:
    reports = [report] if stretch is None else [report, stretch]
    panels.plot(
        visit, partial(charts.separation, report, stretch), reports, name="separation",
        title="Distance of the two paths, and what bounds it", status="measured", note=_separation_note(report, stretch),
        what=_GROWTH, paper=partial(figures.perturbation_growth, report, stretch),
    )  # fmt: skip


def _separation_note(report: PerturbationReport, stretch: StretchReport | None) -> str:
    """The bounds at T, each with its status."""
    bounds = [
        f"{SIDES[name]} {values[-1]:.3g}{', vacuous' if report.vacuous(values)[-1] else ''}"
        for name, values in charts.bounds_of(report, stretch).items()
    ]
    text = f"at T: distance {report.distance[-1]:.3g}; bounds: {', '.join(bounds) or 'not computed'}"
    if stretch is not None:
        residual = f"norms with residuals up to {stretch.residual:.0e}" if stretch.residual else "norms exact to rounding"
        text += f"; {residual}, Simpson's and the trapezoid rule differ by {stretch.quadrature:.1%}"
    return panels.plain("; ".join([text, *report.notes]))


def _tokens(visit: Visit, report: PerturbationReport) -> None:
    panels.plot(
        visit, partial(charts.token_separation, report, visit.t), [report], name="token_separation",
        title="Where the change is", status="measured", note=charts.frames_note(len(report.time)), what=_TOKENS,
        paper=partial(figures.token_separation, report),
    )  # fmt: skip
