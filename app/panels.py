"""What pages are made of: a head, a few numbers, sections whose errors become boxes, plots with their grounds and downloads."""

import copy
import hashlib
import logging
import pickle
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import streamlit as st

from analysis.reports import Report
from odevit.errors import NonFiniteError, UserError

from . import computing, exports, nearness
from .charts import look
from .exports import Made
from .state import Visit

log = logging.getLogger("odevit.app")

STATUS = {  # colour and icon of each status; the word itself is always there too
    "proven": ("green", ":material/verified:"),
    "measured": ("blue", ":material/straighten:"),
    "vacuous": ("orange", ":material/warning:"),
}
KEPT_FIGURES = 32  # of all visitors, in memory
KEPT_BYTES, KEPT_PLOTS = 32_000_000, 60  # of what one visitor has seen, for the page Export
CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": ["lasso2d", "select2d"], "responsive": True}


def head(title: str, sentence: str) -> None:
    """The title of a page and what it shows, in one sentence."""
    st.header(title, anchor=False)
    st.caption(sentence)


def numbers(items: Sequence[tuple[str, str, str]]) -> None:
    """At most four numbers on top of a page: (what, value with unit, help)."""
    if len(items) > 4:
        raise ValueError(f"{len(items)} numbers; a page has at most four")
    for column, (label, value, help_text) in zip(st.columns(len(items)), items):
        column.metric(label, value, help=help_text or None)


@contextmanager
def section(title: str = "") -> Iterator[None]:
    """A block of a page; what goes wrong in it becomes a box, and the page goes on."""
    with st.container():
        if title:
            st.subheader(title, anchor=False)
        try:
            yield
        except computing.Stopped as stop:
            st.info(f"Stopped: {stop}.", icon=":material/stop_circle:")
            st.button("Go on", key=f"go on {stop.key}", on_click=computing.go_on, args=(stop.key,))
        except (UserError, NonFiniteError) as error:
            st.error(said(error), icon=":material/error:")
        except Exception as error:
            log.exception("page section %r", title)
            st.error(
                f"Something broke here ({type(error).__name__}); the server's log has the details.", icon=":material/error:"
            )


def nothing(text: str) -> None:
    """The place of a plot that makes no sense here, with the reason."""
    st.info(text, icon=":material/block:")


def plot(
    visit: Visit, figure: Callable[[], Any], reports: Sequence[Report], *, name: str, title: str, status: str, what: str,
    paper: Callable[[], Any] | None = None, note: str = "", command: str = "", first: bool = False,
) -> None:  # fmt: skip
    """A plot with its title, status, explanation and downloads, drawn when it comes near the screen.

    Args:
        figure: -> plotly figure; a `partial` of a function of a module, told apart by its arguments.
        reports: what it shows.   name: stable and unique in the app, part of file names.
        status: measured, proven or vacuous.   what: formula and reference, Markdown.   note: side, residual, what was left out.
        paper: -> the matplotlib figure of the same, for PDF and PNG.   command: how to compute it without a browser.
        first: on the first screen of its page, so that it is drawn at once.
    """
    made = remember(visit, reports, name=name, title=title, paper=paper, command=command)
    if first:
        st.session_state.setdefault("near", set()).add(name)
    with st.container(border=True):
        st.markdown(f"**{said(title)}**")
        _body(figure, made, name, status, what, note)


@st.fragment
def _body(figure: Callable[[], Any], made: Made, name: str, status: str, what: str, note: str) -> None:
    """What a plot is below its title; a fragment, since it comes near by itself."""
    if not nearness.near(name, look.HEIGHT):
        return
    with section():
        shown, sent = drawn(figure, st.context.theme.type == "dark")
        if sent > look.MAX_BYTES:
            nothing(f"This plot would send {sent / 1e6:.1f} MB to the browser (limit {look.MAX_BYTES / 1e6:.0f} MB).")
        else:
            st.plotly_chart(shown, key=f"plot {name}", width="stretch", config=CONFIG, alt=made.title)
        colour, icon = STATUS[status]
        st.markdown(f":{colour}-badge[{icon} {status}] {f'&nbsp; :small[{note}]' if note else ''}")
        with st.expander("What is this?"):
            st.markdown(what)
            st.code(made.command, language="bash", wrap_lines=True)
        downloads(made, name, html=lambda: shown.to_html(include_plotlyjs=True, auto_play=False))


def drawn(figure: Callable[[], Any], dark: bool) -> tuple[Any, int]:
    """The figure as the page shows it, a copy, and its bytes; made once for the same arrays, since a copy is sooner there."""
    return _drawn(hashlib.sha256(pickle.dumps(figure)).hexdigest(), dark, figure)


@st.cache_data(max_entries=KEPT_FIGURES, show_spinner=False)
def _drawn(key: str, dark: bool, _figure: Callable[[], Any]) -> tuple[Any, int]:
    made = copy.copy(look.inked(_figure(), dark))  # as those from the cache are, whose keys have another order
    return made, look.size(made)


def plain(text: str) -> str:
    """Text whose characters mean nothing to Markdown: |J|, e^(LT), $ stay as they are."""
    return re.sub(r"([\\`*_{}\[\]<>#|$~^:])", r"\\\1", text)


def said(what: object) -> str:
    """An error or a title in one line; names of files and classes in it are text, and no link or picture."""
    return re.sub(r"([\\`*{}\[\]<>#|$~^])", r"\\\1", " ".join(str(what).split()))


def downloads(made: Made, name: str, **texts: Callable[[], str]) -> None:
    """Buttons whose files are made when they are clicked, without running the page again.

    Args:
        name: unique in the app.   texts: further files, suffix -> what makes its text.
    """
    kinds: dict[str, Callable[[], bytes]] = {
        "csv": partial(exports.table, made.reports), "npz": partial(exports.arrays, made.reports),
        **{suffix: partial(_encoded, make) for suffix, make in texts.items()},
    }  # fmt: skip
    if made.paper is not None:
        kinds |= {kind: partial(exports.drawing, made.paper, kind) for kind in ("pdf", "png")}
    with st.container(horizontal=True, gap="small"):
        for kind, make in kinds.items():
            st.download_button(
                kind.upper(), make, file_name=f"{made.stem}.{kind}", key=f"{kind} {name}", on_click="ignore", type="tertiary",
                icon=":material/download:",
            )  # fmt: skip


def _command(visit: Visit, name: str) -> str:
    return f"odevit app {shlex.quote(str(visit.entry.path.parent))}   # then open {visit.link} ({name})"


def _encoded(make: Callable[[], str]) -> bytes:
    return make().encode()


def remember(
    visit: Visit, reports: Sequence[Report], *, name: str, title: str, paper: Callable[[], Any] | None, command: str = ""
) -> Made:  # fmt: skip
    """Keep what was shown for the page Export, the latest within a limit; arguments as of `plot`."""
    made = Made(f"{visit.name}-{name}", title, tuple(reports), paper, visit.link, command or _command(visit, name))
    kept: dict[str, Made] = st.session_state.setdefault("made", {})
    kept.pop(made.stem, None)
    kept[made.stem] = made
    while len(kept) > 1 and (len(kept) > KEPT_PLOTS or sum(m.size for m in kept.values()) > KEPT_BYTES):
        kept.pop(next(iter(kept)))
        st.session_state["dropped"] = st.session_state.get("dropped", 0) + 1
    return made
