"""The page Lipschitz with tiny models: numbers of the report, every control moves, LayerNorm called vacuous."""

import json

from app_pages import digits_images, open_page, problems

from analysis.lipschitz import lipschitz
from analysis.running.subject import subject
from app import exports
from app.views import patience

PAGE = "lipschitz_page"


def charts_of(at) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]


def said(at) -> str:
    return " ".join(m.value for m in at.markdown)


def test_the_numbers_are_those_of_the_time_with_the_largest_norm(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode", index=3)
    assert problems(at) == [] and len(at.get("plotly_chart")) == 5
    who = subject(models / "ode", digits_images().subset([3]))
    states, grid = who.trajectory(who.images).x, who.model.grid
    reports = [lipschitz(who.model.field, states[k], t=t) for k, t in enumerate(grid.times)]
    report = max(reports, key=lambda r: r.lower[0])
    shown = {m.label: m.value for m in at.metric}
    assert shown == {
        "‖J‖, lower (1/t)": f"{report.lower[0]:.3g}", "‖J‖, local (1/t)": f"{report.local[0]:.3g}",
        "‖J‖, upper (1/t)": f"{report.upper:.3g}", "local / lower": f"{report.local[0] / report.lower[0]:.3g}",
    }  # fmt: skip
    table = at.dataframe[0].value
    assert set(table["bound"]) >= {"lower", "local", "upper", "MLP: centred", "attention: ball"}
    assert f"sharpest at t = {grid.t1:g}: “exact per token” at the state, “centred” beyond it" in said(at)


def test_the_measured_stretch_lies_in_the_flow_bound(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode", index=3)
    at.toggle(key="sigma").set_value(True).run()
    assert problems(at) == [] and "finite-time" in said(at)
    traces = {t["name"]: t for t in charts_of(at)[1]["data"]}
    assert set(traces) == {"at most exp ∫μ(J) dt", "at least exp −∫μ(−J) dt", "σ₁ of the solver's flow (measured)"}


def test_the_time_of_the_url_is_where_the_slider_and_the_table_start(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode", index=3, t="1")
    assert problems(at) == [] and [e.label for e in at.expander if e.label.startswith("As a table")] == ["As a table, at t = 1"]
    assert charts_of(at)[-1]["layout"]["sliders"][0]["active"] == 1


def test_layer_norm_is_called_vacuous_and_its_layers_are_no_flow(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="net")
    assert problems(at) == []
    assert "(vacuous)" in {m.label: m.value for m in at.metric}["‖J‖, upper (1/t)"]
    assert "upper is vacuous at 2 of 2 times" in said(at) and "the flow between the layers of this discrete net" in said(at)


def test_every_plot_has_its_table_and_most_have_a_paper(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode", index=3)
    made = at.session_state["made"].values()
    assert len(made) == 5 and sum(m.paper is not None for m in made) == 2
    for m in made:
        assert exports.table(m.reports).startswith(b"report,") or len(m.reports) == 1
        assert m.paper is None or exports.drawing(m.paper, "png").startswith(b"\x89PNG")


def test_what_takes_long_is_asked_for(models, monkeypatch):
    monkeypatch.setattr(patience, "seconds_of", lambda name, model: 1.0)
    at = open_page(PAGE, models, monkeypatch, model="ode")
    assert len(at.get("plotly_chart")) == 0 and {t.key for t in at.toggle} == {"ask_bounds", "ask_flow"}
