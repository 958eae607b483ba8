"""The chain of inequalities between spectra, norms and the flow, and the numerical range (theory 1.3, 1.5)."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import random_case

from analysis.operators import flow_jacobian, jacobian
from analysis.references import dense_abscissa, dense_jacobian, dense_logarithmic_norm
from analysis.spectra import (
    block_influence,
    divergence,
    jacobian_spectrum,
    logarithmic_norm,
    non_normality,
    numerical_range,
    singular_values,
)  # fmt: skip
from odevit.flow import integrate
from odevit.trajectory import TimeGrid

cases = st.integers(0, 10_000).map(random_case)
few = settings(max_examples=12, deadline=None, derandomize=True)


@few
@given(cases)
def test_chain_of_inequalities(case):
    matrix = dense_jacobian(case.field, case.x)
    n, slack = len(matrix), 1 + 1e-9
    influence = block_influence(case.field, case.x)
    blocks = influence.influence
    norm = float(singular_values(case.field, case.x, k=1).singular_values[0])
    mu, lower = float(logarithmic_norm(case.field, case.x)), -float(logarithmic_norm(lambda t, x: -case.field(t, x), case.x))
    eigenvalues = jacobian_spectrum(case.field, case.x, k=n - case.tokens).eigenvalues
    assert blocks.max() <= norm * slack and norm <= influence.bound * slack
    assert influence.bound <= math.sqrt(np.linalg.norm(blocks, 1) * np.linalg.norm(blocks, np.inf)) * slack
    assert eigenvalues.real.max() <= mu + 1e-9 * norm and mu <= norm * slack
    assert lower - 1e-9 * norm <= eigenvalues.real.min()
    assert abs(float(divergence(case.field, case.x))) <= n * max(mu, -lower) * slack
    assert mu <= _block_logarithmic_norm(matrix, case.tokens) + 1e-9 * norm


def _block_logarithmic_norm(matrix: np.ndarray, tokens: int) -> float:
    dim = len(matrix) // tokens
    j = matrix.reshape(tokens, dim, tokens, dim).transpose(0, 2, 1, 3)
    m = 0.5 * np.linalg.norm(j + j.transpose(1, 0, 3, 2), 2, axis=(2, 3))
    np.fill_diagonal(m, [dense_logarithmic_norm(j[i, i]) for i in range(tokens)])
    return dense_logarithmic_norm(m)


@few
@given(cases)
def test_numerical_range_lies_between_its_polygons(case):
    matrix = dense_jacobian(case.field, case.x)
    found = numerical_range(case.field, case.x, angles=16)
    norm = np.linalg.norm(matrix, 2)
    assert norm / 2 <= found.radius_upper * (1 + 1e-9) and found.radius <= norm * (1 + 1e-9)
    assert found.support[0] == pytest.approx(dense_logarithmic_norm(matrix), abs=1e-9 * norm)
    turned = np.exp(-1j * found.angles)[:, None]
    assert ((turned * np.linalg.eigvals(matrix)).real.max(1) <= found.support + 1e-9 * norm).all()
    assert ((turned * found.points).real.max(1) <= found.support + 1e-9 * norm).all()
    assert ((turned * found.outer).real.max(1) >= found.support - 1e-9 * norm).all()


@few
@given(cases)
def test_flow_is_bounded_by_the_integral_of_mu(case):
    """sigma_1(Phi) <= exp int mu <= exp int |J|, sigma_n >= exp -int mu(-J), log det Phi = int tr J."""
    x0, grid = 0.5 * case.x, TimeGrid(0.0, 0.5 / (1 + case.scale) ** 2, 24)
    states = integrate(case.field, x0, grid, "rk4").x
    jacobians = [jacobian(case.field, x).dense().numpy() for x in states]

    def integral(values):
        weights = np.ones(25) * 2
        weights[1::2], weights[[0, -1]] = 4, 1  # Simpson
        return float(weights @ np.array(values) * grid.h / 3)

    phi = flow_jacobian(case.field, x0, grid, "rk4").dense().numpy()
    sigma = np.linalg.svd(phi, compute_uv=False)
    mu = integral([dense_logarithmic_norm(j) for j in jacobians])
    assert math.log(sigma[0]) <= mu + 1e-4 and mu <= integral([np.linalg.norm(j, 2) for j in jacobians]) + 1e-4
    assert math.log(sigma[-1]) >= -integral([dense_logarithmic_norm(-j) for j in jacobians]) - 1e-4
    assert np.linalg.slogdet(phi)[1] == pytest.approx(integral([np.trace(j) for j in jacobians]), abs=1e-4)
    moved = phi @ case.field(0.0, x0).flatten().numpy()
    assert np.allclose(moved, case.field(0.0, states[-1]).flatten().numpy(), atol=1e-4 * np.abs(moved).max())


@few
@given(cases)
def test_permuted_tokens_permute_the_jacobian(case):
    order = torch.randperm(case.tokens, generator=torch.Generator().manual_seed(case.seed))
    a, b = (block_influence(case.field, x).influence for x in (case.x, case.x[:, order]))
    assert np.allclose(a[np.ix_(order, order)], b, rtol=1e-9, atol=1e-12)


def test_iterated_range_agrees_with_the_dense_one():
    case = random_case(2, tokens=33, dim=16, scale=1.0)
    matrix = dense_jacobian(case.field, case.x)
    found = numerical_range(case.field, case.x, angles=4, tolerance=1e-7)
    for angle, h in zip(found.angles, found.support):
        turned = np.exp(-1j * angle) * matrix
        assert h == pytest.approx(np.linalg.eigvalsh((turned + turned.conj().T) / 2)[-1], rel=1e-6)
    assert ((np.exp(-1j * found.angles) * found.points).real == pytest.approx(found.support, rel=1e-6))
    gap = non_normality(case.field, case.x)
    assert gap.name == "mu - alpha" and float(gap) == pytest.approx(
        dense_logarithmic_norm(matrix) - dense_abscissa(matrix), rel=1e-4
    )
