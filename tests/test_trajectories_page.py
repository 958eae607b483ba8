"""The page Trajectories with tiny models: every control moves, the numbers are those of the report, nothing breaks."""

import json

import numpy as np
import pytest
from app_pages import digits_images, make_models, open_page, problems

from analysis.running.subject import subject
from analysis.token_paths import token_paths

PAGE = "trajectories_page"
PLOTS = 8


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder of tiny models, made once."""
    return make_models(tmp_path_factory.mktemp("app") / "models")


def charts_of(at) -> list[dict]:
    """The plotly figures on the page."""
    return [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]


def numbers(at) -> dict[str, str]:
    return {m.label: m.value for m in at.metric}


def test_the_numbers_on_top_are_those_of_the_report(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode", index=3, paths=2)
    assert problems(at) == [] and len(at.metric) == 4
    data = digits_images()
    who = subject(models / "ode", data.subset([3, 0]))
    report = token_paths(who.model, who.trajectory(who.images))
    assert numbers(at)["Length of CLS path"] == f"{np.median(report.length[:, 0]):.3g} state"
    assert numbers(at)["Mean cosine of tokens at T"] == f"{np.median(report.mean_cosine[-1]):.3f}"


def test_every_control_moves_and_the_explanations_are_there(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode", paths=2)
    assert len(at.get("plotly_chart")) == PLOTS
    for by in ("class", "time"):
        at.segmented_control(key="by").set_value(by).run()
        assert problems(at) == [] and len(at.get("plotly_chart")) == PLOTS
    before = numbers(at)
    at.select_slider(key="paths").set_value(8).run()
    assert problems(at) == [] and numbers(at) != before
    at.segmented_control(key="motion").set_value("curvature").run()
    assert problems(at) == []
    titles = [chart["layout"].get("yaxis", {}).get("title", {}).get("text") for chart in charts_of(at)]
    assert "curvature (1/state)" in titles and "speed |dx/dt| (state/t)" not in titles
    said = " ".join(m.value for m in at.markdown)
    assert "exact derivatives" in said and "2103.03404" in said


@pytest.mark.parametrize("model, said", [("bare", "exact derivatives"), ("net", "by differences of the saved states")])
def test_models_without_registers_and_discrete_ones(models, monkeypatch, model, said):
    at = open_page(PAGE, models, monkeypatch, model=model, paths=1)
    assert problems(at) == [] and len(at.get("plotly_chart")) == PLOTS
    assert said in " ".join(m.value for m in at.markdown)
    names = {t.get("name") for chart in charts_of(at) for t in chart["data"]}
    assert ("registers" in names) == (model == "net")
