"""Bounds of attention from the weights: sound on random fields, ordered, homogeneous; forms known to be wrong fail."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import Case, random_case

from analysis.lipschitz import lipschitz
from analysis.lipschitz.ball_bounds import castin, dot_ball, inverse_phi, kim_two, l2_sharp, query_offsets
from analysis.lipschitz.block_bounds import Shift, attention_on_ball
from analysis.lipschitz.heads import Heads, read_heads
from analysis.operators import jacobian

SLACK = 1 + 1e-10


def dense_of(case: Case, x: torch.Tensor, t: float = 0.0) -> torch.Tensor:
    return jacobian(lambda s, y: case.field.attention_part(y, t), x, batch_dims=1).dense()[0]


def two_norm(dense: torch.Tensor) -> float:
    return float(torch.linalg.matrix_norm(dense, ord=2))


def test_ours_is_never_above_castin_nor_the_unfolded_form():
    for seed in range(30):
        case = random_case(seed, bias=False)
        found = attention_on_ball(case.field.blocks[0], case.tokens, 0.1 + seed / 3, Shift())
        assert found["G ball, norm folded"] <= found["G ball"] * SLACK <= found["G Castin et al."] * SLACK**2


def worst_case(tokens: int, radius: float) -> tuple[Heads, torch.Tensor]:
    """A = V = I in two dimensions, two keys (R/2, +-.87 R) and N - 2 queries (R/4, 0)."""
    eye, zero = torch.eye(2, dtype=torch.float64)[None], torch.zeros(1, 2, dtype=torch.float64)
    heads = Heads("dot", eye, eye, eye, None, zero, zero, zero, eye)
    x = torch.tensor([[radius / 4, 0.0]], dtype=torch.float64).repeat(tokens, 1)
    x[:2] = torch.tensor([[radius / 2, 0.87 * radius], [radius / 2, -0.87 * radius]])
    return heads, x


@pytest.mark.parametrize("radius", [16.0, 32.0])
def test_root_n_r_squared_is_attained_up_to_a_constant(radius):
    n = 128
    heads, x = worst_case(n, radius)
    true = two_norm(jacobian(lambda t, y: (y @ y.T).softmax(-1) @ y, x).dense())
    assert true / (math.sqrt(n) * radius**2) == pytest.approx(0.166, abs=0.002)
    radius_x = float(x.norm(dim=-1).max())
    assert float(dot_ball(heads, n, radius_x)) / true == pytest.approx(4.8, abs=0.15)
    assert float(castin(heads, n, radius_x)) / true == pytest.approx(20.9, abs=0.5)


def test_forgetting_the_offsets_of_the_queries_is_unsound():
    """Queries that are all offset, q = b, with keys and values x: the bound without b is sqrt N, and two tokens pass it."""
    one, zero, b = torch.ones(1, 1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64), 1.2
    heads = Heads("dot", 0 * one, one, one, None, zero + b, zero, zero, one)
    x = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    true = two_norm(jacobian(lambda t, y: ((b * y.T).softmax(-1) @ y).expand(2, 1), x).dense())
    assert float(dot_ball(heads, 2, 1.0, 0 * query_offsets(heads))) < true <= float(dot_ball(heads, 2, 1.0))


def test_bound_holds_at_all_times_of_a_moving_shift():
    for seed in range(4):
        case = random_case(seed, time_frequencies=2, horizon=3.0, bias=False)
        with torch.no_grad():
            case.field.time_weight.mul_(20.0)
        weight = case.field.time_weight
        shift = Shift(case.field.shift(0.0), torch.stack(weight.chunk(2), 1))
        times = np.linspace(0, 3, 7)
        assert max(float(case.field.shift(t).norm()) for t in times) <= shift.supremum()
        bound = min(attention_on_ball(case.field.blocks[0], case.tokens, float(case.x.norm(dim=-1).max()), shift).values())
        assert max(two_norm(dense_of(case, case.x, t)) for t in times) <= bound


def test_moving_offsets_of_the_queries_are_bounded_tightly():
    case = random_case(3, time_frequencies=1, horizon=1.0, bias=False)
    block, weight = case.field.blocks[0], case.field.time_weight
    plain = read_heads(block, fold=False)
    moving = torch.einsum("mpi,hdi->mhpd", torch.stack(weight.chunk(2), 1), plain.q)
    bound, still = query_offsets(plain, moving), query_offsets(plain)
    seen = torch.stack([
        (((plain.q @ case.field.shift(t))[:, None] @ plain.k)[:, 0]).norm(dim=-1) for t in np.linspace(0, 1, 101)
    ])  # fmt: skip
    assert torch.allclose(bound - still, seen.amax(0), rtol=1e-3)
    assert bool((seen <= (bound - still) * SLACK).all())


@pytest.mark.parametrize(("n", "value"), [(5, 0.717825), (17, 1.421134), (65, 2.318125), (197, 3.135368)])
def test_inverse_phi_has_its_values(n, value):
    w = inverse_phi(n)
    assert w == pytest.approx(value, abs=5e-7)
    assert w * math.exp(w + 1) == pytest.approx(n - 1)


def test_inverse_phi_is_the_supremum_of_the_mean_squared_distance():
    generator = torch.Generator().manual_seed(0)
    for n in (2, 5, 9):
        r = 2 * torch.rand(500, 1, 1, generator=generator) * torch.randn(500, n, 3, generator=generator)
        squared = torch.cdist(r.double(), r.double()).square()
        assert float(((-squared).softmax(-1) * squared).sum(-1).max()) <= inverse_phi(n)
        far = torch.full((n,), inverse_phi(n) + 1)  # all others at the same distance: m = phi^-1 where its derivative is 0
        far[0] = 0.0
        assert float(((-far).softmax(-1) * far).sum()) == pytest.approx(inverse_phi(n), rel=1e-6)


def test_l2_bounds_scale_as_the_square_of_the_queries():
    heads = read_heads(random_case(1, attention="l2").field.blocks[0], fold=False)
    scaled = replace(heads, q=3 * heads.q, mix=3 * heads.mix, v=9 * heads.v)
    for bound in (kim_two, l2_sharp):
        assert torch.allclose(bound(scaled, 7), 9 * bound(heads, 7), rtol=1e-12)
    assert torch.allclose(kim_two(scaled, 7, power=1), 3 * kim_two(heads, 7, power=1), rtol=1e-12)


def test_the_form_that_is_not_homogeneous_fails():
    """With ||W_Q|| to the first power: W_Q -> 100 W_Q at x / 100 stretches 10^4 times as much, that form allows 100 times."""
    for seed in range(5):
        case = random_case(seed, attention="l2", norm="none")
        before = two_norm(dense_of(case, case.x))
        with torch.no_grad():
            case.field.blocks[0].attn.q.weight.mul_(100.0)
        true, heads = two_norm(dense_of(case, case.x / 100)), read_heads(case.field.blocks[0])
        assert true == pytest.approx(1e4 * before, rel=1e-9) or bool(heads.q_bias.any())
        assert float(heads.combined(kim_two(heads, case.tokens, power=1))) < true
        assert true <= float(heads.combined(l2_sharp(heads, case.tokens))) < float(heads.combined(kim_two(heads, case.tokens)))


@pytest.mark.parametrize("bias", [False, True])
def test_an_absurd_radius_has_an_infinite_bound(bias):
    case = random_case(0, bias=bias)
    found = attention_on_ball(case.field.blocks[0], case.tokens, 1e200, Shift())
    assert found["G ball"] == math.inf and not any(math.isnan(value) for value in found.values())
    assert lipschitz(case.field, radius=1e200, tokens=case.tokens, ascent_steps=0).upper == math.inf
