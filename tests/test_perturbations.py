"""Perturbed pictures and the distance of two paths: every bound holds on its own ground, and only there."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import randomise

import odevit
from analysis.operators import as_float64
from analysis.perturbations import covered, filled, noisy, perturbation_growth, step_stretch
from analysis.reports import PerturbationReport, StretchReport
from odevit import UserError
from odevit.config import ODEViTConfig, SolverConfig, ViTConfig

SMALL = {"img_size": 8, "patch_size": 4, "embed_dim": 8, "num_heads": 2, "registers": 2, "num_classes": 5}


def loud(model, seed=0, scale=0.7):
    """The model with weights that do something, in float64."""
    generator = torch.Generator().manual_seed(seed)
    randomise(model.field, scale, generator)
    with torch.no_grad():
        model.head.weight.normal_(generator=generator)
        for weight in model.tokenizer.parameters():
            weight.normal_(std=0.5, generator=generator)
    return model.double().eval()


def tiny(method="euler", seed=0, horizon=1.0, steps=3, scale=0.7, **config):
    return loud(odevit.ODEViT(ODEViTConfig(**(SMALL | config)), SolverConfig(method, horizon, steps)), seed, scale)


def discrete():
    return loud(odevit.ViT(ViTConfig(**SMALL, depth=3)))


def pair(size: float, seed=1):
    generator = torch.Generator().manual_seed(seed)
    image = torch.randn(1, 3, 8, 8, generator=generator, dtype=torch.float64)
    return image, image + size * torch.randn(1, 3, 8, 8, generator=generator, dtype=torch.float64)


def stretches(model, image, changed) -> StretchReport:
    return StretchReport.joined([step_stretch(model, image, changed, k) for k in reversed(range(model.grid.steps))])


@pytest.mark.parametrize("make", [tiny, lambda: tiny("rk4"), lambda: tiny("strang"), lambda: tiny(blocks=3), discrete])
@pytest.mark.parametrize("size", [0.01, 3.0])
def test_two_paths_stay_within_the_stretch_between_them_and_the_proven_bound(make, size):
    model, (image, changed) = make(), pair(size)
    report, stretch = perturbation_growth(model, image, changed), stretches(make(), image, changed)
    assert (report.distance <= stretch.bounds(report.distance[0])["between"] * (1 + stretch.quadrature)).all()
    assert (stretch.between <= stretch.largest + 1e-12).all()
    if report.method == "euler":
        assert (report.distance <= report.proven * (1 + 1e-12)).all()
        assert (1 + model.grid.h * report.lipschitz >= stretch.largest).all()
    else:
        assert not report.proven.size and "Euler" in report.notes[0]
    assert np.allclose(report.distance**2, (report.token_distance**2).sum(1))
    parts = report.distance_cls**2 + report.distance_patches**2 + report.distance_registers**2
    assert np.allclose(report.distance**2, parts)


@settings(max_examples=5, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_a_small_perturbation_obeys_the_bound_of_one_path(seed):
    model, (image, changed) = tiny(seed=seed, scale=1.2), pair(1e-6, seed)
    report, stretch = perturbation_growth(model, image, changed), stretches(model, image, changed)
    along = stretch.bounds(report.distance[0])["along"]
    assert (report.distance <= along * (1 + 1e-4)).all()
    assert np.allclose(stretch.along, stretch.between, rtol=1e-4)


def test_a_large_perturbation_breaks_the_bound_of_one_path_and_not_the_one_between():
    """An MLP that sleeps where the image is and wakes where the perturbed one is: why `along` is called first-order."""
    model, (image, changed) = tiny(bias=True, steps=1), pair(20.0)
    block, direction = model.field.blocks[0], torch.tensor([-2.0, 2.0, 0, 0, 0, 0, 0, 0], dtype=torch.float64)
    with torch.no_grad():
        for weight in [*block.attn.parameters(), *block.mlp.parameters()]:
            weight.zero_()
        block.mlp.fc1.weight[0], block.mlp.fc2.weight[:, 0], block.mlp.fc1.bias[0] = direction, direction, -12.0
        block.norm2.gamma.fill_(1.0)
        block.norm2.beta.zero_()
    image = image * 0
    report, stretch = perturbation_growth(model, image, changed), step_stretch(model, image, changed, 0)
    bounds = stretch.bounds(report.distance[0])
    assert bounds["along"][-1] < 0.9 * report.distance[-1] < bounds["between"][-1] < report.proven[-1]


def test_the_norm_of_a_step_is_the_dense_one():
    model, (image, changed) = tiny(), pair(0.5)
    stretch, double = step_stretch(model, image, changed, 0), as_float64(model)
    with torch.no_grad():
        x, y = double.initial_state(torch.cat([image, changed]))
    norms = []
    for s in np.linspace(0, 1, 33):
        flat = (x + s * (y - x)).flatten()
        j = torch.func.jacfwd(lambda v: double.field(0.0, v.reshape(1, *x.shape)).flatten())(flat)
        norms.append(float(torch.linalg.matrix_norm(torch.eye(len(j)) + j / 3, 2)))
    assert stretch.along[0] == pytest.approx(norms[0], rel=1e-9)
    assert stretch.largest[0] == pytest.approx(max(norms[0], norms[16], norms[-1]), rel=1e-9)
    assert stretch.between[0] == pytest.approx(np.trapezoid(norms, np.linspace(0, 1, 33)), rel=2 * stretch.quadrature)


def test_a_field_of_zero_keeps_the_distance():
    model = tiny()
    with torch.no_grad():
        for weight in model.field.parameters():
            weight.zero_()
    image, changed = pair(0.5)
    report, stretch = perturbation_growth(model, image, changed), stretches(model, image, changed)
    assert np.allclose(report.distance, report.distance[0]) and report.growth == pytest.approx(1) and abs(report.rate) < 1e-12
    assert np.allclose(report.proven, report.distance[0]) and np.allclose(stretch.along, 1) and np.allclose(stretch.rate, 0)


def test_the_logarithmic_norm_bounds_the_ode_where_steps_are_small():
    model, (image, changed) = tiny("rk4", horizon=0.25, steps=16), pair(1e-5)
    report, stretch = perturbation_growth(model, image, changed), stretches(model, image, changed)
    bounds = stretch.bounds(report.distance[0])
    assert (report.distance <= bounds["logarithmic"] * (1 + 1e-3)).all()
    assert bounds["along"][-1] == pytest.approx(bounds["logarithmic"][-1], rel=2e-2)  # ||e^{hJ}|| = e^{h mu} + O(h^2)


def test_shift_and_radius_decide_with_the_prediction():
    for size in (1e-4, 1e-2, 1.0, 5.0):
        image, changed = pair(size)
        report = perturbation_growth(tiny(), image, changed)
        same = report.logits_before.argmax() == report.logits_after.argmax()
        assert same or report.shift >= report.radius
    assert not same, "the largest perturbation should flip, or this test shows nothing"


def test_the_same_picture_twice_has_no_distance():
    image, _ = pair(0.0)
    report = perturbation_growth(tiny(registers=0), image, image)
    assert np.allclose(report.distance, 0, atol=1e-12) and not report.distance_registers.size  # rounding of a batch
    assert report.distance[0] == 0 and np.isnan(report.growth) and np.isnan(report.rate)
    assert report.vacuous(report.reach).all() and not report.vacuous(report.reach / 2).any()


def test_adaptive_solvers_have_no_proven_bound_and_say_so():
    model, (image, changed) = tiny("dopri5"), pair(1e-4)
    report = perturbation_growth(model, image, changed)
    assert "chooses other steps" in report.notes[0]
    assert (report.distance <= stretches(model, image, changed).bounds(report.distance[0])["between"] * (1 + 1e-2)).all()


def test_reports_round_trip(tmp_path):
    image, changed = pair(0.1)
    report, stretch = perturbation_growth(tiny(), image, changed), stretches(tiny(), image, changed)
    for found in (report, stretch):
        again = type(found).load(found.save(tmp_path / found.kind))
        assert all(np.array_equal(a, b) for a, b in zip(found.values().values(), again.values().values()))
        assert found.to_csv(tmp_path / found.kind).exists()
    assert isinstance(PerturbationReport.load(tmp_path / "PerturbationReport").patch_grid, tuple)


def test_wrong_input_is_named():
    image, changed = pair(0.1)
    with pytest.raises(UserError, match=r"images: shapes \(1, 3, 8, 8\) and \(2, 3, 8, 8\)"):
        perturbation_growth(tiny(), image, changed.repeat(2, 1, 1, 1))
    with pytest.raises(UserError, match="step: 3 is outside 0 to 2"):
        step_stretch(tiny(), image, changed, 3)


def grey(value=100, channels=1, size=8) -> torch.Tensor:
    return torch.full((channels, size, size), value, dtype=torch.uint8)


def test_noise_has_the_strength_it_says_and_one_direction():
    weak, strong = (noisy(grey(128, size=64), s, seed=3).double() - 128 for s in (0.02, 0.1))
    assert weak.std() == pytest.approx(0.02 * 255, rel=0.05) and strong.std() == pytest.approx(0.1 * 255, rel=0.05)
    assert (strong - 5 * weak).abs().max() <= 3  # rounding
    assert torch.equal(noisy(grey(), 0.1, seed=3), noisy(grey(), 0.1, seed=3))
    assert not torch.equal(noisy(grey(), 0.1, seed=3), noisy(grey(), 0.1, seed=4))
    assert noisy(grey(0), 1.0).min() == 0 and noisy(grey(255), 1.0).max() == 255


def test_squares_cover_whole_patches_and_stop_at_the_border():
    changed = filled(grey(), covered((8, 8), (4, 4), 1, 3, size=2), [7])
    where = (changed != 100).nonzero()
    assert where[:, 1].unique().tolist() == [2, 3, 4, 5] and where[:, 2].unique().tolist() == [6, 7] and changed.max() == 100
    assert grey().unique().tolist() == [100]


def test_colours_of_one_and_three_channels():
    where = (slice(0, 1), slice(0, 1))
    assert filled(grey(channels=3), where, [1, 2, 3])[:, 0, 0].tolist() == [1, 2, 3]
    assert filled(grey(), where, [255, 0, 0])[0, 0, 0] == 76  # 0.299 * 255


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: noisy(grey(), 1.5), "strength: 1.5"),
        (lambda: noisy(grey().float(), 0.1), "pixels: torch.float32"),
        (lambda: covered((8, 8), (4, 4), 4, 0), r"row: 4 is outside the patch grid \(0 to 3\)"),
        (lambda: covered((8, 8), (4, 4), 0, -1), "column: -1"),
        (lambda: covered((8, 8), (4, 4), 0, 0, 0), "size: 0"),
        (lambda: filled(grey(channels=3), (slice(0, 1), slice(0, 1)), [1]), "no colour of 3"),
        (lambda: filled(grey(), (slice(0, 1), slice(0, 1)), [256]), "no colour of 1"),
    ],
)
def test_wrong_pictures_are_named(call, words):
    with pytest.raises(UserError, match=words):
        call()
