"""Spectra against closed forms, LAPACK and inequalities; what a search does when it cannot converge."""

import math

import numpy as np
import pytest
import torch
from problems import (
    TRANSIENT_MU,
    frozen_attention,
    identity,
    jordan,
    linear,
    lorenz,
    nan_field,
    random_case,
    rotation,
    spread,
    stochastic,
    transient,
    uniform_attention,
    zero,
)  # fmt: skip

from analysis.operators import as_float64, flow_jacobian, jacobian
from analysis.references import dense_abscissa, dense_jacobian, dense_logarithmic_norm
from analysis.spectra import (
    jacobian_spectrum,
    leading_eigenvalues,
    logarithmic_norm,
    non_normality,
    numerical_range,
    singular_triplets,
    singular_values,
    spectral_abscissa,
    structural_zeros,
)  # fmt: skip
from odevit.config import ODEViTConfig
from odevit.errors import NonFiniteError, UserError
from odevit.field import VectorField
from odevit.flow import integrate
from odevit.trajectory import TimeGrid

ORIGIN = torch.zeros(2, dtype=torch.float64)


def wide(n: int = 600) -> torch.Tensor:
    """A state just above the dense limit, so that the iterations are used."""
    return torch.zeros(n, dtype=torch.float64)


def test_jordan_block():
    assert np.abs(jacobian_spectrum(jordan(), ORIGIN, k=2).eigenvalues).max() < 1e-7
    assert singular_values(jordan(), ORIGIN, k=1).singular_values[0] == pytest.approx(1.0)
    assert float(logarithmic_norm(jordan(), ORIGIN)) == pytest.approx(0.5)
    assert float(non_normality(jordan(), ORIGIN)) == pytest.approx(1.0)
    disk = numerical_range(jordan(), ORIGIN, angles=64)
    assert np.allclose(disk.support, 0.5) and np.allclose(np.abs(disk.points), 0.5)
    assert disk.radius == pytest.approx(0.5) and 0.5 <= disk.radius_upper <= 0.5 / math.cos(math.pi / 64) + 1e-9


def test_rotation_is_normal():
    field = rotation(-0.1, 2.0)
    assert np.allclose(jacobian_spectrum(field, ORIGIN, k=1).eigenvalues, [-0.1 + 2j, -0.1 - 2j]), "the pair stays whole"
    assert float(logarithmic_norm(field, ORIGIN)) == pytest.approx(-0.1)
    assert float(non_normality(field, ORIGIN)) == pytest.approx(0.0, abs=1e-7)
    flow = flow_jacobian(field, ORIGIN + 1, TimeGrid(0.0, 2.0, 200), "rk4")
    assert torch.allclose(singular_triplets(flow, 2)[1], torch.full((2,), math.exp(-0.2), dtype=torch.float64), rtol=1e-8)


def test_transient_growth_is_seen_by_mu_and_not_by_alpha():
    assert float(spectral_abscissa(transient(), ORIGIN)) == pytest.approx(-1.0)
    assert float(logarithmic_norm(transient(), ORIGIN)) == pytest.approx(TRANSIENT_MU)


def test_uniform_attention_has_the_spectrum_of_v_once():
    v = torch.randn(4, 4, dtype=torch.float64)
    x = torch.randn(5, 4, dtype=torch.float64)
    found = jacobian_spectrum(uniform_attention(v), x, k=20).eigenvalues
    expected = np.linalg.eigvals(v.numpy())
    assert np.allclose(sorted(found[:4], key=lambda z: (z.real, z.imag)), sorted(expected, key=lambda z: (z.real, z.imag)))
    assert np.abs(found[4:]).max() < 1e-6
    end = integrate(uniform_attention(v), x, TimeGrid(0.0, 1.0, 200), "rk4").x[-1]
    assert torch.allclose(end, x + x.mean(0) @ (torch.linalg.matrix_exp(v) - torch.eye(4, dtype=torch.float64)).T, atol=1e-6)


