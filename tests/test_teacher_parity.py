"""Teachers against the libraries that they come from: logits and every hidden state of small random models within 1e-5.

The registers stand behind the patches in ours; hidden states are compared after putting them there in theirs.
"""

import json
from pathlib import Path

import pytest
import torch
from torchvision.models import VisionTransformer

from odevit import teachers

SIZE, PATCH, WIDTH, DEPTH, HEADS, CLASSES = 16, 4, 32, 3, 4, 5
TOLERANCE = 1e-5


def images(size: int = SIZE, channels: int = 3) -> torch.Tensor:
    return torch.randn(2, channels, size, size, generator=torch.Generator().manual_seed(1))


def shaken(model):
    """The model in eval mode with every weight moved, so that zeros and ones of an initialisation hide nothing."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn(weight.shape, generator=generator)
    return model.eval()


def to_the_end(states: torch.Tensor, extra: int) -> torch.Tensor:
    """[CLS, extra tokens, patches] as [CLS, patches, extra tokens]."""
    return torch.cat([states[:, :1], states[:, 1 + extra :], states[:, 1 : 1 + extra]], 1)


def agree(teacher, logits, hidden, extra: int = 0) -> None:
    """Logits, and the hidden states before and after every layer, are theirs."""
    with torch.no_grad():
        trajectory = teacher.trajectory(images(teacher.config.image_shape[0], teacher.config.in_chans))
        ours = teacher.readout(trajectory.x[-1])
    assert trajectory.method == "discrete"
    assert len(hidden) == len(trajectory.x) == teacher.config.depth + 1
    for mine, theirs in zip(trajectory.x, hidden):
        torch.testing.assert_close(mine, to_the_end(theirs.detach(), extra), atol=TOLERANCE, rtol=0)
    if logits is not None:
        torch.testing.assert_close(ours, logits.detach(), atol=TOLERANCE, rtol=0)
    assert float(trajectory.x[-1].std()) > 0.1


def recorded(layers, run) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """What `run` returns, and the input of the first layer with the output of each, through hooks."""
    states: list[torch.Tensor] = []
    hooks = [layers[0].register_forward_pre_hook(lambda _, args: states.append(args[0]))]
    hooks += [layer.register_forward_hook(lambda _m, _a, out: states.append(out)) for layer in layers]
    with torch.no_grad():
        out = run()
    for hook in hooks:
        hook.remove()
    return out, states


# ----------------------------------------------------------------------------------------------------------------- torchvision


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_torchvision(tmp_path, suffix):
    from safetensors.torch import save_file

    torch.manual_seed(0)
    theirs = shaken(VisionTransformer(SIZE, PATCH, DEPTH, HEADS, WIDTH, 2 * WIDTH, num_classes=CLASSES))
    file = tmp_path / f"vit{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)(theirs.state_dict(), file)
    agree(teachers.load(file, num_heads=HEADS), *recorded(theirs.encoder.layers, lambda: theirs(images())))


# -------------------------------------------------------------------------------------------------------------- Hugging Face


def hugging_face():
    return pytest.importorskip("transformers", reason="the development dependency transformers is not installed")


SMALL = {
    "hidden_size": WIDTH, "num_hidden_layers": DEPTH, "num_attention_heads": HEADS, "image_size": SIZE, "patch_size": PATCH,
}  # fmt: skip
KINDS = {  # class of the config, class of the model, further settings, tokens between CLS and patches
    "vit": ("ViTConfig", "ViTForImageClassification", {"intermediate_size": 48}, 0),
    "vit without qkv biases": ("ViTConfig", "ViTForImageClassification", {"intermediate_size": 48, "qkv_bias": False}, 0),
    "vit, quick gelu": ("ViTConfig", "ViTForImageClassification", {"intermediate_size": 48, "hidden_act": "quick_gelu"}, 0),
    "dino": ("ViTConfig", "ViTModel", {"intermediate_size": 48}, 0),
    "deit": ("DeiTConfig", "DeiTForImageClassification", {"intermediate_size": 48}, 1),
    "deit with teacher": ("DeiTConfig", "DeiTForImageClassificationWithTeacher", {"intermediate_size": 48}, 1),
    "dinov2": ("Dinov2Config", "Dinov2ForImageClassification", {"mlp_ratio": 2}, 0),
    "dinov2 model": ("Dinov2Config", "Dinov2Model", {"mlp_ratio": 2}, 0),
    "dinov2 with registers": (
        "Dinov2WithRegistersConfig", "Dinov2WithRegistersForImageClassification", {"mlp_ratio": 2, "num_register_tokens": 3}, 3,
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_hugging_face(tmp_path, kind):
    library = hugging_face()
    config, model, more, extra = KINDS[kind]
    labels = {} if model.endswith("Model") else {"num_labels": CLASSES}
    theirs = shaken(getattr(library, model)(getattr(library, config)(**SMALL, **more, **labels)))
    theirs.save_pretrained(tmp_path)
    with torch.no_grad():
        out = theirs(images(), output_hidden_states=True)
    teacher = teachers.load(tmp_path)
    assert teacher.config.norm_eps == theirs.config.layer_norm_eps
    # transformers 5 gives hidden states before the final norm only from the layers themselves
    layers = next(m for name, m in theirs.named_modules() if isinstance(m, torch.nn.ModuleList))
    _, states = recorded(layers, lambda: theirs(images()))
    agree(teacher, getattr(out, "logits", None), states, extra)
    if not labels:  # the backbone's own output is the final norm of all tokens, which is our readout's
        last = teacher.norm(teacher.trajectory(images()).x[-1])
        torch.testing.assert_close(last, to_the_end(out.last_hidden_state, extra), atol=TOLERANCE, rtol=0)


@pytest.mark.slow
def test_hugging_face_modules_names_and_shards(tmp_path):
    library = hugging_face()
    theirs = shaken(library.ViTForImageClassification(library.ViTConfig(**SMALL, intermediate_size=48, num_labels=CLASSES)))
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert (tmp_path / "shards" / "model.safetensors.index.json").exists()
    theirs.config.save_pretrained(tmp_path / "bin")
    torch.save(theirs.state_dict(), tmp_path / "bin" / "pytorch_model.bin")  # names of the modules, not of the file format
    expected = theirs(images()).logits
    for name in ("shards", "bin"):
        torch.testing.assert_close(teachers.load(tmp_path / name)(images()), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.slow
def test_positions_for_another_size_are_those_of_the_library(tmp_path):
    library = hugging_face()
    kind = library.Dinov2WithRegistersConfig(**SMALL, mlp_ratio=2, num_register_tokens=2, num_labels=CLASSES)
    theirs = shaken(library.Dinov2WithRegistersForImageClassification(kind))
    theirs.save_pretrained(tmp_path)
    for size in (8, 24, 32):
        with torch.no_grad():
            expected = theirs(images(size)).logits
            torch.testing.assert_close(teachers.load(tmp_path, img_size=size)(images(size)), expected, atol=TOLERANCE, rtol=0)


# ----------------------------------------------------------------------------------------------------------------------- timm


TIMM = {  # architecture, arguments, tokens between CLS and patches
    "vit": ("vit_tiny_patch16_224", {}, 0),
    "no qkv bias": ("vit_tiny_patch16_224", {"qkv_bias": False}, 0),
    "quick gelu": ("vit_tiny_patch16_224", {"act_layer": "quick_gelu"}, 0),
    "layer scale, registers without positions": (
        "vit_small_patch14_reg4_dinov2", {"reg_tokens": 4, "no_embed_class": True, "init_values": 0.5}, 4,
    ),
    "registers with positions": ("vit_tiny_patch16_224", {"reg_tokens": 2}, 2),
    "deit3": ("deit3_small_patch16_224", {"no_embed_class": True, "init_values": 0.5}, 0),
    "distilled": ("deit_tiny_distilled_patch16_224", {}, 1),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("kind", TIMM)
def test_timm(tmp_path, kind, bare):
    timm = pytest.importorskip("timm", reason="the development dependency timm is not installed")
    from safetensors.torch import save_file

    name, more, extra = TIMM[kind]
    sizes = {"img_size": SIZE, "patch_size": PATCH, "embed_dim": WIDTH, "depth": DEPTH, "num_heads": HEADS, **more}
    theirs = shaken(timm.create_model(name, num_classes=CLASSES, **sizes))
    pixels = {"mean": [0.5] * 3, "std": [0.4] * 3}
    config = {"architecture": name, "num_classes": CLASSES, "model_args": sizes, "pretrained_cfg": pixels}
    save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    if not bare:
        (tmp_path / "config.json").write_text(json.dumps(config))
    place = tmp_path / "model.safetensors" if bare else f"local-dir:{tmp_path}"
    if bare and "act_layer" in more:
        pytest.skip("a bare state dict does not tell the activation")
    teacher = teachers.load(place, num_heads=HEADS if bare else None)
    agree(teacher, *recorded(theirs.blocks, lambda: theirs(images())), extra)
    if not bare:
        assert teacher.inputs.std == (0.4, 0.4, 0.4)


@pytest.mark.slow
def test_timm_reads_what_we_read(tmp_path: Path):
    """The folder that timm itself writes, read back by timm and by us."""
    timm = pytest.importorskip("timm", reason="the development dependency timm is not installed")
    from timm.models import save_for_hf

    sizes = {"img_size": SIZE, "patch_size": PATCH, "embed_dim": WIDTH, "depth": DEPTH, "num_heads": HEADS}
    theirs = shaken(timm.create_model("vit_tiny_patch16_224", num_classes=CLASSES, **sizes))
    save_for_hf(theirs, tmp_path, model_args=sizes)
    again = timm.create_model(f"local-dir:{tmp_path}", pretrained=True).eval()
    torch.testing.assert_close(teachers.load(f"local-dir:{tmp_path}")(images()), again(images()), atol=TOLERANCE, rtol=0)
