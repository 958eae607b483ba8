"""The weights of an attention branch as the bounds see them: folding changes nothing, heads combine by the smaller rule."""

import pytest
import torch
from problems import random_case

from analysis.lipschitz.heads import read_heads


@pytest.mark.parametrize("kind", ["dot", "l2", "cosine"])
@pytest.mark.parametrize("norm", ["center", "layer", "none"])
def test_folded_and_plain_projections_are_those_of_the_model(kind, norm):
    case = random_case(3, attention=kind, norm=norm, bias=True)
    block, x = case.field.blocks[0], case.x[0]
    shift = torch.linspace(-1, 1, case.dim, dtype=torch.float64)
    y = block.norm1(x) + shift
    folded = read_heads(block, shift).projected(block.norm1(x) - block.norm1.bias if norm == "layer" else x)
    for ours, plain in zip(folded, read_heads(block, fold=False).projected(y)):
        assert torch.allclose(ours, plain, atol=1e-12)
    stacked = torch.nn.functional.linear(y, *block.attn.stacked()).unflatten(
        -1, (-1, block.attn.num_heads, block.attn.head_dim)
    )
    assert torch.allclose(folded[0], stacked[:, 0].transpose(0, 1), atol=1e-12)
    assert torch.allclose(folded[2], stacked[:, -1].transpose(0, 1), atol=1e-12)


def test_heads_combine_by_the_smaller_rule():
    heads = read_heads(random_case(2, num_heads=2, dim=4).field.blocks[0])
    whole = torch.linalg.matrix_norm(torch.cat(list(heads.out), 1), ord=2)
    each = torch.linalg.matrix_norm(heads.out, ord=2)
    equal, alone = torch.ones(2, dtype=torch.float64), torch.tensor([1.0, 0.0], dtype=torch.float64)
    assert float(heads.combined(alone)) == pytest.approx(float(each[0])) and each[0] <= whole
    assert float(heads.combined(equal)) == pytest.approx(min(float(whole) * 2**0.5, float(each.sum())))
    assert float(heads.combined(3 * equal)) == pytest.approx(3 * float(heads.combined(equal)))
