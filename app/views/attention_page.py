"""Attention: where one token looks, head by head over time, what it is made of, and how wide and how far heads look."""

from functools import partial

import numpy as np
import streamlit as st

from analysis import figures
from analysis.attention_maps import attention_rows
from analysis.figures.attention_curves import uniform_distance
from analysis.reports import AttentionReport
from analysis.reports.paths import AttentionRowsReport
from app import charts, computing, panels
from app.state import Visit, unknown

from .patience import wanted

SOLVES = 2.6  # solves of one image that both reports together cost as much as
EVERYONE, ONE = "all tokens", "the query"

_MAPS = r"""Row of the query $i$ of $P = \mathrm{softmax}(q k^\top / \sqrt{d})$ (or of the model's own kind of
attention), recomputed at every saved time in float64; drawn on the patches, with the shares of CLS and registers below:
all of a row sums to 1. **Rollout** up to $t$ (Abnar and Zuidema 2020, arXiv 2005.00928): row $i$ of $A_k \cdots A_2
A_1$ with $A = (I + \overline{P}) / 2$, $\overline P$ the mean over heads of the maps at the steps before $t$; it says
of which initial tokens token $i$ is made. Its half residual is the published convention, not the model's step."""
_ENTROPY = r"""$H_i = -\sum_j P_{ij} \log P_{ij} \in [0, \log N]$ nats. 0: the head looks at one token; $\log N$
(dotted): it looks at all alike, and can only average."""
_DISTANCE = r"""$\sum_j P_{ij} \|\mathrm{pos}_i - \mathrm{pos}_j\|$ over patches, rows renormalised without CLS and
registers, in units of one patch (Dosovitskiy et al. 2021, arXiv 2010.11929, figure 7). Dotted: uniform attention."""
_SHARES = r"""Share of the attention that goes to CLS, to all patches, to all registers, mean over heads; dotted: what it
would be if attention were uniform. Registers (Darcet et al. 2024, arXiv 2309.16588) take up what would otherwise make
patches into artefacts: a share far above the dotted line says that they are used."""
_REGISTERS = r"""Share of the query's attention on CLS and each register, mean over heads: $\frac1H \sum_h P^h_{ij}$ for
$j$ outside the image grid."""


def show(visit: Visit) -> None:
    """The maps of the chosen query under a time slider, then the heads as curves, then where attention goes."""
    panels.head("Attention", "Where does each head look, and what is a token made of? Maps on the image, at every saved time.")
    numbers = st.container()
    query, own_scale, whose = _controls(visit)
    with panels.section():
        if not wanted(visit, SOLVES, "the attention of this image", "ask_attention", "attention"):
            return
        (report,) = computing.reports(visit, "attention")
        (rows,) = _rows(visit, query)
        with numbers:
            _numbers(report, rows)
        _maps(visit, report, rows, own_scale)
        left, right = st.columns(2)
        with left:
            _entropy(visit, report, query if whose == ONE else None)
        with right:
            _distance(visit, report, query if whose == ONE else None)
        left, right = st.columns(2)
        with left:
            _shares(visit, report, rows)
        with right:
            _registers(visit, rows)


def _controls(visit: Visit) -> tuple[int, bool, str]:
    """Position of the query token, whether each head has its own scale, whose curves are drawn."""
    layout = visit.model.layout
    order = [0, *range(layout.registers.start, layout.size), *range(layout.patches.start, layout.patches.stop)]
    names = {charts.token_name(i, layout): i for i in order}
    if note := unknown("query", tuple(names)):
        st.warning(note, icon=":material/link_off:")
    if st.session_state.get("query") not in (None, *names):  # left over from a model of other tokens
        del st.session_state["query"]
    left, middle, right = st.columns([2, 2, 2], vertical_alignment="bottom")
    asked = "The token that looks: CLS, a register, or a patch by its row and column from the top left, counted from 0."
    query = left.selectbox("Query", list(names), key="query", bind="query-params", help=asked)
    whose = middle.segmented_control(
        "Curves of", (EVERYONE, ONE), default=EVERYONE, key="whose", bind="query-params", required=True
    )  # fmt: skip
    own = right.toggle("Every head on its own scale", key="own", bind="query-params")
    return names[query], own, whose or EVERYONE


def _rows(visit: Visit, query: int) -> tuple[AttentionRowsReport, ...]:
    """The attention and rollout of one query."""
    name = charts.token_name(query, visit.model.layout)
    part = (f"attention of {name}", lambda who: attention_rows(who.model, who.trajectory(who.images), query))
    return computing.custom(visit, "attention_rows", f"1: query {query}", [part])


