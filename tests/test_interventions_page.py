"""The page Interventions: every control changes what it says, and the numbers are those of analysis.interventions."""

import app_pages
import numpy as np
import pytest

import odevit
from analysis.interventions import KnockOut, KnockOutHead, Patch, Perturb, effect_map, intervene

PAGE = "interventions_page"


@pytest.fixture(scope="module")
def ode(models):
    """The model ode, and images of the split as it wants them."""
    model = odevit.ODEViT.from_pretrained(models / "ode").double().eval()
    return model, lambda *indices: model.preprocess(app_pages.digits_images().images[list(indices)]).double()


def shown(at) -> dict[str, str]:
    assert not app_pages.problems(at)
    return {metric.label: metric.value for metric in at.metric}


def kl(report) -> str:
    return f"{report.kl[0]:.3g} nats"


def click(at, key: str, value):
    return next(group for group in at.button_group if group.key == key).set_value(value).run()


def test_the_numbers_are_those_of_the_intervention(models, ode, monkeypatch):
    model, images = ode
    at = app_pages.open_page(PAGE, models, monkeypatch, model="ode", t=1, where="CLS")
    report = intervene(model, images(0), 1.0, KnockOut("cls"))
    p, q = (np.exp(z[0]) / np.exp(z[0]).sum() for z in (report.logits_before, report.logits_after))
    first, last = p.argmax(), q.argmax()
    numbers = shown(at)
    assert numbers[f"Probability of {first}"] == f"{p[first]:.1%} → {q[first]:.1%}" and numbers["KL divergence"] == kl(report)
    assert numbers["Predicted class"] == (f"{first} → {last}" if first != last else str(first))
    assert numbers["Size of the change"] == f"{report.size[0]:.3g} (state)"
    at.select_slider(key="t").set_value(3.0).run()
    assert shown(at)["KL divergence"] == kl(intervene(model, images(0), 3.0, KnockOut("cls")))


def test_every_kind_of_change(models, ode, monkeypatch):
    model, images = ode
    at = app_pages.open_page(PAGE, models, monkeypatch, model="ode")
    middle = [6, 7, 10, 11]  # rows and columns 1 to 2
    assert shown(at)["KL divergence"] == kl(intervene(model, images(0), 2.0, KnockOut(middle)))
    at.slider(key="rows").set_range(0, 0).run()
    at.slider(key="columns").set_range(3, 3).run()
    assert shown(at)["KL divergence"] == kl(intervene(model, images(0), 2.0, KnockOut([4])))
    click(at, "by", "mean")
    some = np.linspace(0, len(app_pages.digits_images()) - 1, 8).round().astype(int)
    assert shown(at)["KL divergence"] == kl(intervene(model, images(*some), 2.0, KnockOut([4], "mean")))
    click(at, "where", "Registers")
    click(at, "change", "Patch in")
    assert shown(at)["KL divergence"] == kl(intervene(model, images(0), 2.0, Patch(images(1), [17, 18])))
    at.number_input(key="source").set_value(7).run()
    assert shown(at)["KL divergence"] == kl(intervene(model, images(0), 2.0, Patch(images(7), [17, 18])))
    click(at, "register", [1])
    assert shown(at)["KL divergence"] == kl(intervene(model, images(0), 2.0, Patch(images(7), [18])))


def test_perturbations_and_heads(models, ode, monkeypatch):
    model, images = ode
    at = app_pages.open_page(PAGE, models, monkeypatch, model="ode", change="Perturb", where="All", seed=3)
    assert shown(at)["KL divergence"] == kl(intervene(model, images(0), 2.0, Perturb(5.0, "most_sensitive")))
    at.number_input(key="push").set_value(2.0).run()
    click(at, "direction", "random")
    numbers = shown(at)
    assert numbers["KL divergence"] == kl(intervene(model, images(0), 2.0, Perturb(2.0, seed=3)))
    assert numbers["Size of the change"] == "2 (state)"
    click(at, "change", "Head")
    click(at, "silent", 1)
    numbers = shown(at)
    assert numbers["KL divergence"] == kl(intervene(model, images(0), 2.0, KnockOutHead(1)))
    assert numbers["Size of the change"] == "0: only the field"


def test_the_same_change_everywhere(models, ode, monkeypatch):
    model, images = ode
    at = app_pages.open_page(PAGE, models, monkeypatch, model="ode", where="CLS")
    flips = effect_map(model, images(0), model.grid.times, KnockOut()).flipped.sum()
    assert any(f"of 95 changes {flips} flip the prediction" in text.value for text in at.markdown)
    at.selectbox(key="effect").set_value("kl").run()
    assert not app_pages.problems(at)


@pytest.mark.parametrize("name", ["bare", "net"])
def test_models_without_registers_and_discrete_ones(name, models, monkeypatch):
    at = app_pages.open_page(PAGE, models, monkeypatch, model=name, where="Registers", t=1.3)
    places = next(group.options for group in at.button_group if group.key == "where")
    assert not app_pages.problems(at) and ("Registers" in places) == (name == "net")
    assert at.select_slider(key="t").value == 1.0  # the nearest step


def test_a_map_that_takes_long_is_asked_for_and_one_that_takes_hours_is_refused(models, monkeypatch):
    from app.views import interventions_page

    monkeypatch.setattr(interventions_page, "seconds_of", lambda name, model: 0.5)  # 19 tokens, 5 times: about half a minute
    at = app_pages.open_page(PAGE, models, monkeypatch, model="ode", where="CLS", cache=models.parent / "fresh")
    assert [toggle.label for toggle in at.toggle] == ["Compute this change at every time (about 26 s)"]
    assert "effect" not in [box.key for box in at.selectbox]
    at.toggle(key="map").set_value(True).run()
    assert not app_pages.problems(at) and "effect" in [box.key for box in at.selectbox]
    monkeypatch.setattr(interventions_page, "seconds_of", lambda name, model: 12.0)
    at = app_pages.open_page(PAGE, models, monkeypatch, model="ode", where="CLS")
    assert any("odevit analyze" in box.value and "10 min" in box.value for box in at.info)
