"""The page Solver: its numbers are those of the analyses, every control changes what it says, every kind of model works."""

import app_pages
import pytest
import torch

import odevit
from analysis import no_flip_radius, observed_order, solver_swap
from analysis.discretization import solver_answers

PAGE = "solver_page"


@pytest.fixture(scope="module")
def ode(models):
    return odevit.ODEViT.from_pretrained(models / "ode").double().eval()


def said(at, words: str) -> bool:
    return any(words in text.value for text in [*at.markdown, *at.info])


def click(at, key: str, value):
    return next(group for group in at.button_group if group.key == key).set_value(value).run()


def chosen(count: int) -> torch.Tensor:
    """Indices that the page asks: the first image, then evenly spaced ones."""
    last = len(app_pages.digits_images()) - 1
    return torch.tensor(list(dict.fromkeys([0, *torch.linspace(0, last, count).round().int().tolist()]))[:count])


def test_numbers_flips_and_margins_are_those_of_the_analyses(models, ode, monkeypatch):
    at = app_pages.open_page(PAGE, models, monkeypatch, model="ode", among=16, method="rk4")
    data, where = app_pages.digits_images(), chosen(16)
    images, labels = ode.preprocess(data.images[where]).double(), data.labels[where]
    numbers, x = app_pages.metrics(at), ode.trajectory(images[:1]).x
    assert numbers["Trained solver"] == "euler, 4 steps"
    assert numbers["No-flip radius, this image"] == f"{float(no_flip_radius(ode, x[-1])):.3g}"
    seen = observed_order(ode.field, x[0], ode.grid, batch_dims=1)
    assert numbers["Observed order"] == f"{seen.observed[0]:.2f} of 1" and numbers["h_max (t)"].endswith("h = 1")
    report = solver_answers(ode, images, "rk4", 2, labels=labels)
    flips = len(report.flips)
    assert said(at, f"{flips} of 16 images flip with rk4, 2 steps" if flips else "No prediction of the 16")
    certain = int((report.shift < report.radius).sum())
    assert said(at, f"{certain} of 16 predictions are proven to stay; {flips} flip")
    swap = solver_swap(ode, images, ("euler",), (2,), labels=labels)
    at.selectbox(key="method").set_value("euler").run()
    assert said(at, f"{round(16 * swap.flip_rate[0])} of 16 images flip with euler, 2 steps")
    at.select_slider(key="steps").set_value(4).run()
    assert not app_pages.problems(at) and said(at, "No prediction of the 16 images flips with euler, 4 steps")


@pytest.mark.slow
def test_another_number_of_images_and_an_adaptive_solver(models, monkeypatch):
    at = app_pages.open_page(PAGE, models, monkeypatch, model="bare", among=16, method="dopri5")
    assert not app_pages.problems(at) and "steps" not in [slider.key for slider in at.select_slider]
    assert said(at, "This image with dopri5") and any("its own steps" in text.value for text in at.caption)
    click(at, "among", 64)
    assert not app_pages.problems(at) and said(at, "64 images: one is 1.6%")


@pytest.mark.slow
def test_every_installed_method_works_on_the_page(models, monkeypatch):
    from odevit.flow import methods

    at = app_pages.open_page(PAGE, models, monkeypatch, model="net", among=16)
    assert not app_pages.problems(at) and list(at.selectbox(key="method").options) == list(methods())
    at.selectbox(key="method").set_value("strang").run()
    assert not app_pages.problems(at) and said(at, "This image with strang, 2 steps")


def test_steps_of_a_net_end_at_its_layers(models, monkeypatch):
    at = app_pages.open_page(PAGE, models, monkeypatch, model="net", among=16, steps=3)
    assert not app_pages.problems(at) and at.select_slider(key="steps").options == ["2", "4", "6", "8"]


@pytest.mark.slow
def test_an_adaptive_model_has_no_euler_error(models, tmp_path, monkeypatch):
    odevit.ODEViT.from_pretrained(models / "ode", method="dopri5").save_pretrained(tmp_path / "models" / "adaptive")
    at = app_pages.open_page(PAGE, tmp_path / "models", monkeypatch, among=16)
    numbers = app_pages.metrics(at)
    assert numbers["Trained solver"] == "dopri5" and "Observed order" not in numbers
    assert said(at, "belongs to Euler steps, and this model is solved by dopri5")


@pytest.mark.slow
def test_what_takes_long_is_asked_for(models, monkeypatch):
    from app.views import patience

    monkeypatch.setattr(patience, "seconds_of", lambda name, model: 0.2)
    at = app_pages.open_page(PAGE, models, monkeypatch, model="ode", among=16, cache=models.parent / "patient")
    keys = [toggle.key for toggle in at.toggle]
    assert "table" in keys and "ask_errors" in keys and not said(at, "Accuracy against cost")
    at.toggle(key="table").set_value(True).run()
    assert not app_pages.problems(at) and said(at, "Accuracy against cost")
