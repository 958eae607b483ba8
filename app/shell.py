"""The app around its pages: page config, sidebar, navigation; a page is a function of the visit, imported when it is opened."""

import gc
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any

import streamlit as st
from PIL import Image, ImageDraw

from . import nearness, panels, sidebar, time_link


@dataclass(frozen=True)
class Chapter:
    """A page: its module under views, title, path of its URL, icon."""

    module: str
    title: str
    path: str
    icon: str


CHAPTERS = (
    Chapter("overview_page", "Overview", "overview", ":material/fact_check:"),
    Chapter("predict_page", "Predict", "predict", ":material/image_search:"),
    Chapter("trajectories_page", "Trajectories", "trajectories", ":material/timeline:"),
    Chapter("attention_page", "Attention", "attention", ":material/center_focus_strong:"),
    Chapter("spectra_page", "Spectra", "spectra", ":material/scatter_plot:"),
    Chapter("lipschitz_page", "Lipschitz", "lipschitz", ":material/speed:"),
    Chapter("stability_page", "Stability", "stability", ":material/balance:"),
    Chapter("solver_page", "Solver", "solver", ":material/stairs:"),
    Chapter("interventions_page", "Interventions", "interventions", ":material/build:"),
    Chapter("compare_page", "Compare", "compare", ":material/compare:"),
    Chapter("export_page", "Export", "export", ":material/archive:"),
)
STYLE = """<style>
.stMainBlockContainer {padding-top: 4rem; padding-bottom: 4rem}
@media (max-width: 1050px) {
  .stMain [data-testid="stHorizontalBlock"] {flex-wrap: wrap}
  .stMain [data-testid="stColumn"] {min-width: calc(100% - 1.5rem)}
  .stMain [data-testid="stColumn"]:has([data-testid="stMetric"]) {min-width: 40%}
}
</style>"""  # the first plot without scrolling; one column on narrow screens, where Streamlit still has several
PAGES: dict[str, Any] = {}  # by path, for links between pages: of whichever visitor's run came last, they are alike


def run(only: str = "") -> None:
    """Draw the app; with `only` just the page of that module, without navigation (for tests of one page)."""
    _leave_libraries_alone()
    st.set_page_config(page_title="ODE-ViT workbench", page_icon=_icon(), layout="wide")
    st.html(STYLE)
    if only:
        visit = sidebar.choose()
        if visit is not None:
            _show(only, visit)
        return
    pages = {
        c.path: st.Page(partial(_open, c), title=c.title, url_path=c.path, icon=c.icon, default=c is CHAPTERS[0])
        for c in CHAPTERS
    }
    page = st.navigation(list(pages.values()), position="top")  # this run's own: a page of another visitor's run cannot be run
    PAGES.update(pages)
    visit = sidebar.choose()  # here and not in the page: widgets of a page lose their value when another is opened
    if visit is not None:
        st.session_state["visit"] = visit
        page.run()
        time_link.follow()
        del st.session_state["visit"]  # a visitor who only looks holds no model and no images beside those that are cached


@cache
def _leave_libraries_alone() -> None:
    """Spare the collector, which Streamlit calls after every run, the objects of the libraries: 0.2 s of each click."""
    gc.collect()
    gc.freeze()


def _icon() -> Image.Image:
    """A trajectory that settles; made here, since Streamlit would fetch an emoji or a symbol from the internet."""
    picture = Image.new("RGB", (64, 64), "#0072B2")
    points = [(6 + 2 * i, 32 - 22 * math.exp(-i / 9) * math.cos(i / 2.5)) for i in range(27)]
    ImageDraw.Draw(picture).line(points, fill="white", width=6, joint="curve")
    return picture


def _open(chapter: Chapter) -> None:
    address = "" if chapter is CHAPTERS[0] else chapter.path  # the first page is at the root
    if st.session_state.get("page") != address:
        nearness.forget()
        st.session_state["page"] = address
    _show(chapter.module, st.session_state["visit"])


def _show(module: str, visit) -> None:
    with panels.section():
        show: Callable = import_module(f"app.views.{module}").show
        show(visit)


def link(path: str, label: str) -> None:
    """A link to another page of the app, as text where there is no navigation."""
    if path in PAGES:
        st.page_link(PAGES[path], label=label)
    else:
        st.markdown(label)
