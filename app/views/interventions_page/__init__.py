"""Interventions: change tokens or a head in the middle of the flow, and see what becomes of the class and of the path."""

from functools import partial

import numpy as np
import streamlit as st

from analysis import figures
from analysis.figures.lens_plots import probabilities
from analysis.interventions import effect_map, intervene, joined
from analysis.reports import EffectMapReport, InterventionReport
from app import charts, computing, panels
from app.state import Visit
from app.views.patience import duration, images_a_part, seconds_of

from .change_controls import Choice, choose

TIMES = 7  # of the map, at most
PATIENCE, LIMIT = 20, 600  # seconds: what is started unasked, what is started at all
REFERENCE = "Knock-out and patching as in causal tracing, Meng et al. 2022 (arXiv 2202.05262), the layer replaced by time."


def show(visit: Visit) -> None:
    """Choose a change; its effect on the class and on the path; then the same change everywhere and at every time."""
    panels.head("Interventions", "Change a part of the state in the middle of the flow: what becomes of class and path?")
    numbers = st.container()
    choice, left, right = choose(visit)
    report = None
    with left, panels.section():
        report = _restarted(visit, choice)
        if report is not None:
            _class_plot(visit, report)
    if report is None:
        return
    with numbers:
        _numbers(visit, report)
    with right, panels.section():
        _spread_plot(visit, report)
    with panels.section("The same change everywhere and at every time"):
        _everywhere(visit, choice)


def _restarted(visit: Visit, choice: Choice) -> InterventionReport | None:
    """The report on the chosen change, None while nobody has asked for it."""
    if not _wanted(_steps(visit, choice.t) * 3 * choice.images, visit, "the effect of this change", "restart"):
        return None
    settings = f"1: {choice.everywhere}, t = {choice.t!r}, {choice.change.describe()}, tokens {choice.tokens}"
    part = ("the flow from the change on", lambda who: intervene(who.model, who.images, choice.t, choice.change))
    (report,) = computing.custom(visit, "intervention", settings, [part], images=choice.images)
    return report


def _steps(visit: Visit, t: float) -> float:
    """Solves from 0 to T that one from t to T is worth."""
    grid = visit.model.grid
    return max(abs(grid.t1 - t) / abs(grid.t1 - grid.t0), 1 / grid.steps)


def _wanted(solves: float, visit: Visit, what: str, key: str) -> bool:
    """Whether to compute: at once where it is quick, else when a visitor asks for it; never what takes too long for a page."""
    seconds = solves * seconds_of(visit.hash, visit.model)
    if seconds > LIMIT:
        panels.nothing(
            f"About {duration(seconds)} on one core for {what}: too long for a page. "
            f"`odevit analyze {visit.entry.argument} --reports effects` computes it, and can use a GPU."
        )
        return False
    return seconds < PATIENCE or st.toggle(f"Compute {what} (about {duration(seconds)})", key=key, bind="query-params")


def _numbers(visit: Visit, report: InterventionReport) -> None:
    before, after = (probabilities(z[0]) for z in (report.logits_before, report.logits_after))
    first, last = int(before.argmax()), int(after.argmax())
    names = tuple(map(panels.plain, visit.classes))
    moved = f"{report.size[0]:.3g} (state)" if report.size[0] else "0: only the field"
    panels.numbers([
        ("Predicted class", names[first] if first == last else f"{names[first]} → {names[last]}", "before → after the change"),
        (f"Probability of {names[first]}", f"{before[first]:.1%} → {after[first]:.1%}", "of the class predicted before"),
        ("KL divergence", f"{report.kl[0]:.3g} nats", "KL(p before ‖ p after)"),
        ("Size of the change", moved, "‖x'(t) − x(t)‖ at the time of the change, over all tokens"),
    ])  # fmt: skip


def _class_plot(visit: Visit, report: InterventionReport) -> None:
    panels.plot(
        visit, partial(charts.class_effect, report, visit.classes, label=visit.label), [report], name="class_effect",
        first=True, title="What becomes of the class", status="measured",
        note=f"restarted at t = {report.t:.4g}; the restart by itself moves the logits by {report.restart_gap:.1g} at most",
        what="The flow is restarted at $t$ from a changed state $x'(t)$ and goes on by the model's own steps:\n\n"
        r"$$x(t) \to x'(t) \to x'(T), \qquad \Delta z = W\,(x'_{\rm CLS}(T) - x_{\rm CLS}(T))$$"
        "\n\nFaint bars: class probabilities of the unchanged path; full bars: of the changed one. Below: $\\Delta z$ of each "
        f"class. {REFERENCE}",
    )  # fmt: skip