def _numbers(report: AttentionReport, rows: AttentionRowsReport) -> None:
    """How wide, how far, how much outside the grid, and the sharpest head; at the last time with attention."""
    entropy, top = report.entropy[:, 0, :, rows.query], float(np.log(report.entropy.shape[-1]))
    last = f"at t = {report.time[-1]:.4g} layers"
    k, head = np.unravel_index(int(entropy.argmin()), entropy.shape)
    patches = report.patch_grid[0] * report.patch_grid[1]
    on_registers = float(rows.rows[-1, 0, :, 1 + patches :].sum(-1).mean())
    distance = float(np.nanmean(report.distance[-1, 0])) if np.isfinite(report.distance[-1, 0]).any() else np.nan
    uniform = report.registers / report.entropy.shape[-1]
    panels.numbers([
        ("Entropy of the query", f"{entropy[-1].mean():.3f} nats", f"Mean over heads {last}; uniform: {top:.3f}."),
        ("Sharpest", f"head {head} at t = {report.time[k]:.4g}", f"Least entropy of the query: {entropy[k, head]:.3f} nats."),
        ("On registers", f"{on_registers:.1%}" if report.registers else "no registers",
         f"Of the query's attention, mean over heads {last}; uniform: {uniform:.1%}."),
        ("Distance of patches", f"{distance:.2f} patches", f"Mean over heads {last}; uniform: {uniform_distance(report):.2f}."),
    ])  # fmt: skip


def _maps(visit: Visit, report: AttentionReport, rows: AttentionRowsReport, own_scale: bool) -> None:
    """Mean, rollout and heads under one slider."""
    scale = "each map on its own scale" if own_scale else "mean and heads on one scale, the rollout on its own"
    discrete = len(rows.rollout_time) == len(rows.time)
    parts = (
        f"{rows.provenance.dtype}; {scale}.", charts.frames_note(len(rows.rollout_time) + 1),
        "After the last layer only the rollout is left." if discrete else "",
    )  # fmt: skip
    paper = partial(figures.cls_attention, report, picture=visit.image) if rows.query == 0 else None
    panels.plot(
        visit, partial(charts.head_maps, rows, visit.image, at=visit.t, own_scale=own_scale), [rows], name="attention-maps",
        first=True, title="Where the query looks, over time", status="measured", what=_MAPS, paper=paper,
        note=" ".join(filter(None, parts)),
    )  # fmt: skip


def _entropy(visit: Visit, report: AttentionReport, query: int | None) -> None:
    """How wide each head looks."""
    panels.plot(
        visit, partial(charts.head_entropy, report, 0, query), [report], name="attention-entropy", title="Entropy of each head",
        status="measured", what=_ENTROPY, note=_of(visit, query), paper=partial(figures.attention_heads, report),
    )  # fmt: skip


def _of(visit: Visit, query: int | None) -> str:
    return "Mean over all queries." if query is None else f"Of {charts.token_name(query, visit.model.layout)} alone."


def _distance(visit: Visit, report: AttentionReport, query: int | None) -> None:
    """How far each head looks; CLS and registers have no place on the grid."""
    patches = visit.model.layout.patches
    if query is not None and not patches.start <= query < patches.stop:
        name = charts.token_name(query, visit.model.layout)
        panels.nothing(f"Distance is measured between patches, and {name} has no place on the image. Choose a patch.")
        return
    patch = None if query is None else query - patches.start
    note = "Mean over all patches." if query is None else _of(visit, query)
    panels.plot(
        visit, partial(charts.head_distance, report, 0, patch), [report], name="attention-distance",
        title="Distance of each head",
        status="measured", what=_DISTANCE, note=note, paper=partial(figures.attention_heads, report),
    )  # fmt: skip


def _shares(visit: Visit, report: AttentionReport, rows: AttentionRowsReport) -> None:
    """What attention goes to: of the query and of all tokens."""
    panels.plot(
        visit, partial(charts.attention_shares, report, rows), [report, rows], name="attention-shares",
        title="Where attention goes", status="measured", what=_SHARES, note="Mean over heads; shares of one query sum to 1.",
        paper=partial(figures.attention_mass, report),
    )  # fmt: skip


def _registers(visit: Visit, rows: AttentionRowsReport) -> None:
    """CLS and the registers one by one."""
    if not rows.registers:
        panels.nothing("This model has no registers: outside the image there is only CLS.")
        return
    panels.plot(
        visit, partial(charts.register_shares, rows), [rows], name="attention-registers", title="CLS and registers one by one",
        status="measured", what=_REGISTERS, note="Mean over heads.",
    )  # fmt: skip
