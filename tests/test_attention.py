"""Self-attention of three kinds against naive twins: stochastic rows, ties, distances, symmetries, the fused kernel."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from odevit.attention import COSINE_EPS, SelfAttention, spectral_init_

KINDS = ["dot", "l2", "cosine"]
few = settings(max_examples=12, deadline=None, derandomize=True)


def made(kind: str, bias: bool = False, dim: int = 8, heads: int = 2, seed: int = 0) -> SelfAttention:
    """Random weights and, where there are biases, random ones, in float64."""
    torch.manual_seed(seed)
    attention = SelfAttention(dim, heads, kind, bias).double()
    with torch.no_grad():
        for weight in attention.parameters():
            if weight.ndim:
                weight.add_(0.5 * torch.randn_like(weight))
    return attention


def tokens(n: int = 5, dim: int = 8, seed: int = 1, batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, n, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def twin(attention: SelfAttention, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(G(y), maps) of one image y (N, D), head by head and pair by pair, straight from the definitions."""
    d, outs, maps = attention.head_dim, [], []
    for head in range(attention.num_heads):
        rows = slice(head * d, (head + 1) * d)

        def image(layer, rows=rows):
            return y @ layer.weight[rows].T + (0 if layer.bias is None else layer.bias[rows])

        q = image(attention.q)
        if attention.kind == "l2":
            scores = torch.stack([torch.stack([-(a - b).square().sum() for b in q]) for a in q]) / math.sqrt(d)
            v = q @ attention.q.weight[rows] @ attention.v.weight[rows].T / math.sqrt(d)
        else:
            k, v = image(attention.k), image(attention.v)
            if attention.kind == "cosine":
                q, k, v = (u / (u.square().sum(-1, keepdim=True) + COSINE_EPS).sqrt() for u in (q, k, v))
                scores, v = attention.tau * q @ k.T, attention.nu * v
            else:
                scores = q @ k.T / math.sqrt(d)
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        maps.append(weights / weights.sum(-1, keepdim=True))
        outs.append(maps[-1] @ v)
    out = torch.cat(outs, -1) @ attention.proj.weight.T
    return out + (0 if attention.proj.bias is None else attention.proj.bias), torch.stack(maps)


@pytest.mark.parametrize("kind", ["dot", "cosine"])
@pytest.mark.parametrize("bias", [False, True])
def test_value_and_maps_equal_the_naive_twin(kind, bias):
    attention, y = made(kind, bias), tokens()
    out, maps = attention(y), attention.maps(y)
    for image in range(len(y)):
        expected, rows = twin(attention, y[image])
        assert torch.allclose(out[image], expected, rtol=0, atol=1e-12)
        assert torch.allclose(maps[image], rows, rtol=0, atol=1e-12)


def test_l2_is_tied_and_equals_the_pairwise_distance_twin():
    """Kim et al. 2020: one matrix for queries and keys, values y W_Q W_Q^T W_V / sqrt(d); no other published bound applies."""
    attention, y = made("l2"), tokens()
    assert attention.k is None and "k.weight" not in attention.state_dict()
    out, maps = attention(y), attention.maps(y)
    for image in range(len(y)):
        expected, rows = twin(attention, y[image])
        assert torch.allclose(out[image], expected, rtol=0, atol=1e-11)
        assert torch.allclose(maps[image], rows, rtol=0, atol=1e-12)
    distances = torch.cdist(y, y)  # with W_Q = I the nearest token of each is itself
    with torch.no_grad():
        attention.q.weight.copy_(torch.eye(8))
    assert torch.equal(attention.maps(y).argmax(-1)[:, 0], distances.argmin(-1))


@pytest.mark.parametrize("bias", [False, True])
def test_bias_of_l2_shifts_queries_and_keys_alike(bias):
    attention, y = made("l2", bias), tokens()
    before = attention.maps(y)
    if bias:
        with torch.no_grad():
            attention.q.bias.zero_()
    assert torch.allclose(attention.maps(y), before, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 99), st.floats(0.01, 1e6))
@few
def test_rows_sum_to_one_at_any_scale(kind, seed, scale):
    maps = made(kind, seed=seed).float().maps(scale * tokens(seed=seed).float())
    assert bool(torch.isfinite(maps).all()) and bool((maps >= 0).all())
    assert float((maps.sum(-1) - 1).abs().max()) < 1e-5


def test_l2_rows_do_not_underflow_at_large_distances():
    """Defect 16: exp(-distance) without the maximum subtracted is 0 for every pair but the token itself, and so may be that."""
    attention = made("l2").float()
    y = torch.cat([torch.zeros(1, 1, 8), 1e4 * torch.ones(1, 1, 8), 1e4 * torch.ones(1, 1, 8)], 1)
    maps = attention.maps(y)
    assert torch.allclose(maps.sum(-1), torch.ones(1, 2, 3))
    assert torch.allclose(maps[0, :, 0], torch.tensor([1.0, 0.0, 0.0]).expand(2, 3))
    assert torch.allclose(maps[0, :, 1:, 1:], torch.full((2, 2, 2), 0.5))


@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 99), st.permutations(range(5)))
@few
def test_attention_is_permutation_equivariant(kind, seed, order):
    attention, y = made(kind, bias=True, seed=seed), tokens(seed=seed)
    assert torch.allclose(attention(y[:, order]), attention(y)[:, order], rtol=0, atol=1e-11)
    assert torch.allclose(attention.maps(y[:, order]), attention.maps(y)[..., order, :][..., order], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_tokens_attend_evenly_and_stay_equal(kind):
    """Theory 1.4: P = 11^T / N."""
    y = tokens(n=1).expand(2, 6, 8)
    attention = made(kind)
    assert torch.allclose(attention.maps(y), torch.full((2, 2, 6, 6), 1 / 6, dtype=torch.float64))
    assert float(attention(y).std(1, unbiased=False).max()) < 1e-12


@pytest.mark.parametrize("bias", [False, True])
def test_the_fused_kernel_gives_the_explicit_value(bias):
    attention, y = made("dot", bias), tokens(n=9)
    explicit = attention(y)
    attention.fused = True
    assert not torch.equal(explicit, torch.zeros_like(explicit))
    assert torch.allclose(attention(y), explicit, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["l2", "cosine"])
def test_kinds_without_a_fused_kernel_stay_what_they_are(kind):
    attention, y = made(kind), tokens()
    explicit = attention(y)
    attention.fused = True
    assert torch.equal(attention(y), explicit)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 3, 2, 2)])
def test_spectral_initialisation_makes_the_largest_singular_value_one(shape):
    weight = spectral_init_(torch.empty(shape))
    assert float(torch.linalg.matrix_norm(weight.flatten(1).double(), 2)) == pytest.approx(1, abs=1e-6)
    assert not torch.equal(weight, spectral_init_(torch.empty(shape)))
