"""Paths of tokens: exact geometry, principal axes, collapse and clusters, matching of two paths, logit lens."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import circle, linear, lorenz, randomise, rotation

import odevit
from analysis.reports import Report, TokenPathReport
from analysis.token_paths import (
    Basis,
    cluster_count,
    collapse_ratio,
    effective_rank,
    logit_lens,
    mean_cosine,
    menger,
    participation_ratio,
    patch_region,
    plane_field,
    principal_basis,
    procrustes_distance,
    stable_rank,
    teacher_student,
    token_indices,
    token_paths,
    warp,
)
from analysis.token_paths.bases import squared_singular_values
from analysis.token_paths.kinematics import curvature, differences
from analysis.token_paths.lens import decision_index
from odevit import NonFiniteError, TimeGrid, TokenLayout, Trajectory, UserError
from odevit.config import ODEViTConfig, SolverConfig, ViTConfig

seeds = st.integers(0, 10**6)
fast = settings(max_examples=10, deadline=None, derandomize=True)


def randn(*shape, seed=0):
    """Gaussian float64 numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sampled(t, x, layout=None):
    """A trajectory of states from elsewhere."""
    return Trajectory(torch.as_tensor(t, dtype=torch.float64), x, "sampled", None, 0, layout)


def tiny(blocks=1, solver=None, seed=0, **config):
    """A model of 1 + 4 + 2 tokens with weights of size 1 and a head that tells states apart."""
    torch.manual_seed(seed)
    shape = {"img_size": 8, "patch_size": 4, "embed_dim": 8, "num_heads": 2, "registers": 2, "num_classes": 5}
    model = odevit.ODEViT(ODEViTConfig(**(shape | config), blocks=blocks), solver or SolverConfig("euler", 2.0, 8))
    return loud(model, seed)


def loud(model, seed=0):
    """The model with random weights of size 1, so that nothing holds only at initialisation."""
    generator = torch.Generator().manual_seed(seed)
    randomise(model.field, 1.0, generator)
    with torch.no_grad():
        model.head.weight.normal_(generator=generator)
        model.tokenizer.requires_grad_(False)
        for weight in model.tokenizer.parameters():
            weight.normal_(std=0.5, generator=generator)
    return model.double().eval()


def images(count=3, seed=1):
    """Random images of the tiny model."""
    return randn(count, 3, 8, 8, seed=seed)


def helix(radius=2.0, pitch=0.5):
    """(field, exact solution) of a helix of curvature r / (r^2 + c^2)."""

    def f(t, x):
        return torch.stack([-x[..., 1], x[..., 0], torch.full_like(x[..., 0], pitch)], -1)

    return f, lambda t: torch.stack([radius * t.cos(), radius * t.sin(), pitch * t], -1)


# Geometry with exact answers


def test_half_circle():
    t = torch.linspace(0, math.pi, 41, dtype=torch.float64)
    x = 2.0 * torch.stack([t.cos(), t.sin()], -1)
    report = token_paths(circle, sampled(t, x))
    assert report.derivatives == "exact"
    np.testing.assert_allclose(report.curvature, 0.5, rtol=1e-13)
    np.testing.assert_allclose(report.speed, 2.0, rtol=1e-13)
    np.testing.assert_allclose(report.acceleration, 2.0, rtol=1e-13)
    np.testing.assert_allclose(report.length, 2 * math.pi, rtol=1e-13)
    np.testing.assert_allclose(report.turning, math.pi, rtol=1e-13)
    np.testing.assert_allclose(report.straightness, 2 / math.pi, rtol=5e-4)
    assert report.polyline.item() < report.length.item()


def test_helix_curvature_exact_and_by_samples():
    f, solution = helix()
    t = torch.linspace(0, 3, 61, dtype=torch.float64)
    exact, by_samples = token_paths(f, sampled(t, solution(t))), token_paths(None, sampled(t, solution(t)))
    np.testing.assert_allclose(exact.curvature, 2 / (4 + 0.25), rtol=1e-13)
    assert by_samples.derivatives == "differences"
    np.testing.assert_allclose(by_samples.curvature[1:-1], 2 / 4.25, rtol=1e-3)
    assert np.isnan(by_samples.curvature[[0, -1]]).all() and np.isnan(by_samples.speed[-1]).all()
    np.testing.assert_allclose(by_samples.turning, exact.turning, rtol=0.02)  # the polygon has no corner in its first half side


