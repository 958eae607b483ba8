"""The page Spectra with tiny models: numbers of the reports, every control moves, reasons where something makes no sense."""

import json

import numpy as np
import pytest
from app_pages import digits_images, open_page, problems

from analysis.running.subject import subject
from analysis.spectra import growth_rates
from app import exports
from app.views import patience
from odevit.checkpoint import load_model

PAGE = "spectra_page"


def charts_of(at) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]


def titles(at) -> list[str]:
    return [m.value.strip("*") for m in at.markdown if m.value.startswith("**")]


def said(at) -> str:
    return " ".join(m.value for m in [*at.markdown, *at.info])


def test_the_numbers_on_top_are_those_of_this_image(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode", index=3)
    assert problems(at) == [] and len(at.get("plotly_chart")) == 5
    who = subject(models / "ode", digits_images().subset([3]))
    states, grid = who.trajectory(who.images).x, who.model.grid
    rates = [growth_rates(who.model.field, states[k], t, batch_dims=1) for k, t in enumerate(grid.times)]
    shown = {m.label: m.value for m in at.metric}
    assert shown["Largest μ(J) (1/t)"] == f"{max(r.logarithmic_norm[0] for r in rates):.3g}"
    assert shown["Largest ‖J‖ (1/t)"] == f"{max(r.norm[0] for r in rates):.3g}"
    found, _, asked = shown["Converged"].partition(" of ")
    assert found == asked == str(16 * len(rates))


def test_every_control_moves(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode", index=3, t="1", hstep="2h")
    h = load_model(models / "ode").grid.h
    assert f"h = {2 * h:g}" in charts_of(at)[0]["data"][0]["name"]
    assert charts_of(at)[0]["layout"]["sliders"][0]["active"] == 1
    at.segmented_control(key="hstep").set_value("h/2").run()
    assert problems(at) == [] and f"h = {h / 2:g}" in charts_of(at)[0]["data"][0]["name"]
    at.toggle(key="range").set_value(True).run()
    assert problems(at) == [] and "numerical range: residual up to" in said(at)
    before = charts_of(at)[-1]
    assert "Influence of the others on it: CLS" in titles(at)
    at.radio(key="moves").set_value("of it on the others").run()
    at.selectbox(key="token").set_value("patch 1,2").run()
    assert problems(at) == [] and "Influence of it on the others: patch 1,2" in titles(at)
    assert charts_of(at)[-1]["data"] != before["data"]


def test_no_registers_and_no_closed_form(models, monkeypatch):
    bare = open_page(PAGE, models, monkeypatch, model="bare")
    assert problems(bare) == [] and not [name for name in bare.selectbox(key="token").options if "register" in name]
    net = open_page(PAGE, models, monkeypatch, model="net")
    assert problems(net) == [] and "block norms of J are cheap only for" in said(net)
    assert "no structural zeros here" in said(net)


@pytest.mark.parametrize("method", ["dopri5"])
def test_an_adaptive_solver_is_said_to_choose_its_own_steps(models, monkeypatch, method, tmp_path):
    model = load_model(models / "ode")
    other = type(model)(model.config, model.solver.__class__(method=method, horizon=2.0, steps=2), model.inputs)
    other.load_state_dict(model.state_dict())
    other.save_pretrained(tmp_path / "models" / "adaptive")
    at = open_page(PAGE, tmp_path / "models", monkeypatch, model="adaptive")
    assert problems(at) == [] and "dopri5 chooses its own steps" in said(at)


def test_broken_weights_become_a_box(models, monkeypatch, tmp_path):
    model = load_model(models / "ode")
    model.field.blocks[0].mlp.fc1.weight.data[0, 0] = np.nan
    model.save_pretrained(tmp_path / "models" / "broken")
    at = open_page(PAGE, tmp_path / "models", monkeypatch, model="broken")
    assert not at.exception and len(at.get("plotly_chart")) == 0 and "fc1.weight holds 1 NaN" in problems(at)[0]


def test_every_plot_has_its_table_and_most_have_a_paper(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode", index=3)
    made = at.session_state["made"].values()
    assert len(made) == 4 and sum(m.paper is not None for m in made) == 3
    for m in made:
        assert exports.table(m.reports).startswith(b"report,") or len(m.reports) == 1
        assert m.paper is None or exports.drawing(m.paper, "png").startswith(b"\x89PNG")


def test_what_takes_long_is_asked_for_and_what_takes_too_long_is_left_to_the_command_line(models, monkeypatch):
    monkeypatch.setattr(patience, "seconds_of", lambda name, model: 1.0)
    at = open_page(PAGE, models, monkeypatch, model="ode")
    assert len(at.get("plotly_chart")) == 0 and at.toggle(key="ask_spectra").label.endswith("(about 3 min)")
    monkeypatch.setattr(patience, "seconds_of", lambda name, model: 10.0)
    at = open_page(PAGE, models, monkeypatch, model="ode")
    assert len(at.toggle) == 0 and "odevit analyze" in said(at) and "--reports influence" in said(at)
