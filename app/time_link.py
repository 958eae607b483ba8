"""The time that a slider of a plot shows, kept across pages and in the URL.

The slider itself moves in the browser. A script beside it writes t into the URL at once, so that a link or a reload opens the
same view, and tells the server when the slider has come to rest, so that other pages start there.
"""

import math

import streamlit as st

KEY = "time link"
SCRIPT = """
const REST = 700;  // milliseconds without a movement
let timer = null, watch = null;
export default function ({ setStateValue }) {
  const moved = (event) => {
    const t = event.step.label, url = new URL(window.location);
    url.searchParams.set("t", t);
    window.history.replaceState(window.history.state, "", url);
    clearTimeout(timer);
    timer = setTimeout(() => setStateValue("t", t), REST);
  };
  const follow = () => document.querySelectorAll(".js-plotly-plot").forEach((plot) => {
    if (plot.followed || !plot.on) return;
    plot.followed = true;
    plot.on("plotly_sliderchange", moved);
  });
  clearInterval(watch);
  watch = setInterval(follow, 300);  // plots come and go
  return () => { clearInterval(watch); clearTimeout(timer); };
}
"""


def follow() -> None:
    """Watch the sliders of the page."""
    watch = st.components.v2.component("time_link", js=SCRIPT, html="<span></span>")
    watch(key=KEY, on_t_change=lambda: None)


def time_asked() -> float | None:
    """Where time sliders start: the last of URL, slider and widget that changed; None where none says a number."""
    state, seen = st.session_state, st.session_state.setdefault("times seen", {})
    found = {
        "url": st.query_params.get("t"), "slider": (state.get(KEY) or {}).get("t"), "widget": state.get("t"),
    }  # fmt: skip
    for source, value in found.items():
        if value is not None and seen.get(source) != value:
            seen[source] = value
            seen["last"] = value
    try:
        value = float(seen["last"])
    except (KeyError, TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None
