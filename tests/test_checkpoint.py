"""Model folders and training states: round trips, strict loading, crashes while saving."""

import argparse
import json
import logging
import os
import random
import resource
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from odevit import NonFiniteError, UserError, ViT, create_model
from odevit.checkpoint import (
    check_weights,
    file_hash,
    inspect,
    load_model,
    load_training_state,
    model_hash,
    resize_positions,
    save_model,
    save_training_state,
    write_atomically,
)



def tiny(seed: int = 0, **overrides):
    torch.manual_seed(seed)
    return create_model("odevit_digits", **{"embed_dim": 16, "num_heads": 2, **overrides})


@pytest.fixture
def folder(tmp_path) -> Path:
    save_model(tiny(), tmp_path / "model", extra={"val_accuracy": 0.9731, "epoch": 3})
    return tmp_path / "model"


def edit(folder: Path, change) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


# ---------------------------------------------------------------------------------------------------------------- round trip


@pytest.mark.parametrize("name", ["odevit_digits", "odevit_tiny_conv_32", "vit_digits"])
def test_round_trip_is_bitwise_and_files_are_deterministic(tmp_path, name):
    model = create_model(name).eval()
    save_model(model, tmp_path / "a")
    save_model(model, tmp_path / "b")
    loaded = load_model(tmp_path / "a")
    assert type(loaded) is type(model) and not loaded.training
    assert all(torch.equal(v, loaded.state_dict()[k]) for k, v in model.state_dict().items())
    assert (loaded.config, loaded.solver, loaded.inputs) == (model.config, model.solver, model.inputs)
    images = torch.randn(2, model.config.in_chans, *model.config.image_shape)
    assert torch.equal(model(images), loaded(images))
    assert file_hash(tmp_path / "a" / "model.safetensors") == file_hash(tmp_path / "b" / "model.safetensors")
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["README.md", "config.json", "model.safetensors"]


def test_loading_draws_no_random_numbers(folder):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    load_model(folder)
    assert torch.equal(torch.rand(3), expected)


def test_float64_weights_keep_their_digits_and_bf16_weights_load_into_float32(tmp_path):
    model = tiny().double()
    with torch.no_grad():
        model.head.bias += 1 / 3
    save_model(model, tmp_path)
    assert torch.equal(load_model(tmp_path).head.bias, model.head.bias)
    half = tiny().bfloat16()
    save_model(half, tmp_path)
    loaded = load_model(tmp_path)
    assert loaded.head.weight.dtype == torch.float32 and torch.equal(loaded.head.weight, half.head.weight.float())


def test_from_pretrained_refuses_the_other_kind(folder):
    with pytest.raises(UserError, match="holds a ODEViT, not a ViT"):
        ViT.from_pretrained(folder)


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


# ------------------------------------------------------------------------------------------------------------ strict loading


def with_weights(folder: Path, change) -> None:
    file = folder / "model.safetensors"
    safetensors.torch.save_file(change(safetensors.torch.load_file(file)), file)


@pytest.mark.parametrize(
    "prefix",
    [lambda k: "module." + k, lambda k: "_orig_mod." + k, lambda k: "_orig_mod.module." + k, lambda k: "module._orig_mod." + k,
     lambda k: k.replace("field.", "field._orig_mod.")],
)  # fmt: skip
def test_prefixes_of_ddp_and_compile_are_stripped(folder, prefix):
    before = model_hash(load_model(folder))
    with_weights(folder, lambda tensors: {prefix(k): v for k, v in tensors.items()})
    assert model_hash(load_model(folder)) == before


def test_a_compiled_field_is_saved_under_plain_names(tmp_path):
    model = tiny()
    before = model_hash(model)
    model.field = torch.compile(model.field)
    save_model(model, tmp_path)
    assert model_hash(model) == model_hash(load_model(tmp_path)) == before


def test_a_partly_matching_state_lists_what_does_not_fit(folder):
    def change(tensors):
        tensors["head.bais"] = tensors.pop("head.bias")
        tensors["tokenizer.cls"] = torch.zeros(17)
        return tensors

    with_weights(folder, change)
    with pytest.raises(UserError) as error:
        load_model(folder)
    text = str(error.value)
    assert "1 missing (head.bias)" in text and "1 unexpected (head.bais)" in text and "\n" not in text
    assert "1 of another shape (tokenizer.cls (17,) instead of (16,))" in text


