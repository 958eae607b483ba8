"""Saving: hashes, plain JSON, kill -9 and a full disk while saving, training states."""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from odevit import UserError, create_model
from odevit.checkpoint import (
    inspect,
    load_model,
    load_training_state,
    model_hash,
    save_model,
    save_training_state,
    write_atomically,
)


def tiny(seed: int = 0, **overrides):
    torch.manual_seed(seed)
    return create_model("odevit_digits", **{"embed_dim": 16, "num_heads": 2, **overrides})


@pytest.fixture
def folder(tmp_path) -> Path:
    save_model(tiny(), tmp_path / "model")
    return tmp_path / "model"


def test_hash_follows_weights_and_config_but_not_dtype_or_training_notes(folder):
    model = load_model(folder)
    first = model_hash(model)
    assert len(first) == 12 and first == model_hash(tiny()) == model_hash(load_model(folder).double())
    save_model(model, folder, extra={"epoch": 4})
    assert model_hash(load_model(folder)) == first
    assert model_hash(load_model(folder, steps=8)) != first
    with torch.no_grad():
        model.head.bias[0] = torch.nextafter(model.head.bias[0], torch.tensor(1.0))
    assert model_hash(model) != first


def test_extra_is_written_as_valid_json(tmp_path):
    extra = {"acc": np.float32(0.5), "path": Path("runs"), "loss": float("nan"), "n": torch.tensor(3), "l": (1, np.arange(2))}
    save_model(tiny(), tmp_path, extra=extra)
    text = (tmp_path / "config.json").read_text()
    assert "NaN" not in text
    assert json.loads(text)["training"] == {"acc": 0.5, "path": "runs", "loss": None, "n": 3, "l": [1, [0, 1]]}


# ----------------------------------------------------------------------------------------------------------- crash while saving


def in_child(work) -> int:
    """Pid of a forked child that runs `work` and leaves without any clean-up."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = work() or 0
        finally:
            os._exit(code)
    return pid


def test_kill_while_saving_always_leaves_a_loadable_folder(tmp_path):
    models = [tiny(0), tiny(1, embed_dim=32), create_model("vit_digits", embed_dim=32)]
    known = {model_hash(model) for model in models}
    folder, draw = tmp_path / "model", random.Random(0)
    save_model(models[0], folder)

    def save_for_ever():
        while True:
            for model in models:
                save_model(model, folder)
                save_training_state(tmp_path / "state.pt", {"model": model.state_dict()})

    save_training_state(tmp_path / "state.pt", {"model": models[0].state_dict()})
    for _ in range(12):
        pid = in_child(save_for_ever)
        time.sleep(draw.uniform(0.01, 0.08))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert model_hash(load_model(folder)) in known
        assert load_training_state(tmp_path / "state.pt")["model"]
    save_model(models[0], folder)
    assert not [p.name for p in folder.iterdir() if p.name.endswith(".tmp")]


def test_a_save_torn_between_its_two_renames_loads_as_the_new_model(tmp_path, caplog):
    old, new = tiny(0, num_heads=2), tiny(1, num_heads=4)  # the same shapes: only the mark can tell
    save_model(old, tmp_path / "old")
    save_model(new, tmp_path / "new")
    shutil.copy(tmp_path / "new" / "model.safetensors", tmp_path / "old" / "model.safetensors")
    assert model_hash(load_model(tmp_path / "old")) == model_hash(new)
    assert "a save was interrupted" in caplog.text
    (tmp_path / "new" / "config.json").unlink()  # a first save, killed after the weights
    assert model_hash(load_model(tmp_path / "new")) == model_hash(new)


def test_a_hand_edited_config_is_taken_as_it_is(folder):
    config = json.loads((folder / "config.json").read_text())
    config["solver"]["steps"] = 8
    (folder / "config.json").write_text(json.dumps(config))
    assert load_model(folder).solver.steps == 8


def test_disk_full_leaves_the_old_files_and_no_temporary_one(folder):
    before = {p.name: p.read_bytes() for p in folder.iterdir()}

    def save_under_limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            save_model(tiny(1, embed_dim=64), folder)
        except UserError as error:
            message = str(error)
            return 0 if "model.safetensors: cannot be written (File too large)" in message and "\n" not in message else 3
        return 4

    _, status = os.waitpid(in_child(save_under_limit), 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_a_path_that_cannot_be_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"file: cannot be made \(File exists\)"):
        save_model(tiny(), tmp_path / "file")


def test_an_interrupt_while_writing_keeps_the_old_file(tmp_path):
    target = tmp_path / "a"
    write_atomically(target, b"old")
    with pytest.raises(TypeError):
        write_atomically(target, "not bytes")
    assert target.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


# -------------------------------------------------------------------------------------------------------------- training state


def test_training_state_round_trip_and_refusal_of_objects(tmp_path):
    path = tmp_path / "run" / "state.pt"
    optimizer = {"state": {0: {"exp_avg": torch.randn(3), "step": torch.tensor(2.0)}}, "param_groups": [{"betas": (0.9, 0.99)}]}
    state = {"model": tiny().state_dict(), "optimizer": optimizer, "rng": torch.get_rng_state(), "epoch": 3}
    save_training_state(path, state)
    loaded = load_training_state(path)
    assert loaded["epoch"] == 3 and torch.equal(loaded["rng"], state["rng"])
    assert torch.equal(loaded["optimizer"]["state"][0]["exp_avg"], optimizer["state"][0]["exp_avg"])
    assert loaded["optimizer"]["param_groups"] == optimizer["param_groups"]
    with pytest.raises(UserError, match=r"state\.run\.args is a Namespace"):
        save_training_state(path, {"run": {"args": argparse.Namespace()}})
    with pytest.raises(UserError, match=r"state\.history\.1 is a float64"):
        save_training_state(path, {"history": [0.5, np.float64(0.5)]})
    assert load_training_state(path)["epoch"] == 3
    assert "training state after epoch 3" in inspect(path)


def test_a_broken_or_foreign_training_state_is_refused(tmp_path):
    path = tmp_path / "state.pt"
    save_training_state(path, {"a": torch.zeros(1000)})
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(UserError, match="truncated zip"):
        load_training_state(path)
    torch.save({"odevit training state": 2, "state": {}}, path)
    with pytest.raises(UserError, match=r"newer version \(format 2\)"):
        load_training_state(path)
    torch.save({"a": torch.zeros(1)}, path)
    with pytest.raises(UserError, match="not a training state"):
        load_training_state(path)
