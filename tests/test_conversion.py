"""Broken and foreign files: one line for each, nothing is executed, and inspect always has an answer."""

import argparse
import json
import logging
import os
import pickle
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from odevit import UserError, create_model
from odevit.checkpoint import (
    convert,
    diagnose,
    inspect,
    load_model,
    load_tensors,
    load_training_state,
    model_card,
    read_config,
    save_model,
)

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"
HTML = b"\n<!DOCTYPE html>\n<html><body>Sign in</body></html>"


def tiny():
    torch.manual_seed(0)
    return create_model("odevit_digits", embed_dim=16, num_heads=2)


@pytest.fixture
def folder(tmp_path) -> Path:
    save_model(tiny(), tmp_path / "model", extra={"val_accuracy": 0.9731, "epoch": 3})
    return tmp_path / "model"


class WritesAFile:
    """Unpickling it writes a file."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (Path.write_text, (Path(self.target), "code ran"))


class RunsACommand(WritesAFile):
    """Unpickling it runs a shell command."""

    def __reduce__(self):
        return (os.system, (f"touch {self.target}",))


# ----------------------------------------------------------------------------------------------------------------- broken files


def broken_files(whole: bytes, torch_file: bytes) -> dict[str, tuple[bytes, str]]:
    return {
        "empty": (b"", "empty file"),
        "html": (HTML, "an HTML page"),
        "lfs": (LFS, r"a Git LFS pointer.*12345 bytes.*git lfs pull"),
        "half": (whole[: len(whole) // 2], rf"truncated safetensors file: {len(whole) // 2} of {len(whole)} bytes"),
        "header": (whole[:100], "truncated safetensors file: 100 of"),
        "zip": (torch_file[:-200], "truncated zip"),
        "pickle": (pickle.dumps({"a": 1}), r"plain Python pickle.*odevit convert --trust"),
        "pickle0": (pickle.dumps({"a": 1}, 0), "plain Python pickle"),
        "noise": (bytes(range(128, 256)) * 20, "unknown"),
    }


def test_every_broken_file_has_its_line_wherever_it_is_met(folder, tmp_path):
    torch.save({"a": torch.zeros(1000)}, tmp_path / "whole.pt")
    files = broken_files((folder / "model.safetensors").read_bytes(), (tmp_path / "whole.pt").read_bytes())
    for content, message in files.values():
        file = folder / "model.safetensors"
        file.write_bytes(content)
        for read in (load_model, load_tensors, load_training_state):
            with pytest.raises(UserError, match=message) as error:
                read(folder if read is load_model else file)
            text = str(error.value)
            assert "model.safetensors" in text and "\n" not in text and "weights_only" not in text
        assert inspect(file) and inspect(folder)
    assert diagnose(tmp_path / "whole.pt") is None


def test_damaged_legacy_torch_files_give_one_line(tmp_path):
    torch.save({"a": torch.ones(1000)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    whole = (tmp_path / "old.pt").read_bytes()
    assert torch.equal(load_tensors(tmp_path / "old.pt")["a"], torch.ones(1000))
    for length in (20, 30, 100, 400, 2000):
        (tmp_path / "old.pt").write_bytes(whole[:length])
        with pytest.raises(UserError, match="damaged torch file") as error:
            load_tensors(tmp_path / "old.pt")
        assert "\n" not in str(error.value) and "weights_only" not in str(error.value)


def test_a_damaged_header_of_safetensors_gives_one_line(folder):
    file = folder / "model.safetensors"
    raw = bytearray(file.read_bytes())
    (length,) = struct.unpack("<Q", raw[:8])
    at = raw.index(b'"dtype":"F32"', 8, 8 + length)
    raw[at + 9 : at + 12] = b"F99"
    file.write_bytes(raw)
    with pytest.raises(UserError, match="damaged safetensors") as error:
        load_model(folder)
    assert "\n" not in str(error.value)


# ------------------------------------------------------------------------------------------------------------------- pickles


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("argparse.Namespace", lambda p: {"args": argparse.Namespace(lr=1e-3), "w": torch.ones(2)}),
        ("numpy", lambda p: {"acc": np.float64(0.5), "w": torch.ones(2)}),
        ("torch.nn.modules.linear.Linear", lambda p: torch.nn.Linear(2, 2)),
        ("getattr", lambda p: {"w": torch.ones(2), "evil": WritesAFile(p / "ran")}),
        ("posix.system", lambda p: {"evil": RunsACommand(p / "ran")}),
    ],
)
def test_pickles_with_objects_are_refused_by_class_and_nothing_runs(tmp_path, name, make, zipped):
    path = tmp_path / "foreign.pt"
    torch.save(make(tmp_path), path, _use_new_zipfile_serialization=zipped)
    for read in (load_tensors, load_training_state, lambda p: convert(p, tmp_path / "out")):
        with pytest.raises(UserError, match=name) as error:
            read(path)
        text = str(error.value)
        assert f"odevit convert --trust {path}" in text and "weights_only=" not in text and "\n" not in text
    assert name in inspect(path)
    assert [p.name for p in tmp_path.iterdir()] == ["foreign.pt"]


def test_convert_with_trust_keeps_tensors_and_hyperparameters(tmp_path):
    weights = {"module.a": torch.randn(3, 2).T, "module.b": torch.arange(3)}
    content = {
        "state_dict": weights, "args": argparse.Namespace(lr=1e-3, root=Path("x")), "acc": np.float64(0.5), "epoch": 3,
        "optimizer": {"state": {0: {"exp_avg": torch.zeros(2)}}},
    }  # fmt: skip
    torch.save(content, tmp_path / "foreign.pt")
    written = convert(tmp_path / "foreign.pt", tmp_path / "new" / "out", trust=True)
    assert [p.name for p in written] == ["out.safetensors", "out.json"]
    tensors = load_tensors(written[0])
    assert list(tensors) == list(weights) and all(torch.equal(tensors[k], weights[k]) for k in weights)
    assert json.loads(written[1].read_text()) == {"args": {"lr": 1e-3, "root": "x"}, "acc": 0.5, "epoch": 3}


def test_convert_reads_plain_pickles_of_arrays_and_whole_modules(tmp_path):
    (tmp_path / "p.pkl").write_bytes(pickle.dumps({"w": np.arange(4.0), "lr": 0.1}))
    with pytest.raises(UserError, match="plain Python pickle"):
        convert(tmp_path / "p.pkl", tmp_path / "out", trust=False)
    tensors = load_tensors(convert(tmp_path / "p.pkl", tmp_path / "out", trust=True)[0])
    assert torch.equal(tensors["w"], torch.arange(4.0, dtype=torch.float64))
    layer = torch.nn.Linear(2, 2)
    torch.save(layer, tmp_path / "m.pt")
    assert torch.equal(load_tensors(convert(tmp_path / "m.pt", tmp_path / "m", trust=True)[0])["weight"], layer.weight)


def test_convert_runs_no_code_that_it_does_not_need_and_none_of_a_broken_file(tmp_path, caplog):
    torch.save({"w": torch.ones(2)}, tmp_path / "plain.pt")
    convert(tmp_path / "plain.pt", tmp_path / "out", trust=True)
    assert "unpickling" not in caplog.text
    (tmp_path / "page.pt").write_bytes(HTML)
    with pytest.raises(UserError, match="HTML page"):
        convert(tmp_path / "page.pt", tmp_path / "out", trust=True)


@pytest.mark.parametrize("nest", ["state_dict", "model", "teacher", "model_ema"])
def test_nested_state_dicts_are_found_and_logged(tmp_path, caplog, nest):
    torch.save({nest: {"w": torch.ones(2)}, "epoch": 3}, tmp_path / "n.pt")
    with caplog.at_level(logging.INFO, "odevit"):
        assert list(load_tensors(tmp_path / "n.pt")) == ["w"]
    assert f"took '{nest}'; left epoch" in caplog.text


def test_a_file_without_named_tensors_says_what_it_found(tmp_path):
    torch.save({"epoch": 3, "name": "x"}, tmp_path / "n.pt")
    with pytest.raises(UserError, match="no named tensors; found: epoch, name"):
        load_tensors(tmp_path / "n.pt")


# ------------------------------------------------------------------------------------------------------------------- inspect


def test_inspect_says_what_a_model_folder_holds(folder):
    text = inspect(folder)
    parameters = sum(v.numel() for v in tiny().state_dict().values())
    for part in ("format 1", "ODE-ViT", "embed_dim 16", f"{parameters:,} numbers", "val_accuracy 0.9731", "method euler"):
        assert part in text
    (folder / "model.safetensors").unlink()
    assert "no model.safetensors; found: README.md, config.json" in inspect(folder)
    with pytest.raises(UserError, match=r"no model\.safetensors; found: README\.md, config\.json"):
        load_model(folder)


def test_inspect_always_has_an_answer(tmp_path, folder):
    from PIL import Image

    Image.new("L", (20, 10)).save(tmp_path / "i.png")
    np.savez(tmp_path / "d.npz", train_images=np.zeros((3, 8, 8), np.uint8), odd=np.array([{}], object))
    np.savez(tmp_path / "r.npz", values=np.zeros(2))
    (tmp_path / "r.json").write_text(json.dumps({"kind": "spectrum", "format": 1, "provenance": {}}))
    (tmp_path / "cut.png").write_bytes((tmp_path / "i.png").read_bytes()[:20])
    (tmp_path / "s.index.json").write_text(json.dumps({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}))
    torch.save({"model": {"module.w": torch.ones(2)}}, tmp_path / "t.pt")
    hf, timm, other = (tmp_path / name for name in ("hf", "timm", "other"))
    (tmp_path / "p.toml").write_text("[project]")
    (tmp_path / "bad.json").write_text('{"a": ')
    for place in (hf, timm, other, tmp_path / "nothing"):
        place.mkdir()
    (hf / "config.json").write_text(json.dumps({"model_type": "vit", "architectures": ["ViTModel"]}))
    (timm / "config.json").write_text(json.dumps({"architecture": "vit_tiny", "num_classes": 7}))
    (other / "notes.txt").write_text("hello")
    expected = {
        "i.png": "PNG.*20 x 10 pixels, mode L", "cut.png": "an image that cannot be read",
        "d.npz": r"MedMNIST.*train_images \(3, 8, 8\) uint8; odd \(1,\) object \(refused\)",
        "r.npz": "arrays of a report, kind spectrum", "r.json": "description of a report, kind spectrum",
        "s.index.json": "2 tensors in 2 files.*missing: 1.safetensors", "hf": "Hugging Face folder, model_type vit",
        "timm": "timm folder, architecture vit_tiny, num_classes 7", "other": "no config.json; found: notes.txt",
        "other/notes.txt": "a text file", "nothing": "an empty folder", "p.toml": "a text file", "bad.json": "not valid JSON",
        "t.pt": "1 tensors, 2 numbers, dtype float32(.|\n)*prefix of DDP",
        "model/model.safetensors": "safetensors file, of odevit", "model/config.json": "config of an odevit model",
    }  # fmt: skip
    for name, pattern in expected.items():
        assert re.search(pattern, inspect(tmp_path / name)), inspect(tmp_path / name)
    with pytest.raises(UserError, match="modle: no such file or folder, did you mean model"):
        inspect(tmp_path / "modle")
    with pytest.raises(UserError, match="Hugging Face model.*odevit.teachers.load"):
        load_model(hf)
    with pytest.raises(UserError, match=r"no config\.json; found: notes\.txt"):
        load_model(other)
    with pytest.raises(UserError, match="give the folder"):
        load_model(folder / "model.safetensors")


# ---------------------------------------------------------------------------------------------------------------------- card


def test_card_says_what_was_measured_and_what_was_not(folder):
    card = model_card(
        name="digits", facts=read_config(folder), data="digits, 1,078 training images",
        results={"top-1 accuracy": {"value": 0.9722, "split": "test", "n": 360, "seed": 0}, "ECE": {"value": 0.02}},
        command="odevit demo", limits=["8 px only"],
    )  # fmt: skip
    assert card.startswith("---\nlicense: apache-2.0\n") and "- odevit\n" in card
    assert "| top-1 accuracy | 0.9722 | test | 360 | 0 |" in card
    assert "| ECE | 0.02 | not recorded | not recorded | not recorded |" in card
    assert "- Command: `odevit demo`" in card and "- Commit: not recorded" in card and "- 8 px only" in card
    assert "None recorded." in (folder / "README.md").read_text()
