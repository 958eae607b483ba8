"""Measured stretches: never above the dense norm, monotone, and ascent finds the known supremum of a cubic."""

import pytest
import torch
from problems import random_case

from analysis.lipschitz.ascent import ascend, into_ball, largest_stretch, slope_of_stretch
from analysis.operators import jacobian


def norms(case) -> torch.Tensor:
    return torch.linalg.matrix_norm(jacobian(case.field, case.x, batch_dims=1).dense(), ord=2)


@pytest.mark.parametrize("seed", range(8))
def test_power_iteration_rises_to_the_norm_from_below(seed):
    case = random_case(seed)
    true, before = float(norms(case)), 0.0
    for budget in (2, 6, 12, 40, 400):
        found = largest_stretch(case.field, case.x, batch_dims=1, budget=budget)
        assert before * (1 - 1e-12) <= float(found.value) <= true * (1 + 1e-12)
        assert found.products <= budget
        before = float(found.value)
    assert before == pytest.approx(true, rel=1e-4)


def test_every_sample_has_its_own_stretch():
    case = random_case(3)
    x = torch.cat([case.x, 0.1 * case.x, -2 * case.x])
    together = largest_stretch(case.field, x, batch_dims=1, budget=400).value
    for k in range(3):
        alone = torch.linalg.matrix_norm(jacobian(case.field, x[k : k + 1], batch_dims=1).dense(), ord=2)
        assert float(together[k]) == pytest.approx(float(alone), rel=1e-4)


def test_slope_of_the_stretch_agrees_with_central_differences():
    case = random_case(5, tokens=3)
    found = largest_stretch(case.field, case.x, budget=400)
    slope = slope_of_stretch(case.field, case.x, 0.0, found.u, found.v)
    step = 1e-5 * slope / slope.norm()

    def stretch(x):
        return float((found.u * jacobian(case.field, x).matvec(found.v)).sum())

    rise = (stretch(case.x + step) - stretch(case.x - step)) / (2 * 1e-5)
    assert rise == pytest.approx(float(slope.norm()), rel=1e-6)


def test_ascent_finds_the_supremum_of_a_cubic_and_stays_in_the_ball():
    def cubic(t, x):
        return x**3

    x = torch.tensor([[0.3, 0.2], [0.1, -0.4]], dtype=torch.float64)
    value, at = ascend(cubic, x, radius=2.0, steps=40)
    assert 3 * 0.4**2 < float(value) <= 3 * 2.0**2 * (1 + 1e-12)
    assert float(value) == pytest.approx(12.0, rel=1e-3)
    assert float(at.norm(dim=-1).max()) <= 2.0 * (1 + 1e-12)


def test_a_linear_field_has_nothing_to_climb():
    value, at = ascend(lambda t, x: 2 * x, torch.ones(2, 3, dtype=torch.float64), radius=5.0)
    assert float(value) == pytest.approx(2.0)
    assert torch.equal(at, torch.ones(2, 3, dtype=torch.float64))


def test_projection_shortens_long_tokens_only():
    x = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], dtype=torch.float64)
    assert torch.allclose(into_ball(x, 1.0), torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]], dtype=torch.float64))
