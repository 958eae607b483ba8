"""Plots below the screen: not drawn before they come near, yet known to the page Export; made once for the same arrays."""

from functools import partial

import numpy as np
from app_pages import open_page, problems

from app import panels
from app.charts import look

CALLS = []


def drawing(values):
    """A chart that notes that it was made."""
    import plotly.graph_objects as go

    CALLS.append(len(values))
    return look.lay_out(go.Figure(go.Scatter(y=values)), "x (1)", "y (1)")


def test_only_the_first_screen_is_drawn_and_all_is_exported(models, monkeypatch):
    near = open_page("predict_page", models, monkeypatch, draw="", model="ode")
    whole = open_page("predict_page", models, monkeypatch, model="ode")
    assert problems(near) == problems(whole) == []
    assert [len(at.get("plotly_chart")) for at in (near, whole)] == [1, 3]
    stems = [set(at.session_state["made"]) for at in (near, whole)]
    assert stems[0] == stems[1] and len(stems[0]) == 3


def test_a_plot_that_came_near_stays(models, monkeypatch):
    at = open_page("predict_page", models, monkeypatch, draw="", model="ode")
    at.session_state["near"] = {"margin"}
    at.run()
    assert len(at.get("plotly_chart")) == 2 and problems(at) == []


def test_a_figure_is_made_once_for_the_same_arrays_and_again_for_others():
    panels._drawn.clear()
    CALLS.clear()
    first, second = np.arange(3.0), np.array([0.0, 1.0, 2.5])
    shown = [panels.drawn(partial(drawing, values.copy()), False)[0] for values in (first, second, first)]
    assert CALLS == [3, 3]
    sent = [figure.to_json() for figure in shown]
    assert sent[0] == sent[2] != sent[1]


def test_who_gets_a_figure_may_change_it():
    figure, sent = panels.drawn(partial(drawing, np.arange(4.0)), False)
    before = figure.to_json()
    figure.data[0].y = (9.0,)
    again, size = panels.drawn(partial(drawing, np.arange(4.0)), False)
    assert again.to_json() == before and sent == size == len(before)


def test_light_and_dark_are_two_figures():
    inks = [panels.drawn(partial(drawing, np.arange(5.0)), dark)[0].layout.font.color for dark in (False, True)]
    assert inks == list(look.INK)