def test_frozen_attention_multiplies_the_spectra():
    p, v = stochastic(5), torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x = torch.zeros(5, 4, dtype=torch.float64)
    expected = np.linalg.svd(p.numpy())[1][:, None] * np.linalg.svd(v.numpy())[1]
    assert np.allclose(singular_values(frozen_attention(p, v), x, k=20).singular_values, np.sort(expected.ravel())[::-1])
    products = (np.linalg.eigvals(p.numpy())[:, None] * np.linalg.eigvals(v.numpy())).ravel()
    found = jacobian_spectrum(frozen_attention(p, v), x, k=20).eigenvalues
    assert all(np.abs(found - z).min() < 1e-9 for z in products)
    assert np.abs(np.linalg.eigvals(p.numpy()) - 1).min() < 1e-12


def test_equal_tokens_leave_uniform_attention():
    """Equal tokens: J_att = (11^T / N) (x) V for any W_q, W_k."""
    case = random_case(11, bias=False)
    x = case.x[:, :1].expand_as(case.x).contiguous()
    found = jacobian(lambda t, y: case.field.attention_part(y, t), x).dense()
    block = found.reshape(case.tokens, case.dim, case.tokens, case.dim)[0, :, 0]
    assert torch.allclose(found, torch.kron(torch.ones(case.tokens, case.tokens, dtype=torch.float64), block), atol=1e-11)


# the iterations against known and dense spectra (theory item 19)


@pytest.mark.parametrize("which", ["LM", "LR"])
def test_known_spectrum_is_found_by_iteration(which):
    """T18: rotations and decay with known eigenvalues; restarts from other seeds agree."""
    field, values = spread(602)
    key = np.abs if which == "LM" else np.real
    expected = np.sort(key(values))[::-1][:6]
    for seed in (0, 1):
        found = jacobian_spectrum(field, wide(602), k=6, which=which, seed=seed, tolerance=1e-8, budget=4000)
        assert not found.dense and found.converged == 6 and not found.remark
        assert np.allclose(key(found.eigenvalues), expected, rtol=1e-6)
        assert np.abs(found.eigenvalues[::2] - found.eigenvalues[1::2].conj()).max() < 1e-6
        assert found.residuals.max() <= 2e-8


def test_iterations_agree_with_lapack_on_a_field_of_ours():
    case = random_case(2, tokens=33, dim=16, scale=1.0, num_heads=2)  # 528 dimensions
    matrix = dense_jacobian(case.field, case.x)
    true = np.linalg.svd(matrix, compute_uv=False)
    found = singular_values(case.field, case.x, k=16)
    assert not found.dense and found.converged == 16
    assert np.allclose(found.singular_values, true[:16], rtol=1e-6)
    assert (found.singular_values <= true[:16] * (1 + 1e-12)).all(), "lower bounds"
    mu = logarithmic_norm(case.field, case.x)
    assert mu.side == "lower" and float(mu) <= dense_logarithmic_norm(matrix) * (1 + 1e-12)
    assert float(mu) == pytest.approx(dense_logarithmic_norm(matrix), rel=1e-6)
    values = np.linalg.eigvals(matrix)
    spectrum = jacobian_spectrum(case.field, case.x, k=8)
    assert spectrum.structural_zeros == 33
    assert np.allclose(np.abs(spectrum.eigenvalues[:8]), np.sort(np.abs(values))[::-1][:8], rtol=1e-5)
    assert float(spectral_abscissa(case.field, case.x)) == pytest.approx(dense_abscissa(matrix), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [None, 1.0])
