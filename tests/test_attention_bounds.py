"""Per-input bounds of attention: exact where the Jacobian is known, in the right order; soundness in test_block_bounds."""

import pytest
import torch
from problems import random_case

from analysis.lipschitz.attention_bounds import attention_map, attention_map_bounds, block_norm_bound, block_terms
from analysis.lipschitz.heads import read_heads
from analysis.lipschitz.matrix_norms import layer_norm_norms
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


def head_output(case, x, frozen, query_only: bool) -> torch.Tensor:
    """One head with identity output at x, values frozen at `frozen`; with `query_only` its keys are frozen as well."""
    attn = case.field.blocks[0].attn
    q, k, _ = attn.split(attn_input(case, x))
    _, key, value = attn.split(attn_input(case, frozen))
    return attn.scores(q, key if query_only else k).softmax(-1)[0, 0] @ value[0, 0]


def attn_input(case, x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.linear(case.field.blocks[0].norm1(x), *case.field.blocks[0].attn.stacked())


@pytest.mark.parametrize("kind", ["dot", "l2", "cosine"])
@pytest.mark.parametrize("seed", range(4))
def test_block_terms_are_exact(kind, seed):
    """With values frozen the blocks off the diagonal are the third term's; with keys frozen too, those on it the second's."""
    case = random_case(seed, attention=kind, num_heads=1)
    x, n, dim = case.x, case.tokens, case.dim
    ((first, middle, third),) = block_terms(read_heads(case.field.blocks[0]), x[0])

    def blocks(query_only: bool) -> torch.Tensor:
        dense = jacobian(lambda t, y: head_output(case, y, x, query_only)[None], x).dense()
        return torch.linalg.matrix_norm(dense.reshape(n, dim, n, dim).transpose(1, 2), ord=2)

    off = ~torch.eye(n, dtype=torch.bool)
    assert torch.allclose(blocks(False)[off], third[off], rtol=1e-9, atol=1e-13)
    second = blocks(True)
    assert torch.allclose(second.diagonal(), middle, rtol=1e-9, atol=1e-13)
    assert float(second[off].max()) == 0.0

    def values(t, y):
        attn = case.field.blocks[0].attn
        return (attn.scores(*attn.split(attn_input(case, x))[:2]).softmax(-1) @ attn.split(attn_input(case, y))[2])[0]

    moved = jacobian(lambda t, y: values(t, y)[0][None], x).dense().reshape(n, dim, n, dim).transpose(1, 2)
    assert torch.allclose(torch.linalg.matrix_norm(moved, ord=2), first, rtol=1e-9, atol=1e-13)


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


@pytest.mark.parametrize(("kind", "seed"), [("dot", 0), ("dot", 13), ("l2", 12), ("cosine", 3), ("cosine", 6)])
def test_a_nearly_constant_token_behind_layer_norm_is_bounded(kind, seed):
    """LayerNorm stretches that token about 100 times. At these seeds the second or the third term without it is unsound."""
    case = random_case(seed, attention=kind, norm="layer", num_heads=1, scale=2.0, tokens=5)
    x = case.x.clone()
    x[0, 0] = 1.0 + 0.01 * x[0, 0]
    norms = layer_norm_norms(case.field.blocks[0].norm1, x[0])
    heads, y = read_heads(case.field.blocks[0]), case.field.blocks[0].norm1(x[0]) - case.field.blocks[0].norm1.bias
    true = true_norm(case, x)
    assert float(norms[0]) > 50 and float(norms[1:].max()) < 10
    assert true <= float(heads.combined(block_norm_bound(heads, y, norms))) < 20 * true
    if kind == "dot":
        found = attention_map_bounds(heads, y, float(norms.max()))
        assert true <= float(heads.combined(found["weighted"])) < 100 * true


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
