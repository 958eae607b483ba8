"""Predict: the image as the model sees it, where CLS looks and what the readout says over time, and when it is decided."""

from functools import partial

import numpy as np
import streamlit as st

from analysis import figures
from analysis.figures.lens_plots import probabilities
from analysis.reports import AttentionReport, LensReport
from app import charts, computing, panels, shell
from app.state import Visit

from .patience import wanted

CROWDS = (0, 8, 32, 128)  # images beside the chosen one
LENS_SOLVES, ATTENTION_SOLVES = 3.0, 1.3  # solves of one image that the reports cost as much as

_LENS = r"""The readout is asked at every saved time, not only at the end: $z(t) = W\,x_\mathrm{CLS}(t) + b$, $p(t) =
\mathrm{softmax}\,z(t)$ (the logit lens of nostalgebraist 2020, with time in place of layers). **Decision time** $t^* =
\inf\{t : \arg\max z(s) = \arg\max z(T)\ \forall s \ge t\}$ over the saved times. Inside a step the class could flip
and come back unseen unless $z_a - z_j > \|w_a - w_j\|\,h\,\sup\|v_\mathrm{CLS}\|$ for all $j \ne a$; where this does
not hold there is a grey bar on top. The sup is measured at both ends of the step, so its absence is evidence, no proof.

Attention of CLS: row of CLS of $\mathrm{softmax}(q k^\top / \sqrt{d})$, mean over heads, on the patches; CLS and
registers take the rest. **Attention is where information may come from, not why a class is chosen**: for causes see
Interventions. The symbol of a class is the same on its bar and on its curve; the bold name is the final prediction."""
_MARGIN = r"""$z_a(t) - \max_{j \ne a} z_j(t)$ with $a = \arg\max z(t)$. Where it is 0 the class flips. Dotted: images
whose final prediction is wrong."""
_SHARES = r"""Share of the images with $t^* \le t$ (solid); of those with no step after $t^*$ inside which a flip could
hide (dashed); accuracy of $\arg\max z(t)$ where labels are known (dotted)."""


def show(visit: Visit) -> None:
    """The story of the chosen image, then the same for others beside it."""
    panels.head("Predict", "When and where is the class decided? The readout and the attention of CLS at every saved time.")
    numbers = st.container()
    with panels.section():
        both = LENS_SOLVES + ATTENTION_SOLVES
        if not wanted(visit, both, "the readout and attention of this image", "ask_lens", "lens,attention"):
            return
        (lens,) = computing.reports(visit, "lens")
        (attention,) = computing.reports(visit, "attention")
        with numbers:
            _numbers(visit, lens)
        _story(visit, lens, attention)
        shell.link("interventions", "What causes it? Change a part of the flow: Interventions")
    with panels.section("Among others"):
        _others(visit)


def _numbers(visit: Visit, lens: LensReport) -> None:
    """What is predicted, how surely, since when."""
    final = int(lens.prediction[-1, 0])
    chance = probabilities(lens.logits[-1, 0])
    radius = f" CLS would have to move by {lens.radius[-1, 0]:.3g} (state) to change it." if lens.linear else ""
    resolved = "No flip can hide after it." if lens.decision_resolved[0] else "Earlier or later flips inside a step could hide."
    panels.numbers([
        (*_verdict(visit, final), "Class of the largest logit at T."),
        ("Probability", f"{chance[final]:.3f}", f"softmax at T, not calibrated; chance is {1 / len(chance):.3g}."),
        (
            "Decided at", f"t* = {lens.decision_time[0]:.4g} of {lens.time[-1]:.4g}",
            f"In layers, on the grid of {len(lens.time)} saved times. {resolved}",
        ),
        ("Margin", f"{lens.margin[-1, 0]:.3g} logits", f"Largest minus second logit at T.{radius}"),
    ])  # fmt: skip


def _verdict(visit: Visit, final: int) -> tuple[str, str]:
    """(label, value) of the prediction: right, wrong or unknown, in words and by a sign."""
    name = panels.plain(visit.classes[final])
    if visit.label is None:
        return "Prediction", name
    if visit.label == final:
        return "Prediction, right", f"✓ {name}"
    return f"Prediction, wrong: it is {panels.plain(visit.classes[visit.label])}", f"✗ {name}"


def _story(visit: Visit, lens: LensReport, attention: AttentionReport) -> None:
    """Image, attention and probabilities under one slider."""
    hidden = int((~lens.resolved[:, 0]).sum())
    unsure = f"a flip could hide in {hidden} of {len(lens.resolved)} steps" if lens.linear else "final norm: no flip bound"
    figure = partial(
        charts.prediction_over_time, lens, attention, visit.image, label=visit.label, names=visit.classes, at=visit.t
    )  # fmt: skip
    panels.plot(
        visit, figure, [lens, attention], name="logit-lens", first=True,
        title="Image, attention of CLS and probabilities over time",
        status="measured", what=_LENS, paper=partial(figures.logit_lens, lens, 0, label=visit.label, names=visit.classes),
        note=" ".join(filter(None, (f"{lens.provenance.dtype}; {unsure}.", charts.frames_note(len(lens.time))))),
    )  # fmt: skip


def _others(visit: Visit) -> None:
    """Margin and decision time of the chosen image among others of the split."""
    asked = "Evenly spread over the split; 0 looks at none."
    count = st.select_slider("Other images", CROWDS, CROWDS[1], key="others", bind="query-params", help=asked)
    count = min(count, len(visit.data) - 1)
    if not count:
        panels.nothing("No other images are looked at." if len(visit.data) > 1 else "There is only this one image.")
        return
    if not wanted(visit, LENS_SOLVES * (count + 1), f"the readout of {count + 1} images", "ask_others", "lens"):
        return
    (lens,) = computing.reports(visit, "lens", count + 1)
    found = visit.some(count + 1).labels.tolist()
    labels = found if min(found) >= 0 else None
    left, right = st.columns(2)
    with left:
        _margin(visit, lens, labels)
    with right:
        _shares(visit, lens, labels)


def _margin(visit: Visit, lens: LensReport, labels: list[int] | None) -> None:
    """How sure the readout is, image by image."""
    wrong = (
        "no labels" if labels is None else f"{int((lens.prediction[-1] != np.array(labels)).sum())} of {len(labels)} wrong at T"
    )
    panels.plot(
        visit, partial(charts.margin_over_time, lens, 0, labels), [lens], name="margin", title="Margin over time",
        status="measured", what=_MARGIN, note=f"{lens.margin.shape[1]} images; {wrong}.",
    )  # fmt: skip


def _shares(visit: Visit, lens: LensReport, labels: list[int] | None) -> None:
    """When the classes of all images are decided."""
    median = float(np.median(lens.decision_time))
    panels.plot(
        visit, partial(charts.decision_shares, lens, 0, labels), [lens], name="decision-times", title="Decided by time t",
        status="measured", what=_SHARES, note=f"{lens.margin.shape[1]} images; median t* = {median:.4g} layers.",
        paper=partial(figures.decision_times, lens, labels),
    )  # fmt: skip
