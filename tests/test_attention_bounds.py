"""Per-input bounds of attention: exact where the Jacobian is known, in the right order; soundness in test_block_bounds."""

import pytest
import torch
from problems import random_case

from analysis.lipschitz.attention_bounds import attention_map, attention_map_bounds, block_norm_bound
from analysis.lipschitz.heads import read_heads
from analysis.lipschitz.softmax_norms import softmax_norm
from analysis.operators import jacobian

SLACK = 1 + 1e-10


def true_norm(case, x: torch.Tensor) -> float:
    """||J_G|| by a dense Jacobian; x (1, N, D)."""
    dense = jacobian(lambda t, y: case.field.attention_part(y), x, batch_dims=1).dense()
    return float(torch.linalg.matrix_norm(dense, ord=2))


def test_attention_map_bounds_are_ordered():
    for seed in range(15):
        case = random_case(seed)
        heads = read_heads(case.field.blocks[0])
        found = attention_map_bounds(heads, case.x[0])
        assert bool((found["weighted"] <= found["exact"] * SLACK).all())
        assert bool((found["exact"] <= found["closed"] * SLACK).all())


@pytest.mark.parametrize("kind", ["dot", "l2", "cosine"])
def test_maps_are_those_of_the_model(kind):
    case = random_case(11, attention=kind)
    heads = read_heads(case.field.blocks[0])
    assert torch.allclose(attention_map(heads, case.x[0]), case.field.attention(0.0, case.x)[0], atol=1e-13)


def test_uniform_attention_is_bounded_exactly():
    case = random_case(2, norm="none", num_heads=1, bias=False)
    attn = case.field.blocks[0].attn
    with torch.no_grad():
        attn.q.weight.zero_()
        attn.proj.weight.copy_(torch.eye(case.dim))
    heads = read_heads(case.field.blocks[0])
    value = float(torch.linalg.matrix_norm(attn.v.weight, ord=2))  # J = (11^T / N) (x) V
    assert true_norm(case, case.x) == pytest.approx(value, rel=1e-12)
    assert float(block_norm_bound(heads, case.x[0])) == pytest.approx(value, rel=1e-12)
    assert float(attention_map_bounds(heads, case.x[0])["exact"]) == pytest.approx(value, rel=1e-12)


def test_equal_tokens_leave_the_mean_only():
    case = random_case(4, num_heads=1)
    heads = read_heads(case.field.blocks[0])
    x = case.x[0, :1].expand(case.tokens, -1)
    bound = float(heads.combined(block_norm_bound(heads, x)))
    product = float(torch.linalg.matrix_norm(heads.out[0], ord=2) * torch.linalg.matrix_norm(heads.v[0], ord=2))
    assert bound == pytest.approx(product, rel=1e-9)
    assert true_norm(case, x[None]) <= bound * SLACK


def test_softmax_norms_of_rows_are_below_entropy_and_half():
    for case in (random_case(seed, scale=2.0) for seed in range(15)):
        p = case.field.attention(0.0, 3 * case.x)
        entropy = -torch.xlogy(p, p).sum(-1)
        assert bool((softmax_norm(p) <= torch.minimum(entropy, torch.full_like(entropy, 0.5)) + 1e-12).all())


def test_half_is_not_a_bound_of_the_field():
    """The softmax's constant taken for that of f: some field stretches more."""
    assert max(true_norm(case, case.x) for case in map(random_case, range(10))) > 0.5
