"""What a computation will take, foretold from its multiply-adds: done at once, done when asked for, or refused."""

from typing import Any

import streamlit as st

from app import panels
from app.state import Visit
from odevit.evaluate import macs

SPEED = 3e9  # multiply-adds a second in float64 on one core
AT_ONCE, LIMIT = 20, 900  # seconds: what is started unasked, what is started at all
PART = 1.5  # seconds of work that a visitor who stops may lose


def wanted(visit: Visit, solves: float, what: str, key: str, job: str = "") -> bool:
    """Whether to compute what costs as much as so many solves of one image; draws a switch, or says why not.

    Args:
        what: in words, after "Compute".   key: of the switch, and its parameter in the URL.
        job: reports of `odevit analyze` that hold the same.
    """
    seconds = solves * seconds_of(visit.hash, visit.model)
    if seconds > LIMIT:
        elsewhere = f" `odevit analyze {visit.entry.argument} --reports {job}` computes it, and can use a GPU." if job else ""
        panels.nothing(f"About {duration(seconds)} on one core for {what}: too long for a page.{elsewhere}")
        return False
    return seconds < AT_ONCE or st.toggle(f"Compute {what} (about {duration(seconds)})", key=key, bind="query-params")


@st.cache_data(max_entries=16, show_spinner=False)
def seconds_of(name: str, _model: Any) -> float:
    """About what one solve of one image takes; `name` stands for the model."""
    return macs(_model) / SPEED


def images_a_part(visit: Visit, solves: float) -> int:
    """How many images make a part of about PART seconds, at so many solves an image; at least one."""
    return max(1, int(PART / (solves * seconds_of(visit.hash, visit.model))))


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 1:
        return "a second"
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"