def test_menger_is_exact_on_circles_and_second_order_elsewhere():
    t = torch.tensor([0.0, 0.4, 1.3, 1.9], dtype=torch.float64)  # unequal spacing does not matter on a circle
    np.testing.assert_allclose(menger(3 * torch.stack([t.sin(), t.cos()], -1))[1:-1], 1 / 3, rtol=1e-13)

    def error(h):
        s = 0.7 + h * torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)
        true = 2.0 / (4 * math.sin(0.7) ** 2 + math.cos(0.7) ** 2) ** 1.5
        return abs(menger(torch.stack([2 * s.cos(), s.sin()], -1))[1].item() - true)

    assert math.log2(error(0.02) / error(0.01)) == pytest.approx(2, abs=0.01)


def test_straight_line_and_a_token_at_rest():
    t = torch.linspace(0, 1, 5, dtype=torch.float64)
    x = torch.stack([t[:, None] * torch.ones(3).double(), torch.ones(5, 3).double()], 1)  # token 1 never moves

    def f(t, x):
        return torch.stack([torch.ones(3).double(), torch.zeros(3).double()]) + 0 * x

    report = token_paths(f, sampled(t, x))
    assert report.curvature[:, 0, 0] == pytest.approx(0) and report.straightness[0, 0] == pytest.approx(1, abs=1e-15)
    assert np.isnan(report.curvature[:, 0, 1]).all() and np.isnan(report.straightness[0, 1]) and np.isnan(report.turning[0, 1])


@fast
@given(seeds, st.floats(0.2, 5))
def test_geometry_is_invariant_to_time_rescaling(seed, factor):
    a = randn(4, 4, seed=seed)
    f, x0 = linear(a.numpy()), randn(4, seed=seed + 1)
    t = torch.linspace(0, 1, 9, dtype=torch.float64)
    x = torch.stack([f.solution(s, x0) for s in t])
    slow = token_paths(f, sampled(t, x))
    fast_ = token_paths(lambda t, x: factor * f(t, x), sampled(t / factor, x))
    for name in ("curvature", "length", "straightness", "turning", "polyline"):
        np.testing.assert_allclose(getattr(fast_, name), getattr(slow, name), rtol=1e-9)
    np.testing.assert_allclose(fast_.speed, factor * slow.speed, rtol=1e-9)


def test_acceleration_holds_the_explicit_time_derivative():
    """x' = 2 t A x runs along e^{t^2 A} x0: x'' = 2 A x + 4 t^2 A^2 x."""
    a = rotation().matrix
    t = torch.linspace(0.1, 1, 4, dtype=torch.float64)
    x = torch.stack([torch.linalg.matrix_exp(s * s * a) @ torch.ones(2).double() for s in t])
    report = token_paths(lambda t, x: 2 * t * (x @ a.T), sampled(t, x))
    expected = 2 * x @ a.T + 4 * t[:, None] ** 2 * x @ a.T @ a.T
    np.testing.assert_allclose(report.acceleration[:, 0, 0], expected.norm(dim=-1), rtol=1e-12)


def test_polyline_grows_to_the_length_at_second_order():
    f, x0 = rotation(-0.3, 2.0), torch.tensor([1.0, 0.5]).double()
    gaps = []
    for n in (20, 40):
        t = torch.linspace(0, 2, n + 1, dtype=torch.float64)
        x = torch.stack([f.solution(s, x0) for s in t])
        exact = x0.norm() * math.hypot(0.3, 2.0) * (1 - math.exp(-0.6)) / 0.3
        gaps.append(float(exact - token_paths(f, sampled(t, x)).polyline.item()))
    assert gaps[1] > 0 and math.log2(gaps[0] / gaps[1]) == pytest.approx(2, abs=0.02)


