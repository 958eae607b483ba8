"""Tokenizer: order and positions of the tokens, the two stems, and the spectral initialisation of everything linear."""

import pytest
import torch
from torch import nn

from odevit import ODEViT, ODEViTConfig, SolverConfig, create_model
from odevit.tokens import Tokenizer, conv_stem


def images(batch: int = 2, channels: int = 3, height: int = 8, width: int = 8, seed: int = 0) -> torch.Tensor:
    return torch.randn(batch, channels, height, width, generator=torch.Generator().manual_seed(seed))


def tokenizer(**config) -> Tokenizer:
    torch.manual_seed(0)
    return Tokenizer(ODEViTConfig(**({"img_size": 8, "embed_dim": 8, "num_heads": 2, "registers": 3} | config))).eval()


@pytest.mark.parametrize("registers", [0, 3])
def test_registers_stand_last_and_have_no_positions(registers):
    made = tokenizer(registers=registers)
    layout, x = made.layout, images()
    assert made.positions.shape == (1 + layout.num_patches, 8)
    before = made(x)
    assert before.shape == (2, layout.size, 8)
    assert torch.equal(before[:, layout.registers], made.registers.expand(2, -1, -1))
    with torch.no_grad():
        made.positions.add_(1.0)
    after = made(x) - before
    assert torch.allclose(after[:, layout.registers], torch.zeros(2, registers, 8))
    assert torch.allclose(after[:, : 1 + layout.num_patches], torch.ones(2, 1 + layout.num_patches, 8))
    assert torch.allclose(before[:, layout.cls], (made.cls + made.positions[0] - 1).expand(2, 1, 8), atol=1e-6)


@pytest.mark.parametrize("stem", ["patch", "conv"])
def test_patches_are_numbered_row_by_row(stem):
    """Pixels of one patch move its own token; with the patch stem no other, with the convolutional one none before it."""
    made = tokenizer(stem=stem, img_size=(8, 16))
    assert made.layout.grid == (2, 4)
    x = images(1, 3, 8, 16)
    changed = x.clone()
    changed[..., 4:8, 8:12] += 1.0  # row 1, column 2
    moved = (made(changed) - made(x))[0, made.layout.patches].norm(dim=-1)
    touched = (moved > 1e-6).nonzero().flatten().tolist()
    assert touched == [1 * 4 + 2] if stem == "patch" else touched[0] == 1 * 4 + 2  # 3x3 kernels look one pixel left and up


def test_patch_stem_is_a_product_with_each_patch():
    made, x = tokenizer(), images()
    patch = x[:, :, 4:8, 0:4].flatten(1)  # row 1, column 0
    expected = patch @ made.stem.weight.flatten(1).T + made.positions[1 + 2]
    assert torch.allclose(made(x)[:, 1 + 2], expected, atol=1e-5)


@pytest.mark.parametrize(("patch", "stages"), [(1, 1), (2, 1), (4, 2), (8, 3)])
def test_conv_stem_halves_the_image_until_it_is_the_patch_grid(patch, stages):
    stem = conv_stem(3, patch, 32).eval()
    convolutions = [m for m in stem if isinstance(m, nn.Conv2d)]
    assert len(convolutions) == stages + 1 and stem(images(1, 3, 16, 24)).shape == (1, 32, 16 // patch, 24 // patch)
    widths = [m.out_channels for m in convolutions]
    assert widths[-1] == 32 and all(b in (2 * a, a) for a, b in zip(widths, widths[1:]))


def test_conv_stem_of_the_tiny_preset_is_the_recipe():
    """3 -> 64 -> 128, 3x3, stride 2, BatchNorm, GELU, then 1x1."""
    stem = create_model("odevit_tiny_conv_32").tokenizer.stem
    shapes = [tuple(m.weight.shape) for m in stem if isinstance(m, nn.Conv2d)]
    assert shapes == [(64, 3, 3, 3), (128, 64, 3, 3), (128, 128, 1, 1)]


@pytest.mark.parametrize("attention", ["dot", "l2", "cosine"])
@pytest.mark.parametrize("stem", ["patch", "conv"])
def test_spectral_initialisation_covers_every_matrix(attention, stem):
    """Defect 3: Q, K, V and the stem too; biases of the stem start at 0. The head alone is small."""
    torch.manual_seed(0)
    config = ODEViTConfig(img_size=8, embed_dim=16, num_heads=2, attention=attention, stem=stem, bias=True, blocks=2)
    model = ODEViT(config, SolverConfig(steps=2, horizon=2.0))
    norms = {
        name: float(torch.linalg.matrix_norm(weight.detach().flatten(1).double(), 2))
        for name, weight in model.named_parameters()
        if weight.ndim >= 2 and not name.startswith(("head", "tokenizer.positions", "tokenizer.registers"))
    }
    wanted = {"q", "v", "proj", "fc1", "fc2"} | ({"k"} if attention != "l2" else set())
    assert {name.split(".")[-2] for name in norms if "blocks.1" in name} == wanted
    assert any("stem" in name for name in norms)
    assert norms == pytest.approx(dict.fromkeys(norms, 1.0), abs=1e-5)
    biases = [w for name, w in model.named_parameters() if name.endswith("bias") and "stem" in name and w.ndim == 1]
    assert biases and all(not bool(w.any()) for w in biases)


def test_tokens_start_small():
    made = tokenizer(embed_dim=64, registers=8)
    for weight in (made.cls, made.registers, made.positions):
        assert 0.01 < float(weight.std()) < 0.03


@pytest.mark.parametrize("stem", ["patch", "conv"])
def test_images_of_a_batch_do_not_see_each_other_in_eval(stem):
    made, x = tokenizer(stem=stem), images(3)
    assert torch.allclose(made(x)[1:2], made(x[1:2]), atol=1e-6)
