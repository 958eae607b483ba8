"""Overview."""

import streamlit as st

from app import panels


def show(visit):
    """Overview."""
    panels.head("Overview", "x")
    st.write(visit.link)