def test_lorenz_goes_through_the_same_code_backwards_too():
    x0 = torch.tensor([1.0, 1.0, 20.0]).double()
    forth = odevit.integrate(lorenz, x0, TimeGrid(0, 0.2, steps=40), "rk4")
    back = odevit.integrate(lorenz, forth.x[-1], TimeGrid(0.2, 0, steps=40), "rk4")
    a, b = token_paths(lorenz, forth), token_paths(lorenz, back)
    assert a.length.item() == pytest.approx(b.length.item(), rel=1e-4) and a.length.item() > 0
    assert a.turning.item() == pytest.approx(b.turning.item(), rel=1e-4)


# Our models


def test_acceleration_of_a_model_agrees_with_differences_of_a_fine_solve():
    model = tiny(solver=SolverConfig("rk4", 0.25, 50))
    trajectory = model.trajectory(images(2))
    report = token_paths(model, trajectory)
    v, a = differences(trajectory.t, trajectory.x.detach())
    np.testing.assert_allclose(report.acceleration[1:-1], a[1:-1].norm(dim=-1), rtol=5e-3, atol=1e-3)  # O(h^2)
    np.testing.assert_allclose(report.curvature[1:-1], menger(trajectory.x.detach())[1:-1], rtol=2e-2, atol=1e-2)
    np.testing.assert_allclose(report.length, report.polyline, rtol=1e-4)


def test_velocity_at_a_break_is_that_of_the_later_block():
    model = tiny(blocks=2)
    trajectory = model.trajectory(images(1))
    report = token_paths(model, trajectory)
    first, second = model.field.piece(0.0), model.field.piece(1.9)
    with torch.no_grad():
        assert not torch.allclose(first(1.0, trajectory.at(1.0)), second(1.0, trajectory.at(1.0)))
        np.testing.assert_allclose(report.speed[3], first(0.75, trajectory.at(0.75)).norm(dim=-1), rtol=1e-12)
        np.testing.assert_allclose(report.speed[4], second(1.0, trajectory.at(1.0)).norm(dim=-1), rtol=1e-12)
        np.testing.assert_allclose(report.speed[-1], second(2.0, trajectory.x[-1]).norm(dim=-1), rtol=1e-12)


def test_discrete_vit_velocity_is_the_block_update():
    torch.manual_seed(0)
    config = ViTConfig(img_size=8, patch_size=4, embed_dim=8, num_heads=2, registers=0, num_classes=5, depth=3)
    vit = loud(odevit.ViT(config))
    trajectory = vit.trajectory(images(2))
    report = token_paths(vit, trajectory)
    assert report.derivatives == "differences"
    with torch.no_grad():
        updates = torch.stack([vit.field(float(l), trajectory.x[l]) for l in range(3)])
    np.testing.assert_allclose(report.speed[:-1], updates.norm(dim=-1), rtol=1e-12)
    np.testing.assert_allclose(report.length, updates.norm(dim=-1).sum(0), rtol=1e-12)
    np.testing.assert_allclose(report.acceleration[1], (updates[1] - updates[0]).norm(dim=-1), rtol=1e-12)


def test_single_precision_trajectory_is_measured_in_double():
    model = tiny()
    double = token_paths(model, model.trajectory(images(1)))
    single = token_paths(model.float(), model.trajectory(images(1).float()))
    assert single.speed.dtype == np.float64
    np.testing.assert_allclose(single.speed, double.speed, rtol=1e-4)
    assert (single.register_norm.shape, single.patch_norm.shape) == ((9, 1, 2), (9, 1, 2, 2))
    third = model.double().initial_state(images(1))[0, 3].detach()  # CLS, then the first row of two patches
    np.testing.assert_allclose(double.patch_norm[0, 0, 1, 0], third.norm(), rtol=1e-6)


def test_report_round_trip(tmp_path):
    report = token_paths(lorenz, sampled([0.0, 0.1, 0.2], randn(3, 4, 3)))
    loaded = Report.load(report.save(tmp_path / "paths"))
    assert isinstance(loaded, TokenPathReport) and np.array_equal(loaded.curvature, report.curvature, equal_nan=True)
    assert "curvature [1/state]" in report.to_csv(tmp_path / "paths").read_text().splitlines()[0]


# Principal axes and ranks


