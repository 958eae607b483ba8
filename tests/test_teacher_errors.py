"""Teachers that cannot be read: one line each, which names the file, the tensor or both sides of a contradiction."""

import argparse
import json
import shutil

import pytest
import torch
from foreign_vits import DEPTH, HEADS, HF_CONFIG, HIDDEN, WIDTH, draw, file_of, hf_folder, hf_state, images, timm_state

from odevit import NonFiniteError, UserError, teachers
from odevit.checkpoint import convert

# ------------------------------------------------------------------------------------------------------------------- bad input


def test_what_is_not_there(tmp_path):
    with pytest.raises(UserError, match="no such file or folder"):
        teachers.load(tmp_path / "nothing")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UserError, match="no config.json; found: nothing"):
        teachers.load(empty)
    (empty / "notes.txt").write_text("x")
    with pytest.raises(UserError, match=r"no config.json; found: notes.txt \(a bare weights file is given by its own path\)"):
        teachers.load(empty)
    (empty / "config.json").write_text(json.dumps(HF_CONFIG))
    with pytest.raises(UserError, match=r"no weights; looked for: model.safetensors, .*; found: config.json, notes.txt"):
        teachers.load(empty)
    (empty / "config.json").write_text("{")
    (empty / "model.safetensors").write_text("")
    with pytest.raises(UserError, match=r"config.json: cannot be read"):
        teachers.load(empty)
    (empty / "config.json").write_text(json.dumps(HF_CONFIG))
    with pytest.raises(UserError, match=r"model.safetensors: empty file"):
        teachers.load(empty)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "swin"}, r"unsupported model_type 'swin' \(supported: .*dinov2_with_registers.*torchvision"),
        ({"model_type": None, "architecture": None}, "no model_type, architecture or format; found:"),
        ({"hidden_act": "relu"}, r"hidden_act 'relu' is not supported \(supported: gelu"),
        ({"hidden_size": 64}, "config.json says hidden_size 64, but the weights have 16"),
        ({"patch_size": 8, "image_size": 32}, "config.json says patch_size 8, but the weights have 4"),
        ({"num_hidden_layers": 3}, r"missing \(encoder.layer.2"),
        ({"num_attention_heads": 5}, "num_heads: 5 does not divide embed_dim 16"),
        ({"num_attention_heads": None}, "num_heads: the weights do not tell it; give num_heads=, a divisor of the width 16"),
        ({"image_size": 32}, "says 32x32 pixels, that is 8x8 patches of 4, but the position table has 17 rows; give img_size="),
        ({"id2label": {"0": "cat", "1": "dog"}}, "config.json says 2 classes, but the head of the weights has 3"),
    ],
)
def test_contradictions_name_both_sides(tmp_path, change, message):
    folder = hf_folder(tmp_path / "vit", change)
    if change.get("model_type", "") is None:
        (folder / "config.json").write_text('{"name": "x"}')
    with pytest.raises(UserError, match=message) as caught:
        teachers.load(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


def test_asked_for_something_else(tmp_path):
    folder = hf_folder(tmp_path / "vit")
    for told, message in (
        ({"patch_size": 8}, "patch_size: 8, but the patch embedding of the weights is 4 x 4"),
        ({"num_heads": 2}, "num_heads: 2, but config.json says 4"),
        ({"num_classes": 1}, "num_classes: 1; a classifier needs at least 2"),
    ):
        with pytest.raises(UserError, match=message):
            teachers.load(folder, **told)
    bare = file_of(tmp_path / "odd.pth", timm_state() | {"pos_embed": draw(1, 13, WIDTH)})
    with pytest.raises(UserError, match=r"img_size: a position table of 13 rows is of no square image; give img_size="):
        teachers.load(bare, num_heads=HEADS)
    assert teachers.load(bare, num_heads=HEADS, img_size=(12, 16)).config.grid == (3, 4)


def test_missing_and_extra_tensors_are_counted_and_named(tmp_path):
    state = hf_state()
    del state["vit.encoder.layer.1.attention.attention.key.weight"], state["vit.layernorm.bias"]
    with pytest.raises(UserError, match=r"2 missing \(encoder.layer.1.attention.attention.key.weight, layernorm.bias\)"):
        teachers.load(hf_folder(tmp_path / "missing", state=state))
    extra = hf_state() | {"vit.encoder.layer.0.attention.q_norm.weight": draw(WIDTH)}
    with pytest.raises(UserError, match=r"1 unexpected \(encoder.layer.0.attention.q_norm.weight\)"):
        teachers.load(hf_folder(tmp_path / "extra", state=extra))
    no_class = timm_state()
    del no_class["cls_token"]
    with pytest.raises(UserError, match=r"1 missing \(cls_token\); it has no class token"):
        teachers.load(file_of(tmp_path / "gap.pth", no_class), num_heads=HEADS)
    bent = hf_state() | {"vit.encoder.layer.1.output.dense.bias": draw(7)}
    with pytest.raises(UserError, match=r"1 of another shape \(field.blocks.1.mlp.fc2.bias \(7,\) instead of \(16,\)\)"):
        teachers.load(hf_folder(tmp_path / "bent", state=bent))
    gated = timm_state() | {f"blocks.{i}.mlp.fc1.weight": draw(2 * HIDDEN, WIDTH) for i in range(DEPTH)}
    with pytest.raises(UserError, match=r"a gated MLP \(SwiGLU\), which is not supported"):
        teachers.load(file_of(tmp_path / "gated.pth", gated), num_heads=HEADS)


def test_other_networks_are_refused_by_name(tmp_path):
    resnet = {"conv1.weight": draw(8, 3, 3, 3), "layer1.0.bn1.weight": draw(8), "fc.weight": draw(3, 8)}
    with pytest.raises(UserError, match=r"unsupported architecture: names such as conv1.weight, .*\(supported: .*torchvision"):
        teachers.load(file_of(tmp_path / "resnet.pth", resnet))


def test_broken_numbers_are_refused_with_the_name_of_the_tensor(tmp_path):
    state = hf_state()
    state["vit.encoder.layer.1.intermediate.dense.weight"][0, :2] = float("nan")
    with pytest.raises(NonFiniteError, match=r"vit.encoder.layer.1.intermediate.dense.weight holds 2 NaN or infinite values"):
        teachers.load(hf_folder(tmp_path / "nan", state=state))


def test_pickles_are_refused_until_converted(tmp_path):
    file = file_of(tmp_path / "dino.pth", {"teacher": timm_state(), "args": argparse.Namespace(arch="vit_tiny")})
    with pytest.raises(UserError, match=r"needs argparse.Namespace, which weights-only loading .*odevit convert --trust"):
        teachers.load(file, num_heads=HEADS)
    convert(file, tmp_path / "dino.safetensors", trust=True)
    plain = teachers.load(file_of(tmp_path / "plain.pth", timm_state()), num_heads=HEADS)
    assert torch.equal(teachers.load(tmp_path / "dino.safetensors", num_heads=HEADS)(images()), plain(images()))


def test_index_may_not_leave_its_folder(tmp_path):
    folder = hf_folder(tmp_path / "vit")
    shutil.move(folder / "model.safetensors", tmp_path / "elsewhere.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../elsewhere.safetensors"}}))
    with pytest.raises(UserError, match=r"names a file outside its folder \(../elsewhere.safetensors\)"):
        teachers.load(folder)


