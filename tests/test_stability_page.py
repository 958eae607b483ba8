"""The page Stability: its numbers are those of the analyses, every control changes what it says, every kind of model works."""

import app_pages
import numpy as np
import pytest

import odevit
from analysis import finite_time_exponents
from analysis.perturbations import covered, filled, noisy, perturbation_growth

PAGE = "stability_page"


@pytest.fixture(scope="module")
def ode(models):
    return odevit.ODEViT.from_pretrained(models / "ode").double().eval()


def said(at, words: str) -> bool:
    return any(words in text.value for text in at.markdown)


def click(at, key: str, value):
    return next(group for group in at.button_group if group.key == key).set_value(value).run()


def growth(model, pixels, changed) -> str:
    return f"× {perturbation_growth(model, model.preprocess(pixels), model.preprocess(changed)).growth:.3g}"


def test_exponents_and_growth_are_those_of_the_analyses(models, ode, monkeypatch):
    at = app_pages.open_page(PAGE, models, monkeypatch, model="ode", index=3, seed=5, noise=0.2)
    pixels = app_pages.digits_images().images[3]
    x0 = ode.initial_state(ode.preprocess(pixels).double())
    finite = finite_time_exponents(ode.field, x0, ode.grid, "euler", 2, batch_dims=1)
    numbers = app_pages.metrics(at)
    assert numbers["λ₁, finite-time (1/t)"] == f"{finite.exponents[0, 0]:.3g}" and "QR" in list(numbers)[1]
    assert numbers["Kaplan-Yorke dimension"].startswith("> ")
    assert numbers["Growth of this perturbation"] == growth(ode, pixels, noisy(pixels, 0.2, 5))
    assert said(at, "finite-time, T = 4") and said(at, "between (measured)") and said(at, "vacuous")
    at.slider(key="noise").set_value(0.0).run()
    assert "Growth of this perturbation" not in app_pages.metrics(at) and any("the same" in box.value for box in at.info)


def test_squares_are_covered_and_painted_where_the_sliders_say(models, ode, monkeypatch):
    at = app_pages.open_page(PAGE, models, monkeypatch, model="ode", disturb="Cover")
    pixels = app_pages.digits_images().images[0]
    for key, value in (("prow", 2), ("pcol", 0), ("psize", 2)):
        at.slider(key=key).set_value(value).run()
    square = covered((8, 8), (4, 4), 2, 0, 2)
    key = "Growth of this perturbation"
    assert app_pages.metrics(at)[key] == growth(ode, pixels, filled(pixels, square, [255 * m for m in ode.inputs.mean]))
    click(at, "fill", "white")
    assert app_pages.metrics(at)[key] == growth(ode, pixels, filled(pixels, square, [255]))
    click(at, "disturb", "Paint")
    at.color_picker(key="colour").set_value("#0080ff").run()
    painted = filled(pixels, square, [0, 128, 255])
    assert app_pages.metrics(at)[key] == growth(ode, pixels, painted) and said(at, "painted #0080ff")


@pytest.mark.slow
def test_averages_beyond_the_trained_time_and_exponents_over_images(models, monkeypatch):
    at = app_pages.open_page(PAGE, models, monkeypatch, model="bare")
    assert said(at, "averages up to T = 4;")
    click(at, "over", 4)
    assert not app_pages.problems(at) and said(at, "averages up to T = 16;")
    click(at, "many", "16")
    assert not app_pages.problems(at) and said(at, "16 images, finite-time") and said(at, "of 16 are wrong")
    again = app_pages.open_page(PAGE, models, monkeypatch, model="bare", over="4 T", many=16)
    assert said(again, "averages up to T = 16;") and said(again, "of 16 are wrong")


def test_a_discrete_net_is_not_continued(models, monkeypatch):
    at = app_pages.open_page(PAGE, models, monkeypatch, model="net", disturb="Cover")
    assert not app_pages.problems(at) and said(at, "not continued beyond T") and "over" not in [g.key for g in at.button_group]


@pytest.mark.slow
def test_adaptive_solvers_have_measured_bounds_only(models, tmp_path, monkeypatch):
    model = odevit.ODEViT.from_pretrained(models / "ode", method="dopri5")
    model.save_pretrained(tmp_path / "models" / "adaptive")
    at = app_pages.open_page(PAGE, tmp_path / "models", monkeypatch)
    assert not app_pages.problems(at) and said(at, "no proven bound") and said(at, "between (measured)")


def test_broken_weights_are_a_box(models, tmp_path, monkeypatch):
    model = odevit.ODEViT.from_pretrained(models / "ode")
    model.field.blocks[0].mlp.fc1.weight.data[0, 0] = np.nan
    model.save_pretrained(tmp_path / "models" / "broken")
    at = app_pages.open_page(PAGE, tmp_path / "models", monkeypatch)
    assert not at.exception and at.error


def test_what_takes_long_is_asked_for_and_what_takes_hours_is_refused(models, monkeypatch):
    from app.views import patience

    monkeypatch.setattr(patience, "seconds_of", lambda name, model: 1.0)
    at = app_pages.open_page(PAGE, models, monkeypatch, model="ode", cache=models.parent / "patient")
    labels = [toggle.label for toggle in at.toggle]
    assert labels == ["Compute the exponents of this image (about 60 s)", "Compute the bounds on the distance (about 90 s)"]
    assert not said(at, "between (measured)") and said(at, "proven")
    at.toggle(key="bounds").set_value(True).run()
    assert not app_pages.problems(at) and said(at, "between (measured)")
    monkeypatch.setattr(patience, "seconds_of", lambda name, model: 100.0)
    at = app_pages.open_page(PAGE, models, monkeypatch, model="ode", cache=models.parent / "patient")
    assert any("odevit analyze" in box.value and "2 h on one core" in box.value for box in at.info)