@fast
@given(seeds)
def test_principal_axes(seed):
    x = randn(5, 4, 6, seed=seed) @ randn(6, 6, seed=seed + 1) + 3
    basis = principal_basis(x, k=6)
    rows = x.reshape(-1, 6).numpy()
    assert basis.variances.sum() == pytest.approx(((rows - rows.mean(0)) ** 2).sum() / len(rows), rel=1e-12)
    np.testing.assert_allclose(basis.components @ basis.components.T, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(basis.lift(basis.apply(x)), x, atol=1e-11)
    np.testing.assert_allclose(basis.apply(x).reshape(-1, 6).var(0), basis.variances, rtol=1e-9, atol=1e-11)
    assert basis.explained.sum() == pytest.approx(1) and (np.diff(basis.variances) <= 0).all()


def test_a_basis_is_shared_by_two_sets():
    a, b = randn(7, 5), randn(3, 4, 5, seed=1) + 2
    together = principal_basis(a, b, k=2)
    pooled = principal_basis(torch.cat([a, b.reshape(-1, 5)]), k=2)
    np.testing.assert_allclose(together.components, pooled.components, atol=1e-12)
    report = token_paths(None, sampled([0.0, 1.0, 2.0], b), basis=together)
    np.testing.assert_allclose(report.coordinates[:, 0], together.apply(b), atol=1e-14)
    np.testing.assert_allclose(together.directions(b[1] - b[0]), together.apply(b[1]) - together.apply(b[0]), atol=1e-12)


@fast
@given(seeds, st.integers(1, 7), st.integers(1, 7))
def test_chain_of_ranks(seed, n, d):
    x = randn(n, d, seed=seed)
    power = squared_singular_values(x)
    np.testing.assert_allclose(power.flip(-1), torch.linalg.svdvals(x) ** 2, rtol=1e-9, atol=1e-12)
    chain = [1.0, *(float(rank(power)) for rank in (stable_rank, participation_ratio, effective_rank)), float(min(n, d))]
    assert all(a <= b * (1 + 1e-12) for a, b in itertools.pairwise(chain))


def test_ranks_by_hand():
    power = torch.tensor([4.0, 1.0, 1.0, 0.0]).double()
    assert stable_rank(power) == 1.5 and participation_ratio(power) == 2
    assert float(effective_rank(power)) == pytest.approx(1.5 ** (2 / 3) * 6 ** (1 / 3))


# Collapse and clusters


@fast
@given(seeds, st.integers(2, 8))
def test_mean_cosine_is_the_mean_over_pairs(seed, n):
    x = randn(2, n, 5, seed=seed)
    cos = torch.nn.functional.cosine_similarity(x[:, :, None], x[:, None], dim=-1)
    pairs = (cos.sum((1, 2)) - n) / (n * (n - 1))
    np.testing.assert_allclose(mean_cosine(x), pairs, atol=1e-13)
    assert (mean_cosine(x) >= -1 / (n - 1) - 1e-12).all()


def test_collapse_ratio_ends():
    x = randn(6, 5)
    assert collapse_ratio(x[:1].expand(6, 5)) < 1e-15 and mean_cosine(x[:1].expand(6, 5)) == pytest.approx(1)
    assert collapse_ratio(x - x.mean(0)) == pytest.approx(1)
    assert 0 < collapse_ratio(x) < 1 and math.isnan(mean_cosine(x[:1]))


@fast
@given(seeds)
def test_clusters_do_not_increase_with_delta(seed):
    x = randn(12, 3, seed=seed)
    counts = [int(cluster_count(x, delta)) for delta in (0.01, 0.05, 0.1, 0.3, 0.6, 1.0, 2.0)]
    assert counts == sorted(counts, reverse=True) and counts[0] <= 12


def test_clusters_chain_and_count():
    angles = torch.tensor([0.0, 0.1, 0.2, 1.5, 1.6, 3.0]).double()
    x = torch.stack([angles.cos(), angles.sin()], -1)
    delta = 1 - math.cos(0.11)  # neighbours only; 0 and 0.2 are joined through 0.1
    assert cluster_count(x, delta) == 3 and cluster_count(5 * x, delta) == 3
    assert cluster_count(x, 1 - math.cos(0.09)) == 6


def sphere_attention(beta):
    """x_i' = projection on the tangent at x_i of sum_j softmax_j(beta x_i.x_j) x_j: attention with V = Q^T K = I."""

    def f(t, x):
        y = (beta * x @ x.mT).softmax(-1) @ x
        return y - (y * x).sum(-1, keepdim=True) * x

    return f


@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_interaction_energy_does_not_decrease_on_the_sphere(beta):
    x0 = torch.nn.functional.normalize(randn(10, 3), dim=-1)
    x = odevit.integrate(sphere_attention(beta), x0, TimeGrid(0, 6, steps=120), "rk4").x
    np.testing.assert_allclose(x.norm(dim=-1), 1, atol=1e-6)
    energy = (beta * x @ x.mT).exp().sum((-1, -2)) / (2 * beta * 100)
    assert float(energy.diff().min()) > -1e-9 and energy[-1] > energy[0] + 0.1


def test_tokens_become_one_at_rate_two_for_beta_one():
    """1 - cos falls like e^{-2t} late; nothing is claimed for large beta, where clusters are metastable."""
    x0 = torch.nn.functional.normalize(randn(8, 3), dim=-1)
    trajectory = odevit.integrate(sphere_attention(1.0), x0, TimeGrid(0, 14, steps=280), "rk4")
    report = token_paths(None, trajectory)
    assert report.clusters[-1].item() == 1 and report.clusters[0].item() > 1
    gap = 1 - mean_cosine(trajectory.x)
    rate = (gap[-20].log() - gap[-60].log()) / (trajectory.t[-20] - trajectory.t[-60])
    assert float(rate) == pytest.approx(-2, abs=0.01)


# Matching two paths


@fast
@given(seeds)
def test_procrustes(seed):
    a, b = randn(9, 4, seed=seed), randn(9, 4, seed=seed + 1)
    q = torch.linalg.qr(randn(4, 4, seed=seed + 2))[0]
    assert procrustes_distance(a @ q + 5, a) < 1e-12
    centred = [s - s.mean(0) for s in (a, b)]
    nuclear = torch.linalg.svdvals(centred[0].T @ centred[1]).sum()
    formula = (centred[0].norm() ** 2 + centred[1].norm() ** 2 - 2 * nuclear).sqrt()
    assert procrustes_distance(a, b) == pytest.approx(float(formula), rel=1e-9)
    assert procrustes_distance(a, b) <= float((centred[0] - centred[1]).norm()) + 1e-12


def test_least_squares_beats_procrustes_beats_identity():
    layout = TokenLayout(registers=0, grid=(2, 2))
    student, teacher = sampled(range(4), randn(4, 3, 5, 4), layout), sampled(range(3), randn(3, 3, 5, 4, seed=1), layout)
    fits = ("least_squares", "procrustes", "identity")
    reports = {fit: teacher_student(student, teacher, tokens="all", fit=fit) for fit in fits}
    least, orthogonal, none = (r.numerator for r in reports.values())
    assert (least <= orthogonal + 1e-12).all() and (orthogonal <= none + 1e-12).all() and (least < none).all()
    x, h = student.x[2].reshape(-1, 4).numpy(), teacher.x[1].reshape(-1, 4).numpy()
    dense = np.linalg.lstsq(h, x, rcond=None)[0]
    assert least[1, 2] == pytest.approx(np.linalg.norm(x - h @ dense), rel=1e-12)
    assert reports["identity"].distance[1, 2] == pytest.approx(np.linalg.norm(x - h) / np.linalg.norm(h))
    assert reports["least_squares"].determined
    assert not teacher_student(student, teacher, fit="least_squares").determined  # 3 CLS rows for 16 numbers


def test_a_rotated_slower_student_is_recognised():
    layout, path = TokenLayout(grid=(1, 1)), randn(5, 2, 2, 4)
    teacher = sampled(range(5), path, layout)
    student = sampled([0.0, 1.0, 2.0, 2.5, 3.0, 4.0], path[[0, 1, 2, 2, 3, 4]] @ torch.linalg.qr(randn(4, 4))[0], layout)
    report = teacher_student(student, teacher, tokens="all", fit="procrustes")
    assert report.matched_time.tolist()[:2] == [0.0, 1.0] and report.schedule_cost < 1e-12
    assert report.schedule.tolist() == [[0, 0], [1, 1], [2, 2], [2, 3], [3, 4], [4, 5]]


@fast
@given(seeds, st.integers(1, 4), st.integers(1, 5))
def test_warping_costs_no_more_than_any_monotone_schedule(seed, layers, times):
    cost = np.random.default_rng(seed).random((layers, times))
    pairs, total = warp(cost)
    assert total == pytest.approx(sum(cost[l, k] for l, k in pairs))
    assert pairs[0].tolist() == [0, 0] and pairs[-1].tolist() == [layers - 1, times - 1]
    assert all(tuple(step) in {(0, 1), (1, 0), (1, 1)} for step in np.diff(pairs, axis=0).tolist())

    def cheapest(l, k):
        before = [cheapest(l - a, k - b) for a, b in ((1, 0), (0, 1), (1, 1)) if l >= a and k >= b]
        return cost[l, k] + min(before, default=0.0)

    assert total == pytest.approx(cheapest(layers - 1, times - 1))


# Logit lens


def test_decision_index_is_the_last_change():
    prediction = np.array([[1, 0, 2], [1, 1, 2], [1, 0, 3], [1, 0, 2]])
    assert decision_index(prediction).tolist() == [0, 2, 3]


def test_logit_lens_of_a_model_ends_in_its_logits():
    model, batch = tiny(), images(4)
    trajectory = model.trajectory(batch)
    report = logit_lens(model, trajectory)
    np.testing.assert_allclose(report.logits[-1], model(batch).detach(), atol=1e-12)
    for b in range(4):
        k = report.time.tolist().index(report.decision_time[b])
        assert (report.prediction[k:, b] == report.prediction[-1, b]).all()
        assert k == 0 or report.prediction[k - 1, b] != report.prediction[-1, b]


def test_resolved_steps_hide_no_flip():
    model, batch = tiny(solver=SolverConfig("rk4", 2.0, 80)), images(24)
    fine, coarse = model.trajectory(batch), model.trajectory(batch, model.grid.with_save(16))
    report, inside = logit_lens(model, coarse), logit_lens(model, fine).prediction
    assert 0.2 < report.resolved.mean() < 1
    for k, b in zip(*np.nonzero(report.resolved)):
        assert (inside[5 * k : 5 * k + 6, b] == report.prediction[k, b]).all()
    flips = report.prediction[1:] != report.prediction[:-1]
    assert flips.any() and not (flips & report.resolved).any()


def test_lens_of_a_normalised_readout_claims_nothing():
    model = tiny(final_norm=True)
    report = logit_lens(model, model.trajectory(images(2)))
    assert not report.linear and np.isnan(report.radius).all()
    assert not report.resolved.any() and not report.decision_resolved.any()


# The field on a plane


def test_plane_of_a_linear_field():
    f, x0 = rotation(-0.1, 2.0), torch.tensor([1.0, 0.0]).double()
    trajectory = odevit.integrate(f, x0, TimeGrid(0, 2, steps=50), "rk4")
    report = plane_field(f, trajectory, principal_basis(trajectory.x, k=2), time=0.0, size=5)
    basis = principal_basis(trajectory.x, k=2)
    points = basis.lift(np.stack(np.meshgrid(report.u, report.v), -1))
    np.testing.assert_allclose(report.arrows, points @ f.matrix.numpy().T @ basis.components.T, atol=1e-12)
    np.testing.assert_allclose(report.off_plane, 0, atol=1e-7)
    assert report.u[0] < report.path[:, 0].min() and report.v[-1] > report.path[:, 1].max()


def test_plane_moves_one_token_and_holds_the_rest():
    model = tiny()
    trajectory = model.trajectory(images(2))
    basis = principal_basis(trajectory.cls, k=2)
    report = plane_field(model.field, trajectory, basis, time=1.0, image=1, token=0, size=3)
    path = trajectory.x[:, 1, 0].detach().numpy()
    corner = path.mean(0) + (np.array([report.u[2], report.v[0]]) - basis.apply(path.mean(0))[:2]) @ basis.components
    state = trajectory.at(1.0).detach().clone()
    state[1, 0] = torch.from_numpy(corner)
    velocity = model.field(1.0, state)[1, 0].detach().numpy()
    np.testing.assert_allclose(report.arrows[0, 2], basis.components @ velocity, atol=1e-12)
    normal = velocity - report.arrows[0, 2] @ basis.components
    assert report.off_plane[0, 2] == pytest.approx(np.linalg.norm(normal) / np.linalg.norm(velocity))


# Positions and bad input


def test_token_indices():
    layout = TokenLayout(registers=2, grid=(2, 3))
    assert token_indices("all", layout) == list(range(9)) and token_indices(-1, layout) == [8]
    assert token_indices(slice(7, None), layout) == token_indices("registers", layout) == [7, 8]
    assert patch_region(slice(1, 2), slice(0, 2), layout) == [4, 5]
    for bad, message in (("cats", "'cats' is unknown"), (9, "9 is outside 0 to 8"), ([], "names no token")):
        with pytest.raises(UserError, match=message):
            token_indices(bad, layout)
    with pytest.raises(UserError, match="names no token"):
        token_indices("registers", TokenLayout(registers=0, grid=(2, 3)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, t: token_paths(lorenz, sampled(t, x * math.nan)), NonFiniteError, "trajectory is NaN"),
        (lambda x, t: token_paths(lorenz, sampled(t, x[:, None, None])), UserError, r"not shape \(1, 1, 4, 3\)"),
        (lambda x, t: token_paths(lorenz, sampled(t[:1], x[:1])), UserError, "1 saved state"),
        (lambda x, t: token_paths(lorenz, sampled(t, x, TokenLayout())), UserError, "names 2 tokens, the states have 4"),
        (lambda x, t: token_paths(lorenz, sampled(t, x), delta=0.0), UserError, "delta: 0.0"),
        (lambda x, t: token_paths(lambda t, x: x[..., :2], sampled(t, x)), UserError, "field: it returns shape"),
        (lambda x, t: principal_basis(x, k=4), UserError, "k: 4 principal axes"),
        (lambda x, t: principal_basis(x, x[..., :2]), UserError, "different widths"),
        (lambda x, t: principal_basis(x[..., :2], k=1).apply(x), UserError, "width 2, the states have width 3"),
        (lambda x, t: procrustes_distance(x, x[:2]), UserError, "procrustes: shapes"),
        (lambda x, t: teacher_student(sampled(t, x), sampled(t, x), fit="magic"), UserError, "'magic' is unknown"),
        (lambda x, t: teacher_student(sampled(t, x), sampled(t, x[..., :2])), UserError, "needs equal widths"),
        (lambda x, t: teacher_student(sampled(t, x), sampled(t, x[:, :2])), UserError, "rows"),
        (lambda x, t: logit_lens(lorenz, sampled(t, x)), UserError, "logit lens"),
        (lambda x, t: plane_field(lorenz, sampled(t, x), principal_basis(x), time=0.3), UserError, "0.3 was not saved"),
        (lambda x, t: plane_field(lorenz, sampled(t, x), principal_basis(x), time=0.0, token=4), UserError, "token: 4 is out"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call(randn(3, 4, 3), [0.0, 0.5, 1.0])
    assert "\n" not in str(caught.value)


def test_weights_that_are_not_finite_are_named():
    model = tiny()
    trajectory = model.trajectory(images(1))
    with torch.no_grad():
        model.field.blocks[0].mlp.fc1.weight[0, 0] = math.nan
    with pytest.raises(NonFiniteError, match="fc1.weight"):
        token_paths(model, trajectory)


def test_one_token_of_one_image():
    report = token_paths(rotation(), replace(sampled([0.0, 1.0, 2.0], randn(3, 2)), method="euler"))
    assert np.isnan(report.mean_cosine).all() and (report.clusters == 1).all() and (report.collapse == 0).all()
    assert isinstance(principal_basis(randn(3, 2), k=1), Basis) and curvature(randn(2), randn(2)).ndim == 0
