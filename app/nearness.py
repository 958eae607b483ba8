"""Plots below the screen are drawn when they come near it, so that a page is there as soon as what it shows first is.

A mark stands in for such a plot. Its script tells the server once that the mark is near the screen; only that plot is made
then, by a fragment, and it stays until another page is opened. A link with `draw=all` draws whole pages, to print them.
"""

import streamlit as st

AHEAD = "50%"  # of the height of the screen, above and below it
SCRIPT = f"""
const APART = 40;  // milliseconds: of two at once Streamlit would rerun one fragment
const LATER = 400;  // milliseconds that what is not on the screen yet leaves to what is
const LEAVING = 1500;  // milliseconds after a click on a link: a fragment of the page that is left would empty the next one
const rest = (time) => new Promise((next) => setTimeout(next, time));
const leaves = (event) => {{ if (event.target.closest?.("a")) window.leftAt = performance.now(); }};
if (!window.watchesLinks) {{
  window.watchesLinks = true;
  document.addEventListener("click", leaves, true);
  window.addEventListener("popstate", () => {{ window.leftAt = performance.now(); }}, true);
}}
export default function ({{ parentElement, setStateValue }}) {{
  const mark = parentElement.host ?? parentElement;
  const born = performance.now();
  let gone = false;
  const leaving = () => window.leftAt > born && performance.now() - window.leftAt < LEAVING;
  const tell = async () => {{
    while (!gone && leaving()) await rest(APART);
    if (gone) return;
    setStateValue("near", true);
    await rest(APART);
  }};
  const watch = new IntersectionObserver(async (found) => {{
    if (!found.some((entry) => entry.isIntersecting)) return;
    watch.disconnect();
    if (mark.getBoundingClientRect().top > innerHeight) await rest(LATER);
    window.marksNear = (window.marksNear ?? Promise.resolve()).then(tell);
  }}, {{ root: document.querySelector('[data-testid="stMain"]'), rootMargin: "{AHEAD} 0px" }});
  watch.observe(mark);
  return () => {{ gone = true; watch.disconnect(); }};
}}
"""


def forget() -> None:
    """Another page is opened, or the same anew: nothing of it has come near."""
    st.session_state["near"] = set()


def near(name: str, height: int) -> bool:
    """Whether a plot is to be drawn; if not, its mark is, `height` pixels high."""
    seen: set[str] = st.session_state.setdefault("near", set())
    if st.query_params.get("draw") == "all":
        st.session_state["whole pages"] = True  # the URL forgets it when another page is opened
    if name in seen or st.session_state.get("whole pages"):
        return True
    blank = f'<div style="height: {height}px"></div>'
    mark = st.components.v2.component("nearness", js=SCRIPT, html=blank)
    return bool(mark(key=f"near {name}", on_near_change=lambda: seen.add(name)).near)
