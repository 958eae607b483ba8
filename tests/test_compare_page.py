"""The page Compare with tiny models: the second model is chosen, every control moves, what cannot be compared is said."""

import json
from dataclasses import replace
from types import SimpleNamespace

import figure_reports
import numpy as np
import pytest
import torch
from app_pages import digits_images, make_models, open_page, problems

from analysis.running.subject import subject
from analysis.token_paths.pairing import mismatch, paired_paths
from app.loading import Entry
from app.views import compare_page
from app.views.verdict_pairs import verdict_rows
from odevit.config import InputConfig, preset
from odevit.model import build

PAGE = "compare_page"
PLOTS = 6


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Tiny models, ode and net with a certificate of theirs, and three more: wider, for colour images, of other classes."""
    root = make_models(tmp_path_factory.mktemp("app") / "models")
    tens = InputConfig(mean=(0.3,), std=(0.4,), classes=tuple("0123456789"), source="digits")
    for name, change, inputs in (
        ("wide", {"embed_dim": 24, "num_heads": 2}, tens),
        ("rgb", {"embed_dim": 16, "num_heads": 2, "in_chans": 3}, InputConfig(classes=tens.classes)),
        ("pair", {"embed_dim": 16, "num_heads": 2, "num_classes": 2}, replace(tens, classes=("even", "odd"))),
    ):  # fmt: skip
        torch.manual_seed(1)
        build(*preset("odevit_digits", **change), inputs).save_pretrained(root / name)
    for name, holds in (("ode", [1, -1, 0]), ("net", [1, -1, 1])):
        who = subject(root / name, digits_images().subset([0]).images)
        who.stamped(figure_reports.certificate(holds=np.array(holds))).save(root / name / "certificate")
    return root


def text_of(at) -> str:
    return " ".join(m.value for m in (*at.markdown, *at.info, *at.error))


def test_student_and_teacher_on_shared_axes(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode", other="net", index=3, pairs=2)
    assert problems(at) == [] and len(at.get("plotly_chart")) == PLOTS
    numbers = {m.label: m.value for m in at.metric}
    images = digits_images().subset([3, 0]).images
    solved = [who.trajectory(who.images) for who in (subject(models / name, images) for name in ("ode", "net"))]
    assert numbers["Distance of the paths"] == f"{mismatch(*paired_paths(*solved)):.2f}"
    assert "of 2 images" in numbers["Same prediction"] and {"ode says", "net says"} <= set(numbers)
    assert "axes of both pooled" in text_of(at)
    drawn = [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]
    assert sum(t["type"] == "contour" for chart in drawn for t in chart["data"]) == 2
    assert "**Certificates**: 1 of 3 verdicts differ" in text_of(at)
    assert list(at.table[0].value.columns) == ["differs", "question", "ode", "net"]
    before = numbers["Distance of the paths"]
    at.segmented_control(key="axes").set_value("aligned").run()
    assert problems(at) == [] and {m.label: m.value for m in at.metric}["Distance of the paths"] != before
    at.segmented_control(key="tokens").set_value("CLS and patches").run()
    at.select_slider(key="pairs").set_value(1).run()
    assert problems(at) == [] and "of 1 images" in {m.label: m.value for m in at.metric}["Same prediction"]


def test_other_widths_are_aligned_and_this_is_said(models, monkeypatch):
    at = open_page(PAGE, models, monkeypatch, model="ode", other="net", index=3, pairs=2)
    at.selectbox(key="other").set_value("wide").run()
    assert problems(at) == [] and "Widths 16 and 24 differ" in text_of(at) and "Procrustes" in text_of(at)
    assert "No certificate of wide is stored" in text_of(at) and not at.table


@pytest.mark.parametrize("name, said", [("rgb", "rgb sees images of (3, 8, 8)"), ("pair", "pair tells 2 classes apart")])
def test_what_cannot_be_compared_is_said_in_one_box(models, monkeypatch, name, said):
    at = open_page(PAGE, models, monkeypatch, model="ode", other=name)
    assert problems(at) == []  # no error: a pair of the shipped models is met by everybody who opens the page
    (only,) = [box.value.replace("\\", "") for box in at.info]
    assert said in only and not at.get("plotly_chart")


def test_rows_mark_another_status_another_answer_and_a_missing_verdict():
    first = figure_reports.certificate()
    second = figure_reports.certificate(status=first.status[[0, 0, 2]], holds=first.holds * [1, 1, -1] + [0, 0, 1])
    rows = verdict_rows(first, second, ("a", "b"))
    assert [bool(row["differs"]) for row in rows] == [False, True, True]
    assert "proven" in rows[0]["a"] and "vacuous" in rows[1]["a"] and "proven" in rows[1]["b"]
    names = ("name", "question", "answer", "status", "holds", "value", "unit", "side", "region", "formula", "reference")
    fewer = figure_reports.certificate(**{name: getattr(first, name)[:2] for name in names})
    last = verdict_rows(first, fewer, ("a", "b"))[2]
    assert last["differs"] and last["b"] == "left out for this model" and r"\|J\|" in last["a"]


def test_a_single_model_has_nothing_to_be_compared_with(models, monkeypatch):
    at = open_page(PAGE, models / "ode", monkeypatch)
    assert problems(at) == [] and "No second model in the list" in text_of(at)


def test_what_takes_too_long_is_not_started(models, monkeypatch):
    monkeypatch.setattr("app.views.patience.seconds_of", lambda name, model: 10.0)
    at = open_page(PAGE, models, monkeypatch, cache=models.parent / "slow", model="ode", other="bare", pairs=1)
    assert problems(at) == [] and "too long for a page" in text_of(at)
    assert len(at.get("plotly_chart")) == PLOTS - 2


def test_a_model_without_a_partner_is_told_which_have_one(models, tmp_path, monkeypatch):
    other = {"model": {"img_size": 32, "in_chans": 3, "num_classes": 10}}
    entries = [Entry(name, tmp_path, "odevit", "", config=other) for name in ("a", "b")]
    visit = SimpleNamespace(entry=Entry("mine", tmp_path, "odevit", "", config={"model": {"img_size": 8}}))
    assert "partner here: a, b;" in compare_page._instead(visit, entries)
    assert compare_page._instead(visit, entries[:1]) == ""
    assert compare_page._instead(SimpleNamespace(entry=entries[0]), entries) == ""