def _spread_plot(visit: Visit, report: InterventionReport) -> None:
    panels.plot(
        visit, partial(charts.spread, report, visit.model.layout), [report], name="spread", first=True,
        title="How the change spreads", status="measured", paper=partial(figures.intervention_distance, report),
        note="distance over the tokens of each kind; at its own time a change is nowhere but where it was made",
        what=r"$$\|x'(s) - x(s)\| = \Big(\sum_i \|x'_i(s) - x_i(s)\|^2\Big)^{1/2}, \quad s \ge t$$"
        "\n\nover all tokens, and over the tokens of each kind. Attention carries a change from the tokens where it was made "
        "to the others within one evaluation of the field; only what reaches CLS changes the class.",
    )  # fmt: skip


def _everywhere(visit: Visit, choice: Choice) -> None:
    """The same change of each single token (or head) at every time."""
    times = _times(visit)
    count = visit.model.config.num_heads if choice.tokens is None else visit.model.layout.size
    solves = sum(_steps(visit, t) for t in times) * count * choice.images
    if not _wanted(solves, visit, "this change at every time", "map"):
        return
    parts = [part for t in times for part in _parts(visit, choice, t, count)]
    made = computing.custom(visit, "effects", f"1: {choice.everywhere}", parts, choice.images)
    report = joined(made)
    names = {name: label for name, (label, _) in charts.EFFECTS.items()}
    quantity = st.selectbox("Effect", names, key="effect", bind="query-params", format_func=lambda name: names[name], width=340)
    if choice.tokens is None:
        _heads_plot(visit, report, quantity)
        return
    left, right = st.columns([2, 1])
    with left:
        _map_plot(visit, report, quantity, choice.t)
    with right:
        _over_time_plot(visit, report, quantity)


def _times(visit: Visit) -> list[float]:
    """Times of the map: steps of the model's grid, evenly spread."""
    grid = visit.model.grid
    return [grid.times[k] for k in np.unique(np.linspace(0, grid.steps, min(TIMES, grid.steps + 1)).round().astype(int))]


def _parts(visit: Visit, choice: Choice, t: float, count: int) -> list[computing.Part]:
    """The effects at one time, in pieces that are kept when a visitor stops."""
    most = images_a_part(visit, _steps(visit, t) * choice.images)  # a changed token costs what an image costs
    change = choice.change if choice.tokens is None else choice.change.at("all")
    some = [list(range(first, min(first + most, count))) for first in range(0, count, most)]
    return [(f"changed at t = {t:.4g}", partial(_effects, t=t, change=change, regions=regions)) for regions in some]


def _effects(who, t: float, change, regions: list[int]) -> EffectMapReport:
    return effect_map(who.model, who.images, [t], change, regions)


_EFFECT = (
    "Each {what} alone is changed at time $t$, and the flow goes on to $T$. Effect: the change of the logit of the class that "
    r"was predicted before, $\Delta z_a = z'_a - z_a$ (negative: the {what} speaks for the class); of its margin "
    r"$z_a - \max_{{b \ne a}} z_b$ (below minus the margin: the prediction flips); $\mathrm{{KL}}(p \,\|\, p')$; or the size "
    "of the change itself, without which effects cannot be compared. Effects of single {what}s do not add up to that of all. "
)


def _map_plot(visit: Visit, report: EffectMapReport, quantity: str, t: float) -> None:
    panels.plot(
        visit, partial(charts.effect_frames, report, visit.model.layout, visit.image, quantity, at=t), [report],
        name="effect_map", title="Where it matters: effect of changing one token at time t", status="measured",
        note=_said(report) + "; colours: range of the patches", paper=partial(figures.effect_map, report, quantity),
        what=_EFFECT.format(what="token") + REFERENCE, command=f"odevit analyze {visit.entry.argument} --reports effects",
    )  # fmt: skip


def _over_time_plot(visit: Visit, report: EffectMapReport, quantity: str) -> None:
    panels.plot(
        visit, partial(charts.effect_over_time, report, visit.model.layout, quantity), [report], name="effect_over_time",
        title="When it matters: CLS and the strongest others", status="measured", note="the strongest token may change with t",
        paper=partial(figures.effect_map, report, quantity), what=_EFFECT.format(what="token") + REFERENCE,
    )  # fmt: skip


def _heads_plot(visit: Visit, report: EffectMapReport, quantity: str) -> None:
    panels.plot(
        visit, partial(charts.head_effects, report, quantity), [report], name="head_effects",
        title="Which head matters, and when",
        status="measured", note=_said(report), paper=partial(figures.effect_map, report, quantity),
        what=_EFFECT.format(what="head") + "A head is silenced from $t$ on: its columns of the output projection are 0.",
    )  # fmt: skip


def _said(report: EffectMapReport) -> str:
    """What was changed, and how many of the changes flip the prediction."""
    flips = report.flipped[..., 0]
    how = report.change.removeprefix("tokens all ") if report.change.startswith("tokens") else "silenced from t on"
    return f"each by itself {how}; of {flips.size} changes {int(flips.sum())} flip the prediction"
