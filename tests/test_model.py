"""ODEViT as a user meets it: presets, shapes and errors in one line, purity, images in, logits out."""

import numpy as np
import pytest
import torch
from PIL import Image

from odevit import InputConfig, ODEViT, ODEViTConfig, SolverConfig, TimeGrid, UserError, ViT, create_model, list_models
from odevit.losses import jasmin

SMALL = {"img_size": 8, "embed_dim": 8, "num_heads": 2, "registers": 1}


def small(solver: SolverConfig | None = None, **config) -> ODEViT:
    torch.manual_seed(0)
    return ODEViT(ODEViTConfig(**(SMALL | config)), solver or SolverConfig(steps=3, horizon=3.0)).eval()


def images(model, batch: int = 2, seed: int = 1) -> torch.Tensor:
    shape = (batch, model.config.in_chans, *model.config.image_shape)
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", [n for n in list_models() if "base" not in n])
def test_presets_give_logits_and_a_gradient_to_every_parameter(name):
    """Defect 1, for all models; the key bias of dot-product attention is invisible to the softmax."""
    torch.manual_seed(0)
    model = create_model(name, num_classes=7)
    logits = model(images(model))
    assert logits.shape == (2, 7) and bool(torch.isfinite(logits).all())
    (logits * torch.randn(2, 7)).sum().backward()
    silent = {n for n, p in model.named_parameters() if p.grad is None or not bool(p.grad.any())}
    assert all(n.endswith("attn.k.bias") for n in silent)


def test_parameters_are_counted_as_announced():
    """The CIFAR-10 model of the issue has .24 M parameters; a second block adds only itself."""
    assert sum(p.numel() for p in create_model("odevit_tiny_conv_32").parameters()) == pytest.approx(0.24e6, rel=0.03)
    one, two = small(), small(blocks=3)
    count = [sum(p.numel() for p in m.parameters()) for m in (one, one.field.blocks[0], two)]
    assert count[2] == count[0] + 2 * count[1]


@pytest.mark.parametrize("stem", ["patch", "conv"])
def test_images_of_a_batch_are_independent_in_eval(stem):
    model = small(stem=stem)
    x = images(model, 5)
    together = model(x)
    assert torch.allclose(torch.cat([model(x[k : k + 1]) for k in range(5)]), together, atol=1e-5)
    assert torch.allclose(model(x.flip(0)), together.flip(0), atol=1e-5)


@pytest.mark.parametrize(("shape", "said"), [
    ((2, 3, 8, 9), "images: expected (B, 3, 8, 8), got (2, 3, 8, 9)"),
    ((2, 1, 8, 8), "images: expected (B, 3, 8, 8), got (2, 1, 8, 8)"),
    ((3, 8, 8), "images: expected (B, 3, 8, 8), got (3, 8, 8)"),
])  # fmt: skip
def test_images_of_a_wrong_shape_are_named(shape, said):
    with pytest.raises(UserError) as error:
        small()(torch.zeros(shape))
    assert str(error.value) == said


