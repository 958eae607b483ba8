"""Lyapunov exponents against closed forms, exact relations and Lorenz-63; negative exponents first."""

import math

import numpy as np
import problems
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.cost import Products
from analysis.lyapunov import auc_interval, exponents_over, finite_time_exponents, kaplan_yorke, lyapunov_spectrum, net_and_ode
from analysis.operators import as_float64, flow_jacobian, jacobian, tangent_flow
from analysis.reports import LyapunovReport, Report
from odevit import ODEViT, ODEViTConfig, SolverConfig, TimeGrid, UserError, ViT, ViTConfig, integrate
from odevit.errors import NonFiniteError

seeds = given(st.integers(0, 10_000))
few = settings(max_examples=6, deadline=None, derandomize=True)
GRID = TimeGrid(0.0, 2.0, 8)


def doubles(*values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def case(seed: int):
    """A small random field and its state, tame enough for eight Euler steps over T = 2."""
    made = problems.random_case(seed, tokens=3, dim=4, scale=0.7)
    return made.field, made.x


def step_divergence(f, x0, grid) -> float:
    """(1/T) sum of log|det(I + hJ)| over Euler's steps, from dense matrices."""
    total, states = 0.0, integrate(f, x0, grid, "euler").x
    for t, x in zip(grid.times, states[:-1]):
        j = jacobian(f, x, t).dense()
        total += float(torch.linalg.slogdet(torch.eye(len(j), dtype=j.dtype) + grid.h * j)[1])
    return total / abs(grid.t1 - grid.t0)


@pytest.mark.parametrize("exponents", [finite_time_exponents, lyapunov_spectrum])
def test_contraction_has_negative_exponents(exponents):
    f = problems.linear(np.diag([-0.5, -2.0]))
    found = exponents(f, doubles(1.0, 1.0), TimeGrid(0.0, 1.5, 100), "rk4", 2)
    np.testing.assert_allclose(found.exponents, [-0.5, -2.0], atol=1e-8)
    assert found.kaplan_yorke == 0.0 and found.kaplan_yorke_exact


@pytest.mark.parametrize("exponents", [finite_time_exponents, lyapunov_spectrum])
def test_rotation_with_contraction_is_isotropic(exponents):
    found = exponents(problems.rotation(-0.1, 2.0), doubles(1.0, 0.3), TimeGrid(0.0, 2.0, 100), "rk4", 2)
    np.testing.assert_allclose(found.exponents, [-0.1, -0.1], atol=1e-8)
    assert abs(found.along_flow + 0.1) < 1e-8


@pytest.mark.parametrize(("h", "expected"), [(0.05, 0.000250), (0.1, 0.0995)])
def test_euler_shows_its_own_exponent_where_the_ode_contracts(h, expected):
    found = finite_time_exponents(problems.rotation(-0.1, 2.0), doubles(1.0, 0.0), TimeGrid(0.0, 20 * h, 20), "euler", 1)
    assert abs(found.exponents[0] - expected) < 5e-5
    assert abs(found.exponents[0] - math.log(abs(1 + h * (-0.1 + 2j))) / h) < 1e-10
    assert "euler" in found.system
    both = net_and_ode(problems.rotation(-0.1, 2.0), doubles(1.0, 0.0), TimeGrid(0.0, 20 * h, 20), "euler", 1)
    assert both["net"].exponents[0] == found.exponents[0] and abs(both["ode"].exponents[0] + 0.1) < 1e-6


def test_upper_triangular_field_shows_its_diagonal():
    f, grid = problems.triangular(), TimeGrid(0.0, 20.0, 400)
    found = lyapunov_spectrum(f, doubles(1.0, 1.0, 1.0), grid, "rk4", 3, qr_every=10)
    np.testing.assert_allclose(found.exponents, [0.5, -0.2, -1.0], atol=1e-5)
    assert abs(found.kaplan_yorke - 2.3) < 1e-5
    turned = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))[0]
    twice = lyapunov_spectrum(f, doubles(1.0, 1.0, 1.0), TimeGrid(0.0, 80.0, 800), "rk4", 3, q0=turned, qr_every=10)
    once = twice.history[len(twice.time) // 2 - 1]
    assert abs(twice.time[len(twice.time) // 2 - 1] - 40.0) < 1e-9
    np.testing.assert_allclose(twice.history[-1] * 80 - once * 40, 40 * np.array([0.5, -0.2, -1.0]), atol=1e-4)  # offset ~ 1/T


@seeds
@few
def test_sums_agree_with_the_divergence_and_partial_sums_are_majorised(seed):
    f, x0 = case(seed)
    svd, qr = finite_time_exponents(f, x0, GRID, "euler", 12), lyapunov_spectrum(f, x0, GRID, "euler", 12)
    divergence = step_divergence(f, x0, GRID)
    assert abs(svd.exponents.sum() - divergence) < 1e-9
    assert abs(qr.exponents.sum() - divergence) < 1e-11
    assert (np.cumsum(qr.exponents) <= np.cumsum(svd.exponents) + 1e-10).all()
    best = flow_jacobian(f, x0, GRID, "euler")
    right = torch.linalg.svd(best.dense())[2][0].reshape(1, *x0.shape)
    assert abs(lyapunov_spectrum(f, x0, GRID, "euler", 1, q0=right).exponents[0] - svd.exponents[0]) < 1e-11


@seeds
@few
def test_finite_time_exponents_lie_between_integrals_of_the_logarithmic_norm(seed):
    f, x0 = case(seed)
    fine = TimeGrid(0.0, 2.0, 40)
    path = integrate(f, x0, fine, "rk4")
    dense = torch.stack([jacobian(f, x, float(t)).dense() for t, x in zip(path.t, path.x)])
    ends = torch.linalg.eigvalsh((dense + dense.mT) / 2)
    upper, lower = (float(torch.trapezoid(e, path.t)) / 2.0 for e in (ends[:, -1], ends[:, 0]))
    found = finite_time_exponents(f, x0, fine, "rk4", 12)
    assert lower - 1e-3 <= found.exponents[-1] and found.exponents[0] <= upper + 1e-3
    trace = float(torch.trapezoid(dense.diagonal(dim1=1, dim2=2).sum(-1), path.t)) / 2.0
    assert abs(found.exponents.sum() - trace) < 5e-3 * max(1.0, abs(trace))  # Liouville


@seeds
@few
def test_factorising_less_often_and_more_tangents_change_nothing(seed):
    f, x0 = case(seed)
    every, rarely = (lyapunov_spectrum(f, x0, GRID, "midpoint", 4, qr_every=m).exponents for m in (1, 3))
    np.testing.assert_allclose(every, rarely, atol=1e-12)
    np.testing.assert_allclose(lyapunov_spectrum(f, x0, GRID, "midpoint", 9).exponents[:4], every, atol=1e-12)


@seeds
@few
def test_velocity_is_carried_by_the_flow(seed):
    f, x0 = case(seed)
    grid = TimeGrid(0.0, 2.0, 20)
    start = f(0.0, x0)
    end, carried = tangent_flow(f, x0, start[None], grid, "rk4")
    assert float((carried[0] - f(2.0, end)).norm() / carried.norm()) < 1e-3  # Phi f(x0) = f(x(T))
    rate = finite_time_exponents(f, x0, grid, "rk4", 1).along_flow
    assert abs(rate - math.log(float(carried.norm() / start.norm())) / 2.0) < 1e-3


@seeds
@few
def test_structural_zeros_are_zero_and_project_out(seed):
    f, x0 = case(seed)
    tokens, dim = x0.shape[-2:]
    along_ones = torch.eye(tokens, dtype=torch.float64)[:, None, :, None].expand(tokens, 1, tokens, dim)
    units = torch.eye(tokens * dim, dtype=torch.float64).reshape(-1, 1, tokens, dim)
    rest = units[[i for i in range(tokens * dim) if (i + 1) % dim]]
    whole = lyapunov_spectrum(f, x0, GRID, "euler", tokens * dim, q0=torch.cat([along_ones, rest]))
    projected = lyapunov_spectrum(f, x0, GRID, "euler", tokens * (dim - 1), project=True)
    np.testing.assert_allclose(whole.exponents[:tokens], 0.0, atol=1e-13)
    np.testing.assert_allclose(whole.exponents[tokens:], projected.exponents, atol=1e-10)
    assert projected.zeros_removed == tokens and projected.dimensions == tokens * (dim - 1)
    with pytest.raises(UserError, match="no zeros along"):
        lyapunov_spectrum(problems.lorenz, doubles(1.0, 1.0, 1.0), TimeGrid(0.0, 0.1, 10), "rk4", 1, project=True)


def test_iteration_agrees_with_lapack_and_says_when_it_has_not_converged():
    made = problems.random_case(3, tokens=40, dim=16, scale=1.0)
    grid = TimeGrid(0.0, 2.0, 4)
    dense = torch.linalg.svdvals(flow_jacobian(made.field, made.x, grid, "euler").dense()).log().numpy() / 2.0
    found = finite_time_exponents(made.field, made.x, grid, "euler", 4)
    assert found.products < 400 and found.residuals.max() <= 2e-6
    np.testing.assert_allclose(found.exponents, dense[:4], atol=1e-9)
    starved = finite_time_exponents(made.field, made.x, grid, "euler", 4, budget=12)
    assert not starved.converged.all() and "of 4 converged within 12 products" in starved.notes[-1]
    assert (starved.exponents <= dense[:4] + 1e-12).all()


def test_samples_do_not_see_each_other():
    made = problems.random_case(5, tokens=3, dim=4, scale=0.7)
    x0 = torch.randn(3, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for exponents in (finite_time_exponents, lyapunov_spectrum):
        together = exponents(made.field, x0, GRID, "euler", 3, batch_dims=1)
        alone = [exponents(made.field, x0[i : i + 1], GRID, "euler", 3) for i in range(3)]
        np.testing.assert_allclose(together.exponents, [a.exponents for a in alone], atol=1e-12)
        np.testing.assert_allclose(together.along_flow, [a.along_flow for a in alone], atol=1e-12)
        np.testing.assert_allclose(together.kaplan_yorke, [a.kaplan_yorke for a in alone], atol=1e-10)


def test_continuing_an_autonomous_flow_is_one_longer_solve_and_others_are_refused():
    f, x0 = case(1)
    longer = lyapunov_spectrum(f, x0, GRID, "euler", 2, horizon=6.0)
    np.testing.assert_array_equal(longer.exponents, lyapunov_spectrum(f, x0, TimeGrid(0.0, 6.0, 24), "euler", 2).exponents)
    np.testing.assert_allclose(longer.history[7], lyapunov_spectrum(f, x0, GRID, "euler", 2).exponents, atol=1e-13)
    assert longer.horizon == 6.0 and longer.time[7] == 2.0
    pieces = problems.random_case(1, tokens=3, dim=4, scale=0.7, blocks=2, horizon=2.0)
    waves = problems.random_case(1, tokens=3, dim=4, scale=0.7, time_frequencies=1, horizon=2.0)
    for field in (pieces.field, waves.field, lambda t, x: x * torch.cos(torch.as_tensor(t))):
        with pytest.raises(UserError, match="this field depends on t"):
            finite_time_exponents(field, x0, GRID, "euler", 1, horizon=6.0)
        skipped = lyapunov_spectrum(field, x0, GRID, "euler", 1)
        assert math.isnan(skipped.along_flow) and "depends on t" in skipped.notes[0]
    with pytest.raises(UserError, match="horizon: 0.3 is not"):
        lyapunov_spectrum(f, x0, GRID, "euler", 1, horizon=0.3)


def test_piecewise_fields_use_the_block_of_each_step():
    made = problems.random_case(2, tokens=3, dim=4, scale=0.7, blocks=2, horizon=2.0)
    found = lyapunov_spectrum(made.field, made.x, GRID, "midpoint", 12)
    x = integrate(made.field, made.x, GRID, "midpoint").x[4]
    halves = [
        lyapunov_spectrum(made.field.piece(t), state, TimeGrid(t, t + 1.0, 4), "midpoint", 12).exponents.sum()
        for t, state in ((0.0, made.x), (1.0, x))
    ]
    assert abs(found.exponents.sum() - sum(halves) / 2) < 1e-11


def test_every_part_of_the_tangent_is_rescaled():
    """The published code rescaled the CLS row only: 194 instead of 0.9 at T = 100."""
    x0 = torch.ones(1, 3, 2, dtype=torch.float64)
    for exponents in (finite_time_exponents, lyapunov_spectrum):
        found = exponents(lambda t, x: 0.9 * x, x0, TimeGrid(0.0, 100.0, 200), "rk4", 2)
        np.testing.assert_allclose(found.exponents, 0.9, atol=1e-3)


def test_lost_tangents_are_told():
    found = lyapunov_spectrum(problems.linear(np.diag([1.0, -1.0])), doubles(1.0, 1.0), TimeGrid(0.0, 40.0, 100), "rk4", 2,
                              q0=doubles([1.0, 1.0], [1.0, -1.0]), qr_every=100)  # fmt: skip
    assert "lower qr_every" in found.notes[-1] and not found.converged.any()


def test_a_step_may_collapse_a_direction():
    found = finite_time_exponents(problems.linear(np.diag([0.5, -1.0])), doubles(1.0, 1.0), TimeGrid(0.0, 2.0, 2), "euler", 2)
    assert found.exponents[1] == -np.inf and abs(found.exponents[0] - math.log(1.5)) < 1e-12


def test_kaplan_yorke_edges():
    assert kaplan_yorke([-0.1, -2.0]) == (0.0, True)
    assert kaplan_yorke([0.5, 0.1]) == (2.0, True)
    assert kaplan_yorke([0.5, 0.1], n=5) == (2.0, False)
    assert kaplan_yorke([0.5, -0.5]) == (2.0, True)
    assert kaplan_yorke([0.5, -0.5], n=3) == (2.0, False)
    assert kaplan_yorke([-14.572, 0.906, 0.0]).value == pytest.approx(2 + 0.906 / 14.572)
    assert kaplan_yorke([0.3, -np.inf]) == (1.0, True)
    assert kaplan_yorke([0.0, -1.0]) == (1.0, True)
    assert kaplan_yorke([-0.1], n=9) == (0.0, True)
    with pytest.raises(NonFiniteError, match="NaN"):
        kaplan_yorke([0.1, np.nan])
    with pytest.raises(UserError, match="2 given for a state of 1"):
        kaplan_yorke([0.1, 0.0], n=1)


def test_auc_counts_pairs_and_its_variance_is_delongs():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.8, 1.0, 40).round(1), rng.normal(0.0, 1.0, 60).round(1)
    pairs = (a[:, None] > b) + 0.5 * (a[:, None] == b)
    found = auc_interval(a, b)
    assert found.value == pytest.approx(pairs.mean(), abs=1e-14)
    variance = pairs.mean(1).var(ddof=1) / 40 + pairs.mean(0).var(ddof=1) / 60
    assert found.high - found.value == pytest.approx(1.959964 * math.sqrt(variance), rel=1e-6)
    means = [auc_interval(*(rng.choice(s, s.size) for s in (a, b))).value for _ in range(400)]  # a bootstrap agrees roughly
    assert found.high - found.low == pytest.approx(np.quantile(means, 0.975) - np.quantile(means, 0.025), rel=0.15)
    assert math.isnan(auc_interval([], [1.0]).value) and "zero" in auc_interval([3.0, 4.0], [1.0, 2.0]).remark


def small_model() -> ODEViT:
    torch.manual_seed(0)
    config = ODEViTConfig(img_size=8, embed_dim=8, num_heads=2, num_classes=3, registers=1)
    model = ODEViT(config, SolverConfig(horizon=2.0, steps=4))
    problems.randomise(model.field, 1.0, torch.Generator().manual_seed(0))
    return model.eval()


@pytest.mark.parametrize("discrete", [False, True])
def test_exponents_over_images_are_those_of_each_image(discrete):
    model = ViT(ViTConfig(img_size=8, embed_dim=8, num_heads=2, num_classes=3, depth=3)).eval() if discrete else small_model()
    images = torch.randn(7, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    double = as_float64(model)
    answers = double(images.double()).argmax(-1)
    labels = answers.clone()
    labels[:3] = (labels[:3] + 1) % 3
    found = exponents_over(model, images, labels, 2, batch_size=3)
    for i in (0, 6):
        x0 = double.initial_state(images[i : i + 1].double())
        single = finite_time_exponents(double.field, x0, model.grid, "euler", 2)
        np.testing.assert_allclose(found.exponents[i], single.exponents, atol=1e-8)
    assert found.correct.tolist() == [False] * 3 + [True] * 4 and (found.predicted == answers.numpy()).all()
    wrong, right = found.exponents[:3, 0], found.exponents[3:, 0]
    assert found.auc == pytest.approx((wrong[:, None] > right).mean())
    assert found.auc_low <= found.auc <= found.auc_high
    for c, mean, count in zip(found.classes, found.class_mean, found.class_count):
        members = found.exponents[labels.numpy() == c, 0]
        assert mean == pytest.approx(members.mean()) and count == len(members)
    blind = exponents_over(model, images[:2])
    assert math.isnan(blind.auc) and (blind.labels == -1).all()
    np.testing.assert_allclose(blind.exponents[:, 0], found.exponents[:2, 0], atol=1e-8)
    with pytest.raises(UserError, match="labels: shape"):
        exponents_over(model, images, labels[:2])


def test_sixteen_tangents_cost_at_most_one_and_a_half_solves_each():
    made = problems.random_case(0, tokens=33, dim=32, scale=0.7)
    grid = TimeGrid(0.0, 1.0, 2)
    with Products() as solve:
        integrate(made.field, made.x, grid, "euler")
    with Products() as tangents:
        lyapunov_spectrum(made.field, made.x, grid, "euler", 16)
    assert 16 * solve.total < tangents.total < 1.5 * 17 * solve.total


def test_bad_input_is_named():
    f, x0 = case(0)
    for k in (0, 13, True):
        for exponents in (finite_time_exponents, lyapunov_spectrum):
            with pytest.raises(UserError, match=f"k: {k} values asked .* 12 dimensions"):
                exponents(f, x0, GRID, "euler", k)
    with pytest.raises(UserError, match="qr_every: 0"):
        lyapunov_spectrum(f, x0, GRID, "euler", 1, qr_every=0)
    with pytest.raises(UserError, match="q0: shape"):
        lyapunov_spectrum(f, x0, GRID, "euler", 2, q0=torch.ones(1, 1, 3, 4, dtype=torch.float64))
    with pytest.raises(UserError, match="q0: .* independent"):
        lyapunov_spectrum(f, x0, GRID, "euler", 2, q0=torch.ones(2, 1, 3, 4, dtype=torch.float64))
    for exponents in (finite_time_exponents, lyapunov_spectrum):
        with pytest.raises(NonFiniteError, match="NaN"):
            exponents(problems.nan_field, doubles(1.0, 2.0), GRID, "rk4", 1)


def test_zero_field_is_neutral():
    for exponents in (finite_time_exponents, lyapunov_spectrum):
        found = exponents(problems.zero, doubles(1.0, 2.0, 3.0), GRID, "euler", 3)
        np.testing.assert_allclose(found.exponents, 0.0, atol=1e-14)
        assert math.isnan(found.along_flow) and "vanishes" in found.notes[0]


def test_report_survives_its_files(tmp_path):
    f, x0 = case(0)
    found = lyapunov_spectrum(f, x0, GRID, "euler", 3)
    loaded = Report.load(found.save(tmp_path / "qr"))
    assert isinstance(loaded, LyapunovReport) and loaded.notes == found.notes and loaded.along_flow == found.along_flow
    np.testing.assert_array_equal(loaded.history, found.history)
    assert "exponents [1/t]" in found.to_csv(tmp_path / "qr").read_text().splitlines()[0]


@pytest.mark.slow
def test_lorenz():
    x0 = doubles(1.0, 1.0, 25.0) + torch.randn(16, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    settled = integrate(problems.lorenz, x0, TimeGrid(0.0, 20.0, 2000, save=1), "rk4").x[-1]
    found = lyapunov_spectrum(problems.lorenz, settled, TimeGrid(0.0, 100.0, 10_000), "rk4", 3, qr_every=10, batch_dims=1)
    mean = found.exponents.mean(0)
    np.testing.assert_allclose(mean, [0.906, 0.0, -14.572], atol=0.03)
    np.testing.assert_allclose(found.exponents.sum(1), -(10 + 1 + 8 / 3), atol=1e-3)
    assert abs(kaplan_yorke(mean).value - 2.06) < 0.01
