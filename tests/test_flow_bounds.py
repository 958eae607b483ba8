"""exp of the integral of the logarithmic norm encloses the stretch of the flow map; breaks and samples apart."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import linear, random_case, rotation

from analysis.lipschitz import flow_bound
from analysis.operators import flow_jacobian
from odevit.errors import UserError
from odevit.flow import integrate
from odevit.trajectory import TimeGrid

ONES = torch.ones(2, dtype=torch.float64)


def test_a_rotation_is_bounded_exactly_from_both_sides():
    """[[a, b], [-b, a]]: every singular value of Phi is e^{aT}, while e^{int ||J||} sees only |b|."""
    field, grid = rotation(-0.1, 2.0), TimeGrid(0.0, 3.0, steps=6)
    report = flow_bound(field, integrate(field, ONES, grid, "rk4"))
    assert (report.most, report.least) == pytest.approx((math.exp(-0.3), math.exp(-0.3)))
    assert report.expansion == pytest.approx(np.full(7, -0.1))
    assert report.contraction == pytest.approx(np.full(7, 0.1))


def test_a_normal_field_attains_both_bounds():
    field, grid = linear([[0.5, 0.0], [0.0, -1.0]]), TimeGrid(0.0, 2.0, steps=4)
    report = flow_bound(field, integrate(field, ONES, grid, "rk4"))
    assert (report.most, report.least) == pytest.approx((math.exp(1.0), math.exp(-2.0)))


@pytest.mark.parametrize("seed", range(4))
def test_the_flow_of_a_random_field_lies_between(seed):
    config = {"blocks": 2} if seed % 2 else {"time_frequencies": 1}
    case = random_case(seed, scale=0.8, tokens=3, dim=4, horizon=1.0, **config)
    grid = TimeGrid(0.0, 1.0, steps=20)
    report = flow_bound(case.field, integrate(case.field, case.x, grid, "rk4"))
    stretch = torch.linalg.svdvals(flow_jacobian(case.field, case.x, grid, "rk4").dense())
    assert report.least * (1 - 1e-3) <= float(stretch[-1]) <= float(stretch[0]) <= report.most * (1 + 1e-3)
    assert report.least > 0.2 * float(stretch[-1]) and report.most < 10 * float(stretch[0])


def test_blocks_are_integrated_on_their_own_side_of_the_break():
    class Switch:
        """f = x before t = 1, f = -x after."""

        breaks = (1.0,)

        def piece(self, t):
            return (lambda s, x: x.clone()) if t < 1.0 else (lambda s, x: -x)

    report = flow_bound(Switch(), integrate(Switch(), ONES, TimeGrid(0.0, 2.0, steps=4), "rk4"))
    assert (report.most, report.least) == pytest.approx((1.0, 1.0))
    assert report.expansion.tolist() == [1, 1, -1, -1, -1]


def test_samples_have_bounds_of_their_own():
    case = random_case(1, tokens=3, dim=4)
    x, grid = torch.cat([case.x, 2 * case.x]), TimeGrid(0.0, 0.5, steps=5)
    both = flow_bound(case.field, integrate(case.field, x, grid), batch_dims=1)
    alone = flow_bound(case.field, integrate(case.field, x[1:], grid))
    assert both.most.shape == (2,) and both.expansion.shape == (2, 6)
    assert both.most[1] == pytest.approx(alone.most)


def test_one_saved_time_is_refused():
    trajectory = integrate(rotation(), ONES, TimeGrid(0.0, 1.0, steps=2))
    with pytest.raises(UserError, match="one saved time has no flow"):
        flow_bound(rotation(), replace(trajectory, t=trajectory.t[:1], x=trajectory.x[:1]))
