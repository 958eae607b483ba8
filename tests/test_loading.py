"""Models that the app lists: each broken one is named with its reason, a changed file is noticed, nothing outside is opened."""

import json
import shutil

import pytest
import torch
from app_pages import open_page, problems

from app import loading
from odevit.errors import NonFiniteError, UserError


@pytest.fixture
def folder(models, tmp_path, monkeypatch):
    shutil.copytree(models, tmp_path / "models")
    monkeypatch.setenv(loading.FOLDERS, str(tmp_path / "models"))
    return tmp_path / "models"


def entry(name):
    return next(e for e in loading.models() if e.name == name)


def test_models_are_listed_by_name_with_their_kind(folder):
    assert {e.name: e.kind for e in loading.models()} == {"bare": "odevit", "net": "vit", "ode": "odevit"}


def broken(folder, name):
    target = folder / f"zz_{name}"
    shutil.copytree(folder / "ode", target)
    return target


BREAK = {
    "truncated": (lambda p: (p / "model.safetensors").write_bytes((p / "model.safetensors").read_bytes()[:-100]), "truncated"),
    "empty": (lambda p: (p / "model.safetensors").write_bytes(b""), "empty"),
    "html": (lambda p: (p / "model.safetensors").write_text("<!DOCTYPE html><html></html>"), "HTML"),
    "lfs": (lambda p: (p / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0"), "LFS"),
    "pickle": (lambda p: torch.save({"a": torch.ones(2)}, p / "model.safetensors"), "safetensors"),
    "weightless": (lambda p: (p / "model.safetensors").unlink(), "no model.safetensors"),
    "json": (lambda p: (p / "config.json").write_text("{"), "config.json"),
    "newer": (lambda p: (p / "config.json").write_text(json.dumps({"format": 99, "kind": "odevit"})), "newer"),
}


@pytest.mark.parametrize("name", BREAK)
def test_a_broken_model_is_listed_with_its_reason_and_the_others_work(folder, name):
    spoil, said = BREAK[name]
    spoil(broken(folder, name))
    found = entry(f"zz_{name}")
    assert found.kind == "broken"
    assert said.lower() in found.reason.lower()
    assert str(folder) not in found.reason and "\n" not in found.reason
    with pytest.raises(UserError, match=f"zz_{name}"):
        loading.open_model(found)
    assert loading.open_model(entry("ode")).hash.startswith("ODEViT ")


def test_a_link_to_nothing_breaks_one_model_alone(folder):
    target = broken(folder, "link")
    (target / "model.safetensors").unlink()
    (target / "model.safetensors").symlink_to(target / "gone")
    assert entry("zz_link").kind == "broken" and entry("ode").kind == "odevit"


def test_no_error_tells_where_the_folder_lies(folder):
    from safetensors.torch import load_file, save_file

    path = broken(folder, "less") / "model.safetensors"
    tensors = load_file(path)
    tensors.pop("head.weight")
    save_file(tensors, path, {"format": "pt"})
    with pytest.raises(UserError, match="head.weight") as caught:
        loading.open_model(entry("zz_less"))
    assert str(folder) not in str(caught.value)


def test_nan_weights_are_refused_when_the_model_is_opened(folder):
    from safetensors.torch import load_file, save_file

    path = broken(folder, "nan") / "model.safetensors"
    tensors = load_file(path)
    tensors["head.weight"][0, 0] = float("nan")
    metadata = {"format": "pt"}
    save_file(tensors, path, metadata)
    with pytest.raises(NonFiniteError, match="head.weight"):
        loading.open_model(entry("zz_nan"))


def test_a_changed_file_is_read_again(folder):
    from odevit import ODEViT

    before = loading.open_model(entry("ode"))
    assert loading.open_model(entry("ode")) is before
    model = ODEViT.from_pretrained(folder / "ode")
    with torch.no_grad():
        model.head.bias.add_(1.0)
    model.save_pretrained(folder / "ode")
    after = loading.open_model(entry("ode"))
    assert after.hash != before.hash
    assert torch.equal(after.model.head.bias, before.model.head.bias + 1)


def test_a_link_out_of_the_folder_is_not_followed(folder, models):
    (folder / "outside").symlink_to(models / "net")
    assert "outside" not in {e.name for e in loading.models()}


def test_a_name_from_the_url_never_becomes_a_path(folder, monkeypatch):
    at = open_page(
        "overview_page", folder, monkeypatch, model="../../etc/passwd", index="99999", data="/etc", split="x", t="never"
    )
    assert not problems(at)
    assert at.selectbox(key="model").value == "bare"
    said = " ".join(w.value for w in at.warning)
    assert "there is no '../../etc/passwd' here" in said and "there is no '99999' here" in said


def test_no_model_at_all_says_how_to_make_one(tmp_path, monkeypatch):
    at = open_page("overview_page", tmp_path / "nothing", monkeypatch)
    assert not problems(at)
    assert "odevit demo --app" in at.code[0].value
