"""What a link may say beside what Streamlit understands by itself, and what it must not say."""

from collections.abc import Mapping

import numpy as np
import streamlit as st

from .state import unknown


def follow(name: str, labels: Mapping[str, str]) -> str:
    """Let a link name an option by its name, where Streamlit's URL has its label; called before the widget is drawn.

    Returns: a note where the link names neither; it is then ignored.
    """
    asked = st.query_params.get(name)
    if asked is not None and labels.get(asked, asked) != asked:
        del st.query_params[name]
        st.session_state[name] = asked
        return ""
    return unknown(name, (*labels, *labels.values()))


def drop_infinite() -> None:
    """Follow a link without its numbers that are infinite or no numbers (1e999, nan): Streamlit's number inputs break on them.

    Called before any widget is drawn; the script then starts anew, since widgets read what was in the link at its start.
    """
    broken = [name for name in st.query_params if any(map(_infinite, st.query_params.get_all(name)))]
    for name in broken:
        del st.query_params[name]
    if broken:
        st.rerun()


def _infinite(text: str) -> bool:
    try:
        return not np.isfinite(float(text))
    except ValueError:
        return False
