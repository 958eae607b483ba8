"""Stability: exponents of the flow, a perturbed picture and the bounds on what it does, exponents over images."""

import streamlit as st

from app import panels
from app.state import Visit

from .flow_exponents import of_image, over_images
from .perturbed_pair import perturbed


def show(visit: Visit) -> None:
    """The numbers; exponents of this image; a perturbed picture; exponents over images when asked for."""
    panels.head("Stability", "How fast do neighbouring paths separate, and what does a changed picture do to path and class?")
    numbers = st.empty()
    said: list[tuple[str, str, str]] = []
    for title, part in (("", of_image), ("A perturbed picture", perturbed)):
        with panels.section(title):
            said += part(visit)
        if said:
            with numbers.container():
                panels.numbers(said)
    with panels.section("Over images"):
        over_images(visit)
