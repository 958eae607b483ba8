"""Teachers from local files: every layout on disk loads offline, and what belongs to a teacher travels with it."""

import json
import logging
import re
import shutil
import subprocess
import sys

import pytest
import torch
from foreign_vits import CLASSES, DEPTH, HEADS, HIDDEN, WIDTH, draw, file_of, hf_folder, hf_state, images, timm_state
from safetensors.torch import save_file

from odevit import UserError, ViT, ViTConfig, create_model, teachers
from odevit.checkpoint import save_model


@pytest.fixture
def expected(tmp_path) -> torch.Tensor:
    """Logits of the one ViT of this file."""
    return teachers.load(file_of(tmp_path / "reference.pth", timm_state()), num_heads=HEADS)(images())


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr("socket.socket", refuse)


# ------------------------------------------------------------------------------------------------------------ layouts on disk


def same(path, expected, **told) -> ViT:
    teacher = teachers.load(path, **told)
    assert not teacher.training
    torch.testing.assert_close(teacher(images()), expected, atol=1e-5, rtol=0)
    return teacher


def test_hugging_face_layouts(tmp_path, expected):
    folder = hf_folder(tmp_path / "plain")
    assert same(folder, expected).inputs.classes == ("cat", "dog", "ox")
    same(folder / "model.safetensors", expected)  # its config.json lies beside it

    binary = hf_folder(tmp_path / "bin")
    (binary / "model.safetensors").unlink()
    torch.save(hf_state(), binary / "pytorch_model.bin")
    same(binary, expected)

    sharded, state = hf_folder(tmp_path / "shards"), hf_state()
    (sharded / "model.safetensors").unlink()
    names, index = list(state), {}
    for i, part in enumerate((names[:9], names[9:])):
        shard = f"model-0000{i + 1}-of-00002.safetensors"
        save_file({name: state[name] for name in part}, sharded / shard)
        index |= dict.fromkeys(part, shard)
    (sharded / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    same(sharded, expected)
    (sharded / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(UserError, match=r"shard model-00002-of-00002.safetensors is missing; found: config.json, model-00001"):
        teachers.load(sharded)


def test_cache_folders(tmp_path, expected, monkeypatch):
    model = tmp_path / "hub" / "models--lab--small-vit"
    snapshot = hf_folder(model / "snapshots" / "4d7a2146")
    with_ref = (model / "refs" / "main", "4d7a2146\n")
    for place in (snapshot, model, tmp_path / "hub"):
        same(place, expected)
    hf_folder(model / "snapshots" / "0000aaaa", {"num_attention_heads": 2})
    with pytest.raises(UserError, match=r"which snapshot to take; give one of snapshots/: 0000aaaa, 4d7a2146"):
        teachers.load(model)
    with_ref[0].parent.mkdir()
    with_ref[0].write_text(with_ref[1])
    same(model, expected)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    same("lab/small-vit", expected)
    with pytest.raises(UserError, match=r"lab/other: no such file or folder, and not in the cache .*nothing is downloaded"):
        teachers.load("lab/other")
    (tmp_path / "hub" / "models--lab--other").mkdir()
    with pytest.raises(UserError, match=r"several models; give one of them: models--lab--other, models--lab--small-vit"):
        teachers.load(tmp_path / "hub")


def test_timm_folder(tmp_path, expected):
    config = {
        "architecture": "vit_base_patch16_224", "num_classes": CLASSES, "model_args": {"num_heads": HEADS, "img_size": 16},
        "pretrained_cfg": {"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6], "input_size": [3, 224, 224]},
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(timm_state(), tmp_path / "model.safetensors")
    teacher = same(f"local-dir:{tmp_path}", expected)
    assert (teacher.inputs.mean, teacher.inputs.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_args": {"img_size": 16}}))
    with pytest.raises(UserError, match="num_heads: the weights do not tell it"):
        teachers.load(tmp_path)  # a base model has 768 channels, so its name says nothing of the heads of this one
    for change, message in (
        ({"global_pool": "avg"}, "global_pool 'avg' is not supported"),
        ({"model_args": {"block_fn": "parallel"}}, "model_args.block_fn = 'parallel' is not supported"),
        ({"model_args": {"act_layer": "relu"}}, "act_layer 'relu' is not supported"),
        ({"architecture": "swin_tiny_patch4_224"}, "unsupported architecture 'swin_tiny_patch4_224' .*timm vit_"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(UserError, match=message):
            teachers.load(tmp_path)


def test_prefixes_and_nests(tmp_path, expected, caplog):
    state = timm_state()
    noise = {name: tensor + 1 for name, tensor in state.items()}
    projection = {"head.mlp.0.weight": draw(8, WIDTH), "head.last_layer.weight_g": draw(8, 1)}
    backbone = {f"backbone.{name}": tensor for name, tensor in state.items()}
    files = {
        "nested": {"teacher": {f"module.{name}": t for name, t in (backbone | projection).items()}, "epoch": 3},
        "flat": {f"teacher.{name}": t for name, t in backbone.items()} | {f"student.backbone.{n}": t for n, t in noise.items()},
        "lightning": {"state_dict": {f"model.{name}": t for name, t in state.items()}, "hyper_parameters": {"lr": 0.1}},
        "compiled": {f"_orig_mod.module.{name}": t for name, t in state.items()},
        "masked": state | {"mask_token": draw(1, WIDTH)},
    }  # fmt: skip
    for name, content in files.items():
        caplog.clear()
        with caplog.at_level(logging.INFO, "odevit"):
            same(file_of(tmp_path / f"{name}.pth", content), expected, num_heads=HEADS)
        ignored = {"nested": "head.mlp.0", "masked": "mask_token", "flat": "student.backbone.cls_token"}.get(name)
        assert ignored is None or re.search(rf"ignored, has no part in classification: .*{re.escape(ignored)}", caplog.text)


def test_odevit_folder_is_a_teacher_too(tmp_path):
    torch.manual_seed(0)
    own = create_model("vit_digits", embed_dim=16, num_heads=2).eval()
    save_model(own, tmp_path / "own")
    teacher = teachers.load(tmp_path / "own")
    x = torch.randn(2, 1, 8, 8)
    assert torch.equal(teacher(x), own(x))
    assert teachers.load(tmp_path / "own", num_classes=4).head.weight.shape == (4, 16)
    with pytest.raises(UserError, match="num_heads: 4, but .* has 2"):
        teachers.load(tmp_path / "own", num_heads=4)
    save_model(create_model("odevit_digits", embed_dim=16, num_heads=2), tmp_path / "ode")
    with pytest.raises(UserError, match="holds an ODEViT; a teacher is a discrete ViT"):
        teachers.load(tmp_path / "ode")


# ------------------------------------------------------------------------------------------------- what travels with a teacher


@pytest.mark.parametrize(
    ("preprocessor", "config", "mean", "said"),
    [
        ({"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}, {}, (0.1, 0.2, 0.3), "preprocessor_config.json"),
        (None, {}, (0.5, 0.5, 0.5), "the default of vit"),
        (None, {"model_type": "deit"}, (0.485, 0.456, 0.406), "the default of deit"),
        (
            {"do_normalize": False, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}, {}, (0.0, 0.0, 0.0),
            "preprocessor_config.json (do_normalize: false)",
        ),
    ],
)  # fmt: skip
def test_pixel_normalisation(tmp_path, caplog, preprocessor, config, mean, said):
    folder = hf_folder(tmp_path / "vit", config)
    if preprocessor:
        (folder / "preprocessor_config.json").write_text(json.dumps(preprocessor))
    with caplog.at_level(logging.INFO, "odevit"):
        teacher = teachers.load(folder)
    assert teacher.inputs.mean == mean
    assert f"pixels normalised by {said}" in caplog.text
    grey = torch.full((3, 16, 16), 255, dtype=torch.uint8)
    whites = torch.tensor([(1 - m) / s for m, s in zip(teacher.inputs.mean, teacher.inputs.std)])
    torch.testing.assert_close(teacher.preprocess(grey)[0, :, 0, 0], whites)


def test_positions_for_another_size(tmp_path, caplog):
    folder = hf_folder(tmp_path / "vit")
    trained = teachers.load(folder)
    with caplog.at_level(logging.INFO, "odevit"):
        wide = teachers.load(folder, img_size=(8, 32))
    assert "positions 4x4 -> 2x8" in caplog.text
    assert wide.config.image_shape == (8, 32) and wide(torch.randn(1, 3, 8, 32)).shape == (1, CLASSES)
    assert torch.equal(wide.tokenizer.positions[0], trained.tokenizer.positions[0])
    with torch.no_grad():  # bicubic interpolation keeps a constant table
        trained.tokenizer.positions[1:] = 0.25
    save_model(trained, tmp_path / "flat")
    wider = teachers.load(tmp_path / "flat", img_size=24).tokenizer.positions
    torch.testing.assert_close(wider[1:], torch.full((36, WIDTH), 0.25))
    with pytest.raises(UserError, match="img_size: 33 is not divisible by patch_size 4"):
        teachers.load(folder, img_size=33)


def test_registers_move_behind_the_patches(tmp_path):
    state = timm_state(registers=3)
    teacher = teachers.load(file_of(tmp_path / "plain.pth", state), num_heads=HEADS)
    assert torch.equal(teacher.tokenizer.registers, state["reg_token"][0])
    assert torch.equal(teacher.initial_state(images())[0, teacher.layout.registers], state["reg_token"][0])
    lead = draw(1, 4, WIDTH)  # rows for CLS and the three registers: theirs are added to them
    state["pos_embed"] = torch.cat([lead, state["pos_embed"][:, 1:]], 1)
    placed = teachers.load(file_of(tmp_path / "placed.pth", state), num_heads=HEADS)
    assert torch.equal(placed.tokenizer.registers, (state["reg_token"] + lead[:, 1:])[0])
    assert torch.equal(placed.tokenizer.positions[1:], teacher.tokenizer.positions[1:])


def test_half_precision_becomes_float32(tmp_path, expected):
    halves = {name: tensor.to(torch.bfloat16) for name, tensor in timm_state().items()}
    teacher = teachers.load(file_of(tmp_path / "half.pth", halves), num_heads=HEADS)
    assert {p.dtype for p in teacher.parameters()} == {torch.float32}
    torch.testing.assert_close(teacher(images()), expected, atol=0.1, rtol=0.1)


def test_head_is_new_only_where_it_must_be_or_was_asked_for(tmp_path, caplog):
    bare = file_of(tmp_path / "dino.pth", timm_state(head=False))
    teacher = teachers.load(bare, num_heads=HEADS, num_classes=7)
    assert "no head in the weights: the head is new, zeros for 7 classes" in caplog.text
    assert torch.equal(teacher(images()), torch.zeros(2, 7))
    folder = hf_folder(tmp_path / "vit")
    assert teachers.load(folder, num_classes=CLASSES).head.weight.abs().sum() > 0
    other = teachers.load(folder, num_classes=10)
    assert "the head of 3 classes was dropped" in caplog.text
    assert other.config.num_classes == 10 and other.inputs.classes == ()


def test_trajectory_has_the_layer_as_time(tmp_path):
    teacher = teachers.load(hf_folder(tmp_path / "vit"))
    trajectory = teacher.trajectory(images())
    assert trajectory.t.tolist() == [0, 1, 2] and trajectory.method == "discrete"
    assert torch.equal(teacher.readout(trajectory.x[-1]), teacher(images()))
    shift = teacher.field(1.0, trajectory.x[1])
    torch.testing.assert_close(trajectory.x[1] + shift, trajectory.x[2])


@pytest.mark.slow
def test_without_network_and_without_the_libraries(tmp_path):
    """In a process of its own: no network interface where the system can take it away, and none of the other libraries."""
    folder = hf_folder(tmp_path / "vit")
    code = (
        "import sys\n"
        "for name in ('transformers', 'timm', 'huggingface_hub', 'torchvision'):\n    sys.modules[name] = None\n"
        f"from odevit import teachers\nprint(sum(p.numel() for p in teachers.load({str(folder)!r}).parameters()))"
    )
    alone = ["unshare", "-rn"] if shutil.which("unshare") and not subprocess.run(["unshare", "-rn", "true"]).returncode else []
    done = subprocess.run([*alone, sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == sum(t.numel() for t in hf_state().values())


def test_the_config_is_that_of_a_teacher(tmp_path):
    c = teachers.load(hf_folder(tmp_path / "vit")).config
    assert c == ViTConfig(
        img_size=16, patch_size=4, num_classes=CLASSES, embed_dim=WIDTH, num_heads=HEADS, mlp_ratio=HIDDEN / WIDTH, registers=0,
        norm_eps=1e-12, depth=DEPTH,
    )  # fmt: skip
