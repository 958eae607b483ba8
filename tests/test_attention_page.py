"""The page Attention with tiny models: the query moves the maps, curves and numbers; what a model lacks is said."""

import json

import numpy as np
import pytest
from app_pages import digits_images, make_models, open_page, problems

from analysis.attention_maps import attention_along, attention_rows
from analysis.running.subject import subject

PAGE = "attention_page"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder of tiny models, made once."""
    return make_models(tmp_path_factory.mktemp("app") / "models")


def charts_of(at) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]


def titles(chart: dict) -> list[str]:
    return [a["text"] for a in chart["layout"].get("annotations", ())]


def numbers(at) -> dict[str, str]:
    return {m.label: m.value for m in at.metric}


def test_the_numbers_are_those_of_the_report_for_each_query(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode", index=3)
    assert problems(at) == [] and len(at.get("plotly_chart")) == 5
    who = subject(models / "ode", digits_images().subset([3]))
    path = who.trajectory(who.images)
    report = attention_along(who.model, path)
    for query, position in (("CLS", 0), ("register 2", 18), ("patch 1, 2", 7)):
        at.selectbox(key="query").set_value(query).run()
        assert problems(at) == [] and f"query: {query}" in titles(charts_of(at)[0])
        rows = attention_rows(who.model, path, position)
        assert numbers(at)["On registers"] == f"{rows.rows[-1, 0, :, 17:].sum(-1).mean():.1%}"
        assert numbers(at)["Entropy of the query"] == f"{report.entropy[-1, 0, :, position].mean():.3f} nats"


def test_curves_of_the_query_and_scales(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode")
    at.segmented_control(key="whose").set_value("the query").run()
    assert problems(at) == [] and len(at.get("plotly_chart")) == 4
    assert any("CLS has no place on the image" in i.value for i in at.info)
    at.selectbox(key="query").set_value("patch 0, 0").run()
    assert problems(at) == [] and len(at.get("plotly_chart")) == 5
    before = [t["zmax"] for t in charts_of(at)[0]["data"] if t["type"] == "heatmap"]
    at.toggle(key="own").set_value(True).run()
    after = [t["zmax"] for t in charts_of(at)[0]["data"] if t["type"] == "heatmap"]
    assert problems(at) == [] and len(set(before)) == 2 and len(set(after)) == len(after)
    assert np.isclose(max(after[2:]), before[2])


def test_a_query_that_another_model_lacks_falls_back_to_cls(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode", query="register 2")
    assert "query: register 2" in titles(charts_of(at)[0])
    at.selectbox(key="model").set_value("bare").run()
    assert problems(at) == [] and "query: CLS" in titles(charts_of(at)[0])
    assert any("no registers" in i.value for i in at.info) and numbers(at)["On registers"] == "no registers"


def test_a_discrete_net_ends_without_a_map_and_starts_with_its_last(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="net")
    assert problems(at) == []
    slider = charts_of(at)[0]["layout"]["sliders"][0]
    assert [s["label"] for s in slider["steps"]] == ["0", "1", "2"] and slider["active"] == 1
    assert "After the last layer only the rollout is left." in " ".join(m.value for m in at.markdown)