def test_products_stay_within_the_budget_at_the_size_of_the_tiny_model(scale):
    """N D = 8,832, residual 1e-4 relative: 16 eigenvalues, 16 singular values and mu in at most 400 products."""
    case = random_case(0, tokens=69, dim=128, num_heads=4, bias=False, scale=0.5)
    field = case.field if scale else as_float64(VectorField(ODEViTConfig()))
    options = {"tolerance": 1e-4}
    found = [jacobian_spectrum(field, case.x, k=16, **options), singular_values(field, case.x, k=16, **options)]
    mu = logarithmic_norm(field, case.x, **options)
    assert all(r.converged == 16 and not r.dense for r in found) and not mu.remark
    assert sum(r.products for r in found) + mu.products <= 400
    rightmost = jacobian_spectrum(field, case.x, k=16, which="LR", **options)
    assert rightmost.converged == 16 and rightmost.products <= 1000


def test_samples_run_in_step_and_equal_single_runs():
    case = random_case(2, tokens=33, dim=16, scale=1.0)
    x = torch.cat([case.x, 0.2 * case.x])
    for function, name, k in ((singular_values, "singular_values", 3), (jacobian_spectrum, "eigenvalues", 4)):
        both = getattr(function(case.field, x, k=k, batch_dims=1), name)
        for b in range(2):
            single = getattr(function(case.field, x[b : b + 1], k=k), name)
            assert np.allclose(both[b, : len(single)], single, rtol=1e-6) and np.isnan(both[b, len(single) :]).all()
    mu = logarithmic_norm(case.field, x, batch_dims=1).value
    assert mu == pytest.approx([float(logarithmic_norm(case.field, x[b : b + 1])) for b in range(2)], rel=1e-6)


def test_repeats_are_identical():
    field, _ = spread(600)
    first, second = (jacobian_spectrum(field, wide(), k=5) for _ in range(2))
    assert np.array_equal(first.eigenvalues, second.eigenvalues) and np.array_equal(first.residuals, second.residuals)


# hard operators (T10, T12)


@pytest.mark.parametrize(("field", "value"), [(zero, 0.0), (identity, 1.0)])
def test_zero_and_identity(field, value):
    for x in (ORIGIN, wide()):
        found = jacobian_spectrum(field, x, k=2)
        assert np.allclose(found.eigenvalues, value) and found.converged == 2 and found.residuals.max() < 1e-12
        assert np.allclose(singular_values(field, x, k=2).singular_values, value)
        assert float(logarithmic_norm(field, x)) == pytest.approx(value)


def test_defective_operator_above_the_dense_limit():
    """A Jordan block beside decay: eigenvalue 0 twice, |J| = 1, mu = 1/2."""
    matrix = torch.diag(torch.linspace(-0.4, -0.1, 600, dtype=torch.float64))
    matrix[:2, :2] = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    assert singular_values(linear(matrix), wide(), k=1).singular_values[0] == pytest.approx(1.0)
    assert float(logarithmic_norm(linear(matrix), wide())) == pytest.approx(0.5, rel=1e-6)
    found = jacobian_spectrum(linear(matrix), wide(), k=2, which="LR", tolerance=1e-5)
    assert np.abs(found.eigenvalues).max() < 5e-3 and found.residuals.max() <= 2e-5


def test_copies_of_an_eigenvalue_are_counted():
    """Three different values, each 200 times: the space breaks down and fresh directions bring the copies."""
    matrix = torch.diag(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64).repeat(200))
    assert np.allclose(jacobian_spectrum(linear(matrix), wide(), k=4).eigenvalues, 3.0)
    assert np.allclose(singular_values(linear(matrix), wide(), k=4).singular_values, 3.0)


