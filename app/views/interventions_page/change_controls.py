"""The controls of the page Interventions: what is changed, when, and where; the selection is in the URL."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from analysis.interventions import Change, KnockOut, KnockOutHead, Patch, Perturb
from analysis.token_paths import patch_region
from app import charts, panels
from app.state import Visit

MEAN_OF = 8  # images of which the mean state is taken
KINDS = ("Knock out", "Patch in", "Perturb", "Head")
PLACES = ("Patches", "CLS", "Registers", "All")


@dataclass(frozen=True)
class Choice:
    """What a visitor changes.

    Attributes:
        change: what.   t: when.   tokens: where; None: a head, from then on.
        everywhere: all that changes the numbers, beside time and place.   images: how many it looks at, the chosen one first.
    """

    change: Change
    t: float
    tokens: list[int] | None
    everywhere: str
    images: int = 1


def choose(visit: Visit) -> tuple[Choice, Any, Any]:
    """The change that the controls describe, and two places beside the image for plots."""
    with st.container(border=True):
        first, second, third, fourth = st.columns([6, 5, 3, 3])
    kind = first.segmented_control("Change", KINDS, default=KINDS[0], key="change", bind="query-params", required=True)
    with third:
        t = _time(visit)
    if kind == KINDS[3]:
        heads = visit.model.config.num_heads
        head = second.segmented_control("Head", range(heads), default=0, key="silent", bind="query-params", required=True)
        return Choice(KnockOutHead(head or 0), t, None, "heads"), *st.columns(2)
    with second:
        where = _where(visit)
    with fourth:
        change, said, images = {KINDS[1]: _patch, KINDS[2]: _perturb}.get(kind or "", _knock_out)(visit)
    if where != "Patches":
        with second:
            tokens = _named(visit, where)
        return Choice(change.at(tokens), t, tokens, said, images), *st.columns(2)
    beside, left, right = st.columns([4, 5, 5])
    with beside, st.container(border=True):
        tokens = _patches(visit)
    return Choice(change.at(tokens), t, tokens, said, images), left, right


def _time(visit: Visit) -> float:
    times = [float(f"{t:.6g}") for t in visit.model.grid.times]
    asked = visit.t
    if asked is not None and asked not in times:  # of a model with other steps
        st.session_state["t"] = min(times, key=lambda t: abs(t - asked))
    chosen = st.select_slider(
        "Time t (layers)", times, times[len(times) // 2], key="t", bind="query-params",
        format_func="{:g}".format,
        help="The flow is restarted here with the changed state; at the last time only the readout is left.",
    )  # fmt: skip
    return visit.model.grid.times[times.index(chosen)]


def _where(visit: Visit) -> str:
    places = [p for p in PLACES if p != "Registers" or visit.model.layout.num_registers]
    if st.session_state.get("where") not in (None, *places):
        del st.session_state["where"]
    where = st.segmented_control("Tokens", places, default=places[0], key="where", bind="query-params", required=True)
    return where or places[0]


def _named(visit: Visit, where: str) -> list[int]:
    """Indices of the tokens of a name."""
    layout = visit.model.layout
    if where != "Registers":
        return [0] if where == "CLS" else list(range(layout.size))
    st.session_state["register"] = [i for i in st.session_state.get("register", ()) if i < layout.num_registers]
    chosen = st.pills(
        "Registers (none chosen: all)", range(layout.num_registers), selection_mode="multi", key="register",
        bind="query-params", format_func="reg {}".format,
    )  # fmt: skip
    return [layout.registers.start + i for i in chosen or range(layout.num_registers)]


def _patches(visit: Visit) -> list[int]:
    """Patches of a rectangle, set by sliders or selected on the image."""
    rows, columns = (_span(name, count) for name, count in zip(("rows", "columns"), visit.model.layout.grid))
    figure = charts.patch_chooser(visit.image, visit.model.layout.grid, rows, columns)
    config = {"displayModeBar": False}
    st.plotly_chart(figure, key="chooser", on_select=_select, selection_mode="points", config=config)
    st.caption("Click a patch; the sliders take several.")
    return patch_region(slice(rows[0], rows[1] + 1), slice(columns[0], columns[1] + 1), visit.model.layout)


def _span(name: str, count: int) -> tuple[int, int]:
    """First and last of the rows or columns."""
    if count == 1:
        return 0, 0
    if not all(0 <= i < count for i in st.session_state.get(name, ())):  # of a model with more patches
        del st.session_state[name]
    middle = ((count - 1) // 2, count // 2)
    first, last = st.slider(f"{name} of patches".capitalize(), 0, count - 1, middle, key=name, bind="query-params")
    return first, last


def _select() -> None:
    """The rectangle around what was selected on the image."""
    points = st.session_state["chooser"].selection.points
    if points:
        for name, values in (("columns", [p["x"] for p in points]), ("rows", [p["y"] for p in points])):
            st.session_state[name] = (int(min(values)), int(max(values)))


def _knock_out(visit: Visit) -> tuple[Change, str, int]:
    several = len(visit.data) > 1
    if not several and st.session_state.get("by") == "mean":
        del st.session_state["by"]
    help_text = f"mean: of the same token at the same time over {MEAN_OF} images of the split"
    mode = st.segmented_control(
        "Replaced by", ("zero", "mean") if several else ("zero",), default="zero", key="by", bind="query-params", required=True,
        help=help_text,
    )  # fmt: skip
    if mode == "mean":
        return KnockOut(mode="mean"), f"mean over {MEAN_OF}", MEAN_OF
    return KnockOut(), "zero", 1


def _patch(visit: Visit) -> tuple[Change, str, int]:
    """The image whose tokens are put in, of the same split."""
    last = len(visit.data) - 1
    if int(st.session_state.get("source") or 0) > last:
        del st.session_state["source"]
    number, shown = st.columns([2, 1], vertical_alignment="bottom")
    source = int(number.number_input("From image", 0, last, min(1, last), key="source", bind="query-params"))
    pixels, label = visit.data.images[source], int(visit.data.labels[source])
    shown.image(np.moveaxis(pixels.numpy(), 0, -1).squeeze(), width=64)
    name = f"class {panels.plain(visit.data.classes[label])}" if 0 <= label < len(visit.data.classes) else "class not known"
    same = "; the image itself, so nothing changes" if source == visit.index else ""
    number.caption(f"{name}{same}")
    digest = hashlib.sha256(pixels.numpy().tobytes()).hexdigest()[:16]
    return Patch(visit.model.preprocess(pixels[None]).double()), f"patch from {digest}", 1


def _perturb(visit: Visit) -> tuple[Change, str, int]:
    directions = {"most_sensitive": "most sensitive", "random": "random"}
    direction = st.segmented_control(
        "Direction", directions, default="most_sensitive", key="direction", bind="query-params", required=True,
        format_func=lambda name: directions[name],
        help="most sensitive: minus the gradient of the margin between the two first classes; random: Gaussian, from the seed",
    )  # fmt: skip
    size = st.number_input("Norm (state), of all tokens together", 0.0, 1e3, 5.0, 0.5, key="push", bind="query-params")
    made = Perturb(size, "random" if direction == "random" else "most_sensitive", seed=visit.seed)
    return made, f"perturb: {direction}, {size!r}", 1
