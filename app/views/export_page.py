"""Export: everything that was computed in this visit in one archive, with figures, commands and the origin of every number."""

import streamlit as st

from app import exports, panels
from app.exports import Made
from app.state import Visit


def show(visit: Visit) -> None:
    """The page."""
    panels.head("Export", "Everything that you have looked at in this visit: tables, arrays, figures, commands, provenance.")
    kept: dict[str, Made] = st.session_state.get("made", {})
    if not kept:
        panels.nothing("Nothing has been shown yet. Open a page; what it shows is then listed here.")
        return
    panels.numbers([
        ("Plots", str(len(kept)), "Each once for a model and an image; the last look counts."),
        ("Arrays", f"{sum(made.size for made in kept.values()) / 1e6:.2f} MB", "Before compression."),
    ])  # fmt: skip
    _dropped()
    names = st.multiselect(
        "In the archive", list(kept), list(kept), format_func=lambda stem: f"{kept[stem].title}: {stem}", key="chosen"
    )
    chosen = [kept[name] for name in names]
    st.download_button(
        "Download the archive (zip)", lambda: exports.archive(chosen), file_name=f"{visit.entry.name}-visit.zip", key="archive",
        on_click="ignore", type="primary", icon=":material/archive:", disabled=not chosen,
    )  # fmt: skip
    st.caption("Made when you click; figures are drawn then, about a second each.")
    with panels.section("Contents"):
        _contents(chosen)


def _dropped() -> None:
    if dropped := st.session_state.get("dropped", 0):
        limit = panels.KEPT_BYTES // 1_000_000
        panels.nothing(f"{dropped} older plots were let go: a visit keeps {panels.KEPT_PLOTS} plots or {limit} MB.")


def _contents(chosen: list[Made]) -> None:
    """A row for each plot: its files, where it was seen, and the origin of its numbers."""
    rows = []
    for made in chosen:
        files = ", ".join(["csv", "npz", *(["pdf", "png"] if made.paper else [])])
        origin = made.reports[0].provenance
        facts = {"plot": made.title, "files": files, "view": made.link, "model": origin.model}
        rows.append({**facts, "seed": origin.seed, "dtype": origin.dtype})
    st.dataframe(rows, hide_index=True)
