"""Model folders: round trips, strict loading, positions."""

import json
import logging
from pathlib import Path

import pytest
import safetensors.torch
import torch

from odevit import NonFiniteError, UserError, ViT, create_model
from odevit.checkpoint import (
    check_weights,
    file_hash,
    inspect,
    load_model,
    model_hash,
    resize_positions,
    save_model,
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
    assert [p.stride() for p in loaded.parameters()] == [p.stride() for p in model.parameters()]
    assert all(p.requires_grad for p in loaded.parameters())
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
    wrapper = torch.nn.Module()  # named as torch.compile names its own, whose import takes seconds
    wrapper._orig_mod = model.field
    model.field = wrapper
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
    with pytest.raises(UserError, match=r'radauIIA5.*load_model\(path, method="rk4"\) or --method rk4') as error:
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
    wide = load_model(tmp_path, img_size=(48, 32))
    assert wide.layout.grid == (12, 8)
    assert torch.equal(wide.tokenizer.positions, resize_positions(load_model(tmp_path).tokenizer.positions, (8, 8), (12, 8)))
    with pytest.raises(UserError, match="img_size: 33 is not divisible by patch_size 4"):
        load_model(tmp_path, img_size=33)
    with pytest.raises(UserError, match=r"patch_size is fixed by the weights \(4\)"):
        load_model(tmp_path, patch_size=8)