def test_nan_weights_load_and_check_weights_names_the_tensor(folder):
    check_weights(load_model(folder))

    def change(tensors):
        tensors["field.blocks.0.mlp.fc2.weight"][3, 2] = float("nan")
        return tensors

    with_weights(folder, change)
    model = load_model(folder)
    with pytest.raises(NonFiniteError, match=r"field\.blocks\.0\.mlp\.fc2\.weight holds 1 NaN"):
        check_weights(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format=99), r"written by a newer version \(format 99"),
        (lambda c: c.update(format=0), "format 0; not written by a release"),
        (lambda c: c.pop("format"), "no format; not written by a release"),
        (lambda c: c.update(kind="odevitt"), "kind: unknown 'odevitt', did you mean odevit"),
        (lambda c: c["model"].update(embed_dmi=3), "unknown key 'embed_dmi', did you mean embed_dim"),
        (lambda c: c["model"].update(num_heads=3), "num_heads: 3 does not divide embed_dim 16"),
        (lambda c: c.pop("model"), "no section 'model'"),
        (lambda c: c["model"].update(embed_dim=10**6), r"weights do not fit the config: .*1000000"),
        (lambda c: c["model"].update(embed_dim=10**10), "no model can be built"),
    ],
)
def test_bad_configs_are_refused_in_one_line_that_names_the_file(folder, change, message):
    edit(folder, change)
    with pytest.raises(UserError, match=message) as error:
        load_model(folder)
    assert str(folder) in str(error.value) and "\n" not in str(error.value)


def test_unknown_solver_names_the_way_out_which_works(folder):
    expected = load_model(folder)
    edit(folder, lambda c: c["solver"].update(method="radauIIA5"))
    with pytest.raises(UserError, match=r'radauIIA5.*load_model\(path, method="rk4"\) or --solver.method rk4') as error:
        load_model(folder)
    assert "euler" in str(error.value)  # the list of those that are there
    model = load_model(folder, method="rk4")
    assert model.solver.method == "rk4" and torch.equal(model.head.weight, expected.head.weight)
    assert "radauIIA5" in inspect(folder)


def test_overrides_are_checked(folder, tmp_path):
    assert load_model(folder, steps=8, horizon=2.0).grid.h == 0.25
    with pytest.raises(UserError, match="stepz: unknown override, did you mean steps"):
        load_model(folder, stepz=8)
    save_model(create_model("vit_digits", embed_dim=16), tmp_path / "vit")
    with pytest.raises(UserError, match="discrete ViT has no solver to override"):
        load_model(tmp_path / "vit", method="rk4")


# ------------------------------------------------------------------------------------------------------------ position tables


def test_positions_are_interpolated_on_the_grid_only():
    rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(4.0), indexing="ij")
    table = torch.stack([rows.flatten(), columns.flatten(), torch.full((32,), 7.0)], 1)
    table = torch.cat([torch.tensor([[100.0, 200.0, 300.0]]), table])
    new = resize_positions(table, (8, 4), (8, 8))
    assert torch.equal(new[0], table[0])
    grid = new[1:].reshape(8, 8, 3)
    torch.testing.assert_close(grid[..., 0], torch.arange(8.0)[:, None].expand(8, 8))  # rows were not touched
    torch.testing.assert_close(grid[..., 2], torch.full((8, 8), 7.0))
    # pixel centres of twice as many columns, where the cubic does not reach over the edge
    torch.testing.assert_close(grid[3, 3:5, 1], torch.tensor([1.25, 1.75]))
    assert resize_positions(table, (8, 4), (8, 4)) is table
    with pytest.raises(UserError, match="33 rows do not fit a grid of 8x8"):
        resize_positions(table, (8, 8), (4, 4))


def test_another_image_size_is_logged_and_a_bad_one_refused(tmp_path, caplog):
    save_model(create_model("odevit_tiny_patch4_32", embed_dim=16), tmp_path)
    with caplog.at_level(logging.INFO, "odevit"):
        model = load_model(tmp_path, img_size=64)
    assert "positions 8x8 -> 16x16" in caplog.text
    assert model.layout.grid == (16, 16) and model(torch.randn(1, 3, 64, 64)).shape == (1, 10)
    assert load_model(tmp_path, img_size=(48, 32)).layout.grid == (12, 8)
    with pytest.raises(UserError, match="img_size: 33 is not divisible by patch_size 4"):
        load_model(tmp_path, img_size=33)
    with pytest.raises(UserError, match=r"patch_size is fixed by the weights \(4\)"):
        load_model(tmp_path, patch_size=8)


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
    edit(folder, lambda c: c["solver"].update(steps=8))
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
    model = tiny()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 1, 8, 8)).sum().backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state(), "epoch": 3}
    save_training_state(path, state)
    loaded = load_training_state(path)
    assert loaded["epoch"] == 3 and torch.equal(loaded["rng"], state["rng"])
    moments = loaded["optimizer"]["state"][0]
    assert torch.equal(moments["exp_avg"], optimizer.state_dict()["state"][0]["exp_avg"])
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
