"""The page Predict with tiny models: the numbers of the report, verdicts in words, every control moves, errors are boxes."""

import json

import pytest
from app_pages import DIGITS, digits_images, make_models, open_page, problems

from analysis.figures.lens_plots import probabilities
from analysis.running.subject import subject
from analysis.token_paths import logit_lens

PAGE = "predict_page"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A folder of tiny models, made once."""
    return make_models(tmp_path_factory.mktemp("app") / "models")


def lens_of(models, name, index):
    """The report on one image, computed here."""
    who = subject(models / name, digits_images().subset([index]))
    return logit_lens(who.model, who.trajectory(who.images))


def charts_of(at) -> list[dict]:
    return [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]


@pytest.mark.parametrize("index", [0, 3])
def test_the_numbers_are_those_of_the_report_and_the_verdict_is_said(models, monkeypatch, index):
    at = open_page(PAGE, models, monkeypatch, model="ode", index=index)
    assert problems(at) == [] and len(at.get("plotly_chart")) == 3
    lens, label = lens_of(models, "ode", index), int(digits_images().labels[index])
    final = int(lens.prediction[-1, 0])
    shown = {m.label: m.value for m in at.metric}
    right = final == label
    key = "Prediction, right" if right else f"Prediction, wrong: it is {label}"
    assert shown[key] == f"{'✓' if right else '✗'} {DIGITS[final]}"
    assert shown["Probability"] == f"{probabilities(lens.logits[-1, 0])[final]:.3f}"
    assert shown["Decided at"] == f"t* = {lens.decision_time[0]:.4g} of 4"
    assert shown["Margin"] == f"{lens.margin[-1, 0]:.3g} logits"


def test_others_are_as_many_as_asked_for(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode", others=8)
    assert "9 images" in " ".join(m.value for m in at.markdown)
    at.select_slider(key="others").set_value(0).run()
    assert problems(at) == [] and len(at.get("plotly_chart")) == 1
    assert "No other images are looked at." in [i.value for i in at.info]


@pytest.mark.parametrize("name", ["bare", "net"])
def test_models_without_registers_and_discrete_ones(models, monkeypatch, name):
    at = open_page(PAGE, models, monkeypatch, model=name, t=1)
    assert problems(at) == []
    (story, *_) = charts_of(at)
    slider = story["layout"]["sliders"][0]
    assert slider["steps"][slider["active"]]["label"] == "1"
    assert len(slider["steps"]) == len(lens_of(models, name, 0).time)


def test_a_model_with_nan_is_a_box_and_not_a_crash(models, monkeypatch, tmp_path):
    import torch

    from odevit.checkpoint import load_model

    model = load_model(models / "ode")
    with torch.no_grad():
        next(iter(model.field.parameters())).fill_(float("nan"))
    model.save_pretrained(tmp_path / "models" / "broken")
    at = open_page(PAGE, tmp_path / "models", monkeypatch)
    assert not at.exception and any("nan" in e.value.lower() for e in at.error)