def test_low_rank_has_zeros_behind_its_rank():
    a = torch.randn(600, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = singular_values(linear(a @ a.T), wide(), k=5)
    assert np.allclose(found.singular_values[:3], np.linalg.eigvalsh((a.T @ a).numpy())[::-1])
    assert found.singular_values[3:].max() < 1e-9 * found.singular_values[0] and found.converged == 5


def test_budget_ends_a_search_with_its_residuals():
    field, _ = spread(600)
    found = jacobian_spectrum(field, wide(), k=16, budget=5)
    assert found.remark == "0 of 16 converged within 5 products" and found.converged == 0
    known = np.isfinite(found.residuals)
    assert known.any() and (found.residuals[known] > 0.1).all() and np.isfinite(found.eigenvalues[known]).all()
    assert singular_values(field, wide(), k=16, budget=10).remark == "0 of 16 converged within 10 products"
    assert "0 of 1 converged" in logarithmic_norm(field, wide(), budget=10).remark


def test_k_outside_the_dimension_is_refused_and_the_whole_dimension_is_dense():
    x = torch.zeros(4, dtype=torch.float64)
    for k in (0, -1, 6, 2.5):
        for function in (jacobian_spectrum, singular_values):
            with pytest.raises(UserError, match=f"k: {k} values asked of an operator with 4 dimensions"):
                function(identity, x, k=k)
    for k in (3, 4):
        assert len(jacobian_spectrum(identity, x, k=k).eigenvalues) == k
        assert jacobian_spectrum(identity, x, k=k).dense
    field, _ = spread(600)
    assert jacobian_spectrum(field, wide(), k=599).dense
    with pytest.raises(UserError, match="dense Jacobian: 2100 x 2100"):
        singular_values(zero, wide(2100), k=2099)
    with pytest.raises(UserError, match="which: unknown 'SM'"):
        jacobian_spectrum(identity, x, k=1, which="SM")


def test_nan_stops_before_lapack():
    for x in (ORIGIN, wide()):
        with pytest.raises(NonFiniteError, match="NaN"):
            jacobian_spectrum(nan_field, x, k=1)
        with pytest.raises(NonFiniteError, match="NaN|infinite"):
            singular_values(lambda t, y: y.abs().sqrt(), x, k=1)


# structural zeros


def test_structural_zeros_are_left_out_of_eigenvalues():
    case = random_case(8, tokens=5, dim=6)
    full = np.linalg.eigvals(dense_jacobian(case.field, case.x))
    found = jacobian_spectrum(case.field, case.x, k=25)
    assert found.structural_zeros == 5 and len(found.eigenvalues) == 25
    assert np.sum(np.abs(full) < 1e-9 * np.abs(full).max()) == 5 and np.abs(found.eigenvalues).min() > 1e-6
    assert found.eigenvalues.sum().real == pytest.approx(np.trace(dense_jacobian(case.field, case.x)), rel=1e-9)
    with pytest.raises(UserError, match="25 dimensions"):
        jacobian_spectrum(case.field, case.x, k=26)
    values, residuals, dense = leading_eigenvalues(jacobian(case.field, case.x), 30, "LM")
    assert np.allclose(np.sort(np.abs(values[0])), np.sort(np.abs(full)), atol=1e-7)


def test_structural_zeros_are_recognised_only_where_they_are():
    for norm, expected in (("center", True), ("layer", False), ("none", False)):
        case = random_case(1, norm=norm)
        assert structural_zeros(case.field, jacobian(case.field, case.x)) == (case.tokens if expected else 0)
    assert structural_zeros(lorenz, jacobian(lorenz, torch.ones(3, dtype=torch.float64))) == 0


def test_decay_is_not_hidden_by_structural_zeros():
    """With decay everywhere the largest real part must be negative, although J has N eigenvalues 0."""
    case = random_case(4, scale=0.4, bias=False)
    with torch.no_grad():
        for block in case.field.blocks:
            block.mlp.fc2.weight.copy_(-block.mlp.fc1.weight.T)
            block.attn.proj.weight.zero_()
            block.norm2.gamma.fill_(1.0)
    assert float(spectral_abscissa(case.field, 0.1 * case.x)) < -1e-6
    assert dense_abscissa(dense_jacobian(case.field, 0.1 * case.x)) == pytest.approx(0.0, abs=1e-12)