def test_raw_pixels_and_half_weights_are_refused_in_one_line():
    model = small()
    with pytest.raises(UserError, match="^images: expected normalised floats, got torch.uint8; model.preprocess makes them$"):
        model(torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises(UserError, match="^weights: torch.bfloat16 is too coarse for a solver; keep float32 and use compute_in"):
        model.bfloat16()(torch.zeros(1, 3, 8, 8))


@pytest.mark.parametrize(("change", "said"), [
    ({"num_heads": 3}, "num_heads: 3 does not divide embed_dim 128"),
    ({"img_size": 33}, "img_size: 33 is not divisible by patch_size 4"),
    ({"img_size": (48, 30)}, "img_size: 30 is not divisible by patch_size 4"),
    ({"blocks": 4}, "blocks: 4 does not divide steps 6"),
    ({"method": "rk5"}, "method: unknown 'rk5', did you mean rk4? (installed: "),
    ({"num_clases": 3}, "num_clases: unknown field, did you mean num_classes?"),
    ({"num_classes": "ten"}, "odevit_tiny_patch4_32.num_classes: 'ten' is not int"),
    ({"attention": "dott"}, "odevit_tiny_patch4_32.attention: unknown 'dott', did you mean dot? (known: dot, l2, cosine)"),
])  # fmt: skip
def test_impossible_models_are_refused_before_anything_is_allocated(change, said):
    """T07, T24."""
    with pytest.raises(UserError) as error:
        create_model("odevit_tiny_patch4_32", **change)
    assert str(error.value).startswith(said) and "\n" not in str(error.value)


def test_unknown_presets_name_the_nearest():
    with pytest.raises(UserError, match="^preset: unknown 'odevit_tiny_patch4', did you mean odevit_tiny_patch4_32"):
        create_model("odevit_tiny_patch4")
    assert list_models("vit*") == ["vit_digits", "vit_tiny_conv_32", "vit_tiny_patch4_32"]


def test_other_image_sizes_change_the_grid():
    model = create_model("odevit_tiny_patch4_32", img_size=(16, 24), registers=0, num_classes=np.int64(3))
    assert model.layout.grid == (4, 6) and model.layout.size == 25 and model(images(model)).shape == (2, 3)


def test_attention_maps_are_made_only_when_asked():
    """Defect 12: nothing is stored, in the module or its buffers; asking does not change the answer."""
    model = small()
    x0 = model.initial_state(images(model))
    before = model(images(model))
    maps = model.field.attention(0.0, x0)
    assert maps.shape == (2, 2, 6, 6) and torch.allclose(maps.sum(-1), torch.ones(2, 2, 6))
    held = {k for m in model.modules() for k, v in vars(m).items() if isinstance(v, torch.Tensor)}
    assert held == set() and torch.equal(model(images(model)), before)
    assert float(jasmin(maps[None].detach())) <= np.log(0.5) + 1e-6


def test_the_trajectory_is_what_the_logits_come_from():
    model, x = small(), images(small())
    solved = model.trajectory(x)
    assert solved.layout == model.layout and solved.t.tolist() == [0, 1, 2, 3] and (solved.h, solved.nfe) == (1.0, 3)
    assert torch.equal(solved.x[0], model.initial_state(x))
    assert torch.equal(solved.x[1], solved.x[0] + model.field(0.0, solved.x[0]))
    assert torch.equal(model.readout(solved.x[-1]), model(x))
    assert torch.equal(model.readout(solved.x), model.head(solved.cls.squeeze(-2)))  # logit lens: leading axes are free
    other = model.trajectory(x, TimeGrid(0.0, 3.0, 48, 3), method="rk4")
    assert other.method == "rk4" and other.nfe == 4 * 48


def test_final_norm_belongs_to_the_readout():
    """Defect 14: states are before it whatever the model."""
    model, x = small(final_norm=True), images(small())
    with torch.no_grad():
        model.norm.weight.uniform_(0.5, 2.0)
        model.norm.bias.normal_()
    end = model.trajectory(x).x[-1]
    cls = end[:, 0]
    normed = (cls - cls.mean(-1, keepdim=True)) / (cls.var(-1, unbiased=False, keepdim=True) + 1e-6).sqrt()
    expected = model.head(normed * model.norm.weight + model.norm.bias)
    assert torch.allclose(model(x), expected, atol=1e-5)
    assert torch.allclose(end, small().trajectory(x).x[-1], atol=1e-6)


def test_bf16_products_keep_a_float32_state_and_are_refused_for_adaptive_methods():
    """T04: an adaptive solver takes rounding for error and needs thousands of steps."""
    model = small()
    x, exact = images(model), small()(images(model))
    model.compute_in(torch.bfloat16)
    solved = model.trajectory(x)
    assert solved.x.dtype == torch.float32 and solved.nfe == 3
    assert 0 < float((model(x) - exact).abs().max()) < 1e-2
    with pytest.raises(UserError, match="^method: dopri5 takes the rounding of torch.bfloat16 for its error"):
        model.trajectory(x, method="dopri5")
    assert torch.equal(model.compute_in(None)(x), exact)


def test_autocast_leaves_the_state_in_float32():
    model = small()
    with torch.autocast("cpu", torch.bfloat16):
        solved = model.trajectory(images(model))
    assert solved.x.dtype == torch.float32
    assert float((solved.x - model.trajectory(images(model)).x).abs().max()) < 0.05


def test_double_models_take_float_images():
    model = small().double()
    x = images(model)
    assert model(x).dtype == torch.float64 and torch.equal(model(x), model(x.double()))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "CMYK", "1"])
def test_preprocess_takes_any_picture_to_normalised_images(mode):
    """T14; the three means and deviations are the model's own."""
    model = ODEViT(ODEViTConfig(**SMALL), inputs=InputConfig((0.1, 0.2, 0.3), (0.5, 0.25, 0.2)))
    picture = Image.new("RGB", (20, 12), (255, 255, 255)).convert(mode)
    x = model.preprocess(picture)
    assert x.shape == (1, 3, 8, 8)
    assert torch.allclose(x[0, :, 3, 3], torch.tensor([0.9 / 0.5, 0.8 / 0.25, 0.7 / 0.2]), atol=1e-5)


def test_preprocess_of_pixels_is_one_formula():
    model = small()
    pixels = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    assert torch.allclose(model.preprocess(pixels), (pixels / 255 - 0.5) / 0.25, atol=1e-6)
    assert torch.equal(model.preprocess(pixels[0]), model.preprocess(pixels)[:1])
    with pytest.raises(UserError, match="uint8"):
        model.preprocess(torch.rand(2, 3, 8, 8))


def test_a_normalisation_must_have_the_channels_of_the_model():
    grey = small(in_chans=1)
    assert grey.inputs == InputConfig((0.5,), (0.25,))
    with pytest.raises(UserError, match=r"^data.mean: 3 values, but the model has 1 channel\(s\)$"):
        ODEViT(ODEViTConfig(**SMALL, in_chans=1), inputs=InputConfig((0.1, 0.2, 0.3), (0.5, 0.25, 0.2)))


def test_initial_weights_depend_on_the_seed_alone():
    first, again = small(), small()
    torch.manual_seed(1)
    other = ODEViT(first.config, first.solver)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters()))
    assert not torch.equal(first.head.weight, other.head.weight)


def test_a_folder_gives_back_its_own_class_only(tmp_path):
    model = small()
    model.save_pretrained(tmp_path)
    again = ODEViT.from_pretrained(tmp_path)
    assert torch.equal(again(images(model)), model(images(model)))
    assert ODEViT.from_pretrained(tmp_path, method="rk4").solver.method == "rk4"
    with pytest.raises(UserError, match="holds a ODEViT, not a ViT$"):
        ViT.from_pretrained(tmp_path)
