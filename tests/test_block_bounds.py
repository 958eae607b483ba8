"""Every bound of attention against dense Jacobians of 240 random fields of each kind: no violation, looseness printed."""

from functools import cache

import numpy as np
import pytest
import torch
from problems import quantile_line, random_case

from analysis.lipschitz.block_bounds import Shift, attention_inf, attention_local, attention_on_ball, combine, frame
from analysis.lipschitz.catalogue import CATALOGUE
from analysis.operators import jacobian
from odevit.field import CenterNorm

FIELDS, LEAST = (
    240,
    200,
)  # random fields of each kind of attention; a bound that does not apply to some is seen on LEAST or more
NORMS = ("center", "none", "center", "none", "center", "layer")
SLACK = 1 + 1e-10
LOOSE = {
    "block norm": 12,
    "attention map": 25,
    "ball": 300,
    "Castin": 1000,
    "L2": 60,
    "Kim": 400,
    "cosine": 1e4,
    "LipsFormer": 1e6,
}


@cache
def survey(kind: str) -> dict[str, list[tuple[float, str]]]:
    """(bound / truth, norm) by name: random weights, biases in half, states of three sizes, the smallest ball around."""
    found: dict[str, list[tuple[float, str]]] = {}
    for seed in range(FIELDS):
        norm = NORMS[seed % 6]
        case = random_case(seed, attention=kind, norm=norm)
        block, x = case.field.blocks[0], (0.3, 1.0, 4.0)[seed // 6 % 3] * case.x
        if case.bias and kind == "dot" and seed % 6:
            block.attn.q.bias.zero_()  # Castin et al. know no query bias
        elif kind == "cosine":
            block.attn.tau.fill_(10.0 * (-1) ** (seed // 2))  # training may turn its sign
        dense = jacobian(lambda t, y, f=case.field: f.attention_part(y), x, batch_dims=1).dense()[0]
        two, inf = float(torch.linalg.matrix_norm(dense, ord=2)), float(dense.abs().sum(1).max())
        bounds = attention_local(block, x[0], None) | attention_inf(block, case.tokens)
        bounds |= attention_on_ball(block, case.tokens, float(x.norm(dim=-1).max()), Shift())
        for name, bound in bounds.items():
            found.setdefault(name, []).append((bound / (inf if CATALOGUE[name].norm == "inf" else two), norm))
    return found


@pytest.mark.parametrize("kind", ["dot", "l2", "cosine"])
def test_attention_bounds_hold_on_every_random_field(kind):
    for name, found in survey(kind).items():
        ratios = [ratio for ratio, _ in found]
        useful = [ratio for ratio, norm in found if norm != "layer" or CATALOGUE[name].side == "local"]
        print(quantile_line(f"{kind}, {name}", useful))
        assert len(ratios) >= LEAST
        assert min(ratios) * SLACK >= 1
        assert np.median(useful) < next(limit for word, limit in LOOSE.items() if word in name)


def test_ours_are_tighter_than_the_published_forms():
    def median(kind, name):
        return np.median([ratio for ratio, _ in survey(kind)[name]])

    assert median("dot", "G ball, norm folded") < median("dot", "G ball") < median("dot", "G Castin et al.")
    assert median("dot", "G attention map, weighted") < median("dot", "G attention map, exact")
    assert median("dot", "G attention map, exact") < median("dot", "G attention map, closed")
    assert median("l2", "G tied L2, sharper") < 0.7 * median("l2", "G Kim et al.")
    assert (
        4 * median("cosine", "G cosine, sharper") < median("cosine", "G LipsFormer, refined") < median("cosine", "G LipsFormer")
    )


def test_published_forms_see_the_ball_after_the_norm():
    """R_y = ||C|| R + ||beta(t)||: forgetting beta would give a ball that the normalised tokens leave."""
    for seed in range(20):
        case = random_case(seed)
        norm, radius = case.field.blocks[0].norm1, float(case.x.norm(dim=-1).max())
        assert isinstance(norm, CenterNorm)
        seen = frame(norm, case.x, radius, Shift())
        assert float(norm(case.x).norm(dim=-1).max()) <= seen.radius_y
        assert seen.radius_y == pytest.approx(seen.outer * radius + float(norm.beta.norm()))


def test_a_sequential_block_composes_its_branches():
    case = random_case(0)
    block = case.field.blocks[0]
    two, three = np.array([2.0]), np.array([3.0])
    assert combine(block, two, three) == 5.0
    block.sequential = True
    assert combine(block, two, three) == 3.0 + 2.0 * (1 + 3.0)
