"""Compare: two models on the same image: paths on common axes, predictions, eigenvalues, rates, the verdicts that differ."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from analysis import figures
from analysis.figures.drawing import side_by_side
from analysis.figures.pair_plots import paired_paths as paired_figure
from analysis.figures.pair_plots import paired_speeds
from analysis.reports import LensReport, Report, TokenPathReport
from analysis.running.subject import Subject, subject
from analysis.token_paths.pairing import mismatch, paired_paths
from app import charts, computing, panels
from app.loading import Entry, double, models
from app.state import Visit, other
from app.views import shared_reports, verdict_pairs
from app.views.patience import seconds_of, wanted
from odevit.errors import UserError
from odevit.flow import find_method

SPECTRA_SOLVES = 200  # cost of eigenvalues and rates at all times, in solves of one image by each
COUNTS = (1, 2, 4, 8, 16, 32)  # images whose paths and predictions are compared
TOKENS = {"CLS": "cls", "CLS and patches": "all"}
AXES = ("shared", "aligned")

_PATHS = r"""**Shared**: principal axes of the states of both models pooled, $((x - \bar x) \cdot e_1, (x - \bar x)
\cdot e_2)$; distances are those of the state space. Two models trained apart need not share their axes: renumbering all
channels gives the same model. **Aligned**: principal axes of each model, those of the second turned onto the first by
the orthogonal $Q$ that minimises $\|A - B Q\|_F$ over images, tokens and equal shares of the way (Schönemann 1966,
Procrustes); lengths and angles are kept, the position and direction of the whole are not. Distance: $\|A - B Q\|_F /
\|A - \bar A\|_F$ in the drawn axes."""
_CHANCES = r"""$\mathrm{softmax}(z(T))$ of both models for the chosen image. Framed: the prediction; hatched: a wrong
one; ✓: the label."""
_DECISIONS = r"""$p_c(t) = \mathrm{softmax}(W x_\mathrm{CLS}(t) + b)_c$ of each model's own final class $c$ (logit lens,
nostalgebraist 2020). Dotted: the decision time, from which on the prediction is the final one, on the saved times."""
_SPECTRA = r"""Leading eigenvalues of $J = \partial f / \partial x$ along both paths. Outlines: the region
$|R(h\lambda)| \le 1$ of each model's solver, scaled by its own $1/h$ (Hairer and Wanner, *Solving ODEs II*, IV.2):
modes left of the axis and inside decay in the ODE and in the solver. Eigenvalues say nothing sharp where $J$ is far
from normal: read them with $\|J\|$ and $\mu(J)$."""
_SPEEDS = r"""$\|\dot x_\mathrm{CLS}\|$ by differences of the saved states, $\|x(t_{k+1}) - x(t_k)\| / (t_{k+1} - t_k)$,
so that a discrete ViT, whose states are all that there is, is measured like an ODE. Line: median over the images; band:
10 % to 90 %."""
_RATES = r"""$\|J\|$ bounds how fast two neighbouring states can move against each other, and $\mu(J) =
\lambda_{\max}((J + J^\top)/2) \le \|J\|$ how fast their distance can grow (Dahlquist 1958). Both belong to one state at
a time; a penalty such as JaSMin or a teacher should show here."""


@dataclass(frozen=True)
class Pair:
    """Both models with the same images; short names; how many images."""

    visits: tuple[Visit, Visit]
    names: tuple[str, str]
    count: int

    @property
    def first(self) -> Visit:
        """The model of the sidebar."""
        return self.visits[0]

    def name(self, what: str) -> str:
        """Name of a plot, with the second model in it."""
        return f"pair-{what}-" + "".join(c if c.isalnum() or c in "-_" else "-" for c in self.names[1])

    def wanted(self, solves: float, what: str, key: str) -> bool:
        """Whether to compute what costs as much as so many solves of one image by each model; see `patience.wanted`."""
        first, second = (seconds_of(visit.hash, visit.model) for visit in self.visits)
        return wanted(self.first, solves * (1 + second / first), what, key)

    def both(self, name: str, images: int = 1) -> Any:
        """A report of both models: two tuples."""
        return tuple(computing.reports(visit, name, images) for visit in self.visits)

    @property
    def command(self) -> str:
        """The same without a browser, once `odevit analyze` ran on both."""
        return " ".join(("odevit compare", *(visit.entry.argument for visit in self.visits), "--out runs/compare"))


def show(visit: Visit) -> None:
    """Choose the second model; paths and predictions, eigenvalues and rates, verdicts."""
    panels.head("Compare", "Two models on the same image: what did a teacher, a penalty or another solver change?")
    offered = [entry for entry in models() if entry.kind != "broken" and entry.name != visit.entry.name]
    if not offered:
        panels.nothing("No second model in the list: `odevit demo` makes one, `odevit app FOLDER` opens a folder of them.")
        return
    place, numbers = st.container(), st.container()
    with panels.section():
        try:
            pair, tokens, axes = _chosen(visit, offered, place)
        except UserError as reason:
            panels.nothing(f"These two cannot be compared: {panels.plain(str(reason))}.{_instead(visit, offered)}")
            return
        _shown(pair, tokens, axes, numbers)


def _chosen(visit: Visit, offered: list[Entry], place) -> tuple[Pair, str, str]:
    """The second model, the number of images, tokens and axes."""
    names = [entry.name for entry in offered]
    if st.session_state.get("other") not in (None, *names):  # the list changed, or it is the first model now
        del st.session_state["other"]
    with place:
        one, two, three, four = st.columns([3, 2, 2, 2])
    name = one.selectbox("Second model", names, _likely(visit, offered), key="other", bind="query-params")
    count = two.select_slider("Images", COUNTS, 8, key="pairs", bind="query-params")
    tokens = three.segmented_control("Tokens", TOKENS, default="CLS", key="tokens", bind="query-params", required=True)
    axes = four.segmented_control("Axes", AXES, default=AXES[0], key="axes", bind="query-params", required=True)
    twin = other(visit, offered[names.index(name)])
    if visit.classes != twin.classes:
        raise UserError(f"{name} tells {len(twin.classes)} classes apart, {visit.entry.name} other ones ({len(visit.classes)})")
    pair = Pair((visit, twin), (visit.entry.name, name), min(count, len(visit.data)))
    return pair, TOKENS[tokens or "CLS"], axes or AXES[0]


def _likely(visit: Visit, offered: list[Entry]) -> int:
    """The first of the list that sees the same images, as far as its config says."""
    wanted = _inputs(visit.entry)
    return next((i for i, entry in enumerate(offered) if _inputs(entry) == wanted), 0)


def _instead(visit: Visit, offered: list[Entry]) -> str:
    """What to choose in the sidebar where no other model sees the images of this one."""
    seen = [_inputs(entry) for entry in offered]
    pairs = [entry.name for entry, inputs in zip(offered, seen) if inputs[0] is not None and seen.count(inputs) > 1]
    if _inputs(visit.entry) in seen or not pairs:
        return ""
    return f" Models that have a partner here: {panels.plain(', '.join(pairs))}; choose one of them in the sidebar."


def _inputs(entry: Entry) -> tuple:
    model = entry.config.get("model") or {}
    return tuple(model.get(key) for key in ("img_size", "in_chans", "num_classes"))


def _shown(pair: Pair, tokens: str, axes: str, numbers) -> None:
    """All blocks; each can fail alone."""
    paths = lenses = None
    left, right = st.columns(2)
    with left, panels.section():
        paths = _paths(pair, tokens, axes)
    with right, panels.section():
        lenses = tuple(found[0] for found in pair.both("lens", pair.count))
        _chances(pair, lenses)
    if paths and lenses:
        with numbers:
            _numbers(pair, paths, lenses)
    if pair.wanted(SPECTRA_SOLVES, "the eigenvalues and rates of both", "ask_spectra"):
        left, right = st.columns(2)
        with left, panels.section():
            _spectra(pair)
        with right, panels.section():
            _rates(pair)
    left, right = st.columns(2)
    with left, panels.section():
        if lenses:
            _decisions(pair, lenses)
    with right, panels.section():
        if paths:
            _speeds(pair, paths)
    with panels.section("Verdicts"):
        verdict_pairs.show(pair.visits, pair.names, pair.name("verdicts"), pair.command)


def _paths(pair: Pair, tokens: str, axes: str) -> tuple[TokenPathReport, TokenPathReport]:
    """Paths of both on common axes."""
    widths = [visit.model.config.embed_dim for visit in pair.visits]
    aligned = axes == "aligned" or widths[0] != widths[1]
    first, second = (_side(pair, order, tokens, aligned) for order in (0, 1))
    forced = f"Widths {widths[0]} and {widths[1]} differ, so that no axes are shared: " if widths[0] != widths[1] else ""
    how = "principal axes of each, the second's turned onto the first's (Procrustes)" if aligned else "axes of both pooled"
    panels.plot(
        pair.first, partial(charts.paired_paths, first, second, pair.names, at=pair.first.t), (first, second),
        name=pair.name("paths"), first=True, title="Paths of both models on common axes", status="measured", what=_PATHS,
        note=f"{forced}{how}; {pair.count} images; the slider moves both at equal shares of their ways.",
        paper=partial(paired_figure, first, second, pair.names),
    )  # fmt: skip
    return first, second


def _side(pair: Pair, order: int, tokens: str, aligned: bool) -> TokenPathReport:
    """The paths of one of the two models, on axes that need both."""
    visit, partner = pair.visits[order], pair.visits[1 - order]

    def compute(who: Subject) -> Report:
        theirs = subject(double(partner.entry), partner.some(pair.count).images, seed=partner.seed)
        solved = [one.trajectory(one.images) for one in (who, theirs)]
        return paired_paths(*(solved if order == 0 else solved[::-1]), tokens=tokens, aligned=aligned)[order]

    settings = f"1: {partner.hash}, {tokens}, {aligned}, {order}"
    return computing.custom(visit, "pair_paths", settings, [(f"paths of {visit.entry.name}", compute)], pair.count)[0]


def _numbers(pair: Pair, paths: tuple[TokenPathReport, TokenPathReport], lenses: tuple[LensReport, LensReport]) -> None:
    """What both say of the chosen image, how often they agree, how far apart the paths are."""
    said = [lens.prediction[-1] for lens in lenses]
    agree, names = int((said[0] == said[1]).sum()), tuple(map(panels.plain, pair.first.classes))
    panels.numbers([
        *(
            (f"{name} says", names[int(p[0])], f"Of the chosen image; decided at t = {lens.decision_time[0]:.3g}.")
            for name, p, lens in zip(pair.names, said, lenses)
        ),
        ("Same prediction", f"{agree} of {len(said[0])} images", "Of the images that are compared here."),
        ("Distance of the paths", f"{mismatch(*paths):.2f}", "||A - B|| / ||A - mean A|| on the drawn axes; 0: the same path."),
    ])  # fmt: skip


def _chances(pair: Pair, lenses: tuple[LensReport, LensReport]) -> None:
    """Probabilities at T."""
    made = partial(charts.paired_chances, lenses, pair.names, pair.first.classes, pair.first.label)
    panels.plot(
        pair.first, made, lenses, name=pair.name("chances"), first=True, title="Class probabilities at T", status="measured",
        what=_CHANCES,
        note="The chosen image.", command=pair.command, paper=_beside("logit_lens", [[lens] for lens in lenses], pair),
    )  # fmt: skip


def _decisions(pair: Pair, lenses: tuple[LensReport, LensReport]) -> None:
    """Probability of the final class along the way."""
    panels.plot(
        pair.first, partial(charts.paired_decisions, lenses, pair.names, pair.first.classes), lenses,
        name=pair.name("decisions"),
        title="Probability of the final class along the way", status="measured", what=_DECISIONS, note="The chosen image.",
        command=pair.command, paper=_beside("logit_lens", [[lens] for lens in lenses], pair),
    )  # fmt: skip


def _speeds(pair: Pair, paths: tuple[TokenPathReport, TokenPathReport]) -> None:
    """How fast CLS moves."""
    panels.plot(
        pair.first, partial(charts.paired_speeds, paths, pair.names), paths, name=pair.name("speeds"), title="Speed of CLS",
        status="measured", what=_SPEEDS, note=f"{pair.count} images.", command=pair.command,
        paper=partial(paired_speeds, *paths, pair.names),
    )  # fmt: skip


def _beside(name: str, groups: list, pair: Pair):
    """The figure of this name for each model, in two panels."""
    return partial(side_by_side, figures.FIGURES[name], groups, pair.names)


def _spectra(pair: Pair) -> None:
    """Eigenvalues of both with both stability regions."""
    spectra = pair.both("eigenvalues")
    regions, solvers = [], []
    for visit, name in zip(pair.visits, pair.names):
        reason = _no_region(visit)
        regions.append(None if reason else computing.reports(visit, "stability_region")[0])
        solver, h = visit.model.solver, visit.model.grid.h
        solvers.append(f"No region of {name}: {reason}." if reason else f"{name}: {solver.method}, h = {h:.3g}.")
    steps = (pair.visits[0].model.grid.h, pair.visits[1].model.grid.h)
    residual = max(float(np.nan_to_num(r.residuals).max()) for group in spectra for r in group)
    groups = [[list(group), region, h] for group, region, h in zip(spectra, regions, steps)]
    panels.plot(
        pair.first, partial(charts.paired_spectra, spectra, regions, steps, pair.names, at=pair.first.t),
        [*spectra[0], *spectra[1]],
        name=pair.name("spectra"), title="Eigenvalues of both Jacobians, both stability regions", status="measured",
        what=_SPECTRA, note=" ".join([f"Of largest modulus; residual up to {residual:.0e} 1/t.", *solvers]),
        command=pair.command, paper=_beside("jacobian_eigenvalues", groups, pair),
    )  # fmt: skip


def _no_region(visit: Visit) -> str:
    """Why no stability region of the model's step can be drawn; '' where it can."""
    method = visit.model.solver.method
    adaptive = find_method(method).kind == "adaptive"
    return f"{method} chooses its own steps" if adaptive else computing.why_not(visit, "stability_region")


def _rates(pair: Pair) -> None:
    """||J|| and mu(J) of both over the way."""
    one, two = ([r.t for r in computing.reports(visit, "eigenvalues")] for visit in pair.visits)
    rates = (shared_reports.rates(pair.visits[0], one), shared_reports.rates(pair.visits[1], two))
    residual = max(float(np.nan_to_num(r.residuals[..., :2]).max()) for group in rates for r in group)
    exact = all(r.dense for group in rates for r in group)
    side = "exact, by LAPACK" if exact else f"Ritz values, found from below, residual up to {residual:.0e} 1/t"
    panels.plot(
        pair.first, partial(charts.paired_rates, rates, pair.names), [*rates[0], *rates[1]], name=pair.name("rates"),
        title="Norm and logarithmic norm of J", status="measured", what=_RATES, note=f"The chosen image; {side}.",
        command=pair.command, paper=_beside("norms_over_time", [[list(group)] for group in rates], pair),
    )  # fmt: skip
