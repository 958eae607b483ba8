"""Influence between tokens and divergence against forward mode and closed forms; spectra of the weights."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import frozen_attention, lorenz, random_case, stochastic

from analysis.references import dense_influence, dense_jacobian
from analysis.spectra import (
    block_influence,
    divergence,
    weight_spectra,
)  # fmt: skip
from odevit.errors import UserError

cases = st.integers(0, 10_000).map(random_case)
few = settings(max_examples=12, deadline=None, derandomize=True)


@few
@given(cases)
def test_closed_form_equals_forward_mode(case):
    """Theory 1.1, with and without biases, one or two heads."""
    found = block_influence(case.field, case.x)
    twin = dense_influence(dense_jacobian(case.field, case.x), case.tokens)
    assert found.method == "closed form" and found.products == 0
    assert np.abs(found.influence - twin).max() <= 1e-12 * twin.max()
    frobenius = block_influence(case.field, case.x, norm="frobenius").influence
    assert frobenius.max() ** 2 <= (frobenius**2).sum() and np.isclose(
        math.sqrt((frobenius**2).sum()), np.linalg.norm(dense_jacobian(case.field, case.x)), rtol=1e-12
    )


def test_closed_form_with_time_shift_pieces_and_samples():
    case = random_case(3, blocks=2, horizon=2.0, time_frequencies=1)
    x = torch.cat([case.x, 0.3 * case.x])
    found = block_influence(case.field, x, 1.3, batch_dims=1)
    for b in range(2):
        twin = dense_influence(dense_jacobian(case.field, x[b : b + 1], 1.3), case.tokens)
        assert np.allclose(found.influence[b], twin, rtol=1e-11, atol=1e-12)
    assert np.array_equal(block_influence(case.field.piece(1.3), case.x, 1.3).influence, found.influence[0])


@pytest.mark.parametrize("config", [{"attention": "l2"}, {"attention": "cosine"}, {"norm": "layer"}])
def test_other_fields_use_the_dense_jacobian(config):
    case = random_case(5, **config)
    found = block_influence(case.field, case.x)
    assert found.method == "dense"
    assert np.allclose(found.influence, dense_influence(dense_jacobian(case.field, case.x), case.tokens))


def test_hutchinson_estimates_with_an_honest_error():
    p, v = stochastic(41, 3), torch.randn(50, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    field, x = frozen_attention(p, v), torch.zeros(41, 50, dtype=torch.float64)
    found = block_influence(field, x, norm="frobenius", samples=32)
    exact = p.numpy() * float(v.norm())
    assert found.method == "hutchinson" and found.bound is None
    far = np.abs(found.influence - exact) / found.error
    assert np.mean(far < 3) > 0.95 and np.median(far) < 1.2
    trace = divergence(field, x)
    assert trace.side == "estimate +- standard error"
    assert abs(trace.value - float(p.trace() * v.trace())) < 4 * trace.residual
    with pytest.raises(UserError, match="use frobenius"):
        block_influence(field, x)


def test_lorenz_divergence_is_constant():
    for seed in range(3):
        x = torch.randn(3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        assert float(divergence(lorenz, x)) == pytest.approx(-(10 + 1 + 8 / 3))


def test_weight_spectra_are_those_of_the_large_products():
    for kind in ("dot", "l2", "cosine"):
        case = random_case(6, attention=kind, dim=8, num_heads=2, blocks=2, horizon=2.0)
        found = weight_spectra(case.field)
        assert found.qk.shape == found.ov.shape == (2, 2, 4)
        attn = case.field.blocks[1].attn
        q = attn.q.weight[4:].numpy()
        k = q if attn.k is None else attn.k.weight[4:].numpy()
        for small, large in (
            (found.qk[1, 1], q.T @ k), (found.ov[1, 1], attn.proj.weight[:, 4:].numpy() @ attn.v.weight[4:].numpy())
        ):  # fmt: skip
            values = np.linalg.eigvals(large)
            assert all(np.abs(values - z).min() < 1e-9 for z in small)
            assert np.allclose(np.sort(np.abs(small)), np.sort(np.abs(values))[4:])
        assert kind != "l2" or (np.abs(found.qk.imag).max() < 1e-9 and found.qk.real.min() > 0)
    with pytest.raises(UserError, match="VectorField"):
        weight_spectra(torch.nn.Linear(2, 2))
