"""Streamlit's command line with the libraries of the app loaded first, so that its first visitor does not wait for them."""

import importlib

from streamlit.web.cli import main

HEAVY = ("analysis.figures", "analysis.running.jobs", "app.charts", "odevit.data", "odevit.teachers", "pandas")

if __name__ == "__main__":
    for name in HEAVY:
        importlib.import_module(name)
    main(prog_name="streamlit")
