"""Overview and Export: numbers of the model, verdicts of its certificate, training curves; an archive of the visit."""

import io
import json
import shutil
import zipfile

import pytest
from app_pages import SCRIPT, digits_images, open_page, problems
from streamlit.testing.v1 import AppTest

import analysis
from app import exports
from odevit import ODEViT
from odevit.evaluate import macs, parameters

HEADER = "epoch,ce,accuracy,val_loss,val_accuracy\n"


@pytest.fixture
def folder(models, tmp_path):
    """The tiny model ode with a certificate and a log, alone in a folder."""
    target = tmp_path / "models" / "ode"
    shutil.copytree(models / "ode", target)
    (target / "log.csv").write_text(HEADER + "1,2.0,0.5,1.9,0.55\n2,1.0,0.75,1.2,0.7\n")
    model = ODEViT.from_pretrained(target)
    analysis.certificate(model, model.preprocess(digits_images().images[:1])).save(target / "certificate.npz")
    return target.parent


def test_the_numbers_are_those_of_the_model(folder, monkeypatch):
    at = open_page("overview_page", folder, monkeypatch)
    assert not problems(at)
    model = ODEViT.from_pretrained(folder / "ode")
    shown = {m.label: m.value for m in at.metric}
    assert shown["Parameters"] == f"{parameters(model):,}"
    assert shown["MACs an image"] == f"{macs(model) / 1e6:.3g} M"
    assert shown["NFE"] == "4"


def test_every_verdict_is_shown_with_its_status(folder, monkeypatch):
    at = open_page("overview_page", folder, monkeypatch)
    certificate = analysis.reports.Report.load(folder / "ode" / "certificate.npz")
    text = [m.value for m in at.markdown]
    for verdict in certificate.verdicts:
        row = next(i for i, line in enumerate(text) if line.startswith(f"**{verdict.question}**"))
        assert verdict.status in text[row - 1]
    assert any("stored in the model's folder" in c.value for c in at.caption)


def test_a_certificate_of_other_weights_is_not_shown(folder, monkeypatch):
    import torch

    model = ODEViT.from_pretrained(folder / "ode")
    with torch.no_grad():
        model.head.bias.add_(0.1)
    model.save_pretrained(folder / "ode")
    at = open_page("overview_page", folder, monkeypatch)
    assert "No certificate of these weights is stored in the model's folder." in [i.value for i in at.info]
    assert [b.key for b in at.button if b.key == "certify"]


def test_export_offers_what_was_seen(folder, monkeypatch):
    at = open_page("overview_page", folder, monkeypatch)
    both = AppTest.from_string(SCRIPT.format(page="export_page"), default_timeout=60)
    empty = both.run()
    assert not problems(empty) and "Nothing has been shown yet" in empty.info[0].value
    both.session_state["made"] = at.session_state["made"]
    at2 = both.run()
    assert not problems(at2)
    assert {m.label: m.value for m in at2.metric}["Plots"] == "2"
    chosen = at2.multiselect(key="chosen")
    assert [stem.rpartition("-")[2] for stem in chosen.value] == ["certificate", "training"]
    chosen.unselect(chosen.value[0]).run()
    assert len(at2.multiselect(key="chosen").value) == 1
    with zipfile.ZipFile(io.BytesIO(exports.archive(list(at.session_state["made"].values())))) as file:
        facts = json.loads(file.read("provenance.json"))
        assert not facts["not drawn"]
        assert sum(name.endswith(".pdf") for name in file.namelist()) == 2
