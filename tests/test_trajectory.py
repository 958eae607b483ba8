"""TimeGrid: steps, direction and save times, each error in one line; Trajectory: states by name and by time."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from odevit import TimeGrid, TokenLayout, Trajectory, UserError
from odevit.trajectory import stack_states

times = st.floats(-20, 20, allow_nan=False)


@given(times, times, st.integers(1, 400))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_grid_starts_at_t0_ends_at_t1_exactly_in_equal_steps(t0, t1, steps):
    if abs(t1 - t0) < 1e-3:
        return
    grid = TimeGrid(t0, t1, steps)
    assert len(grid.times) == steps + 1  # defect 8: T points are T - 1 steps
    assert (grid.times[0], grid.times[-1]) == (t0, t1)
    assert grid.h == (t1 - t0) / steps
    assert np.allclose(np.diff(grid.times), grid.h, rtol=0, atol=1e-13)
    assert grid.save_times == grid.times


def test_descending_time_has_a_negative_step():
    assert TimeGrid(1.0, 0.0, steps=4).h == -0.25
    assert TimeGrid(1.0, 0.0, steps=4, save=[1.0, 0.3]).save_times == (1.0, 0.3)


def test_save_is_a_number_of_intervals_or_a_list_of_times():
    assert TimeGrid(0.0, 6.0, steps=6, save=3).save_times == (0.0, 2.0, 4.0, 6.0)
    assert TimeGrid(0.0, 6.0, steps=6).with_save(1) == TimeGrid(0.0, 6.0, steps=6, save=1)
    for kind in (list, tuple, np.array, torch.tensor):
        assert TimeGrid(0.0, 1.0, steps=2, save=kind([0.0, 0.25, 1.0])).save_times == (0.0, 0.25, 1.0)


def test_integers_and_foreign_numbers_are_cast():
    grid = TimeGrid(0, np.float64(6), steps=np.int64(3), save=np.int64(2))
    assert grid == TimeGrid(0.0, 6.0, steps=3, save=2)
    assert type(grid.t0) is float and type(grid.steps) is int and type(grid.save) is int
    assert hash(grid.with_save(np.array([0.0, 6.0]))) == hash(grid.with_save((0.0, 6.0)))


BAD = [
    ({"t1": 0.0}, "horizon: t0 = t1 = 0, there is nothing to integrate"),
    ({"t1": math.nan}, "t1: nan is not a finite time"),
    ({"t0": -math.inf}, "t0: -inf is not a finite time"),
    ({"t0": "start"}, "t0: 'start' is not a number"),
    ({"steps": 0}, "steps: 0 is not a positive integer"),
    ({"steps": 2.5}, "steps: 2.5 is not a positive integer"),
    ({"steps": math.nan}, "steps: nan is not a positive integer"),
    ({"steps": "6"}, "steps: '6' is not a positive integer"),
    ({"steps": True}, "steps: True is not a positive integer"),
    ({"save": 0}, "save: 0 is not a positive integer"),
    ({"save": 2.5}, "save: 2.5 is not a positive integer"),
    ({"save": True}, "save: True is not a positive integer"),
    ({"save": [1.0]}, "save: 1 time(s); at least 2 are needed, from t0 to t1"),
    ({"save": []}, "save: 0 time(s); at least 2 are needed, from t0 to t1"),
    ({"save": [0.0, 0.5, 0.5, 1.0]}, "save: times 0.5, 0.5 repeat or run against the direction from 0 to 1"),
    ({"save": [0.0, 0.5, 0.5 + 1e-12, 1.0]}, "save: times 0.5, 0.5 repeat or run against the direction from 0 to 1"),
    ({"save": [1.0, 0.0]}, "save: times 1, 0 repeat or run against the direction from 0 to 1"),
    ({"t0": 1.0, "t1": 0.0, "save": [0.0, 1.0]}, "save: times 0, 1 repeat or run against the direction from 1 to 0"),
    ({"save": [0.0, math.nan]}, "save: nan is not a finite time"),
    ({"save": [0.0, None]}, "save: None is not a number"),
    ({"save": "ab"}, "save: 'a' is not a number"),
    ({"save": [-0.5, 1.0]}, "save: times -0.5 .. 1 leave the interval [0, 1]"),
    ({"save": [0.0, 1.5]}, "save: times 0 .. 1.5 leave the interval [0, 1]"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_times_are_refused_in_one_line(change, message):
    """T11: duplicates, one point, NaN, wrong direction, horizon 0."""
    with pytest.raises(UserError) as error:
        TimeGrid(**({"t0": 0.0, "t1": 1.0, "steps": 4} | change))
    assert str(error.value) == message


def test_tolerance_stays_far_below_a_step_wherever_the_interval_lies():
    far = TimeGrid(1e6, 1e6 + 1e-3, steps=10)
    assert far.tolerance <= abs(far.h) / 1000
    assert TimeGrid(0.0, 12.0, steps=36).tolerance == pytest.approx(1.2e-8)


def trajectory() -> Trajectory:
    x = torch.arange(3 * 2 * 7 * 4, dtype=torch.float64).reshape(3, 2, 7, 4)
    return Trajectory(torch.tensor([0.0, 0.5, 1.0]).double(), x, "euler", 0.5, 2, TokenLayout(2, (2, 2)))


def test_states_are_found_by_name():
    made = trajectory()
    assert torch.equal(torch.cat([made.cls, made.patches, made.registers], -2), made.x)
    assert made.cls.shape == (3, 2, 1, 4) and made.registers.shape == (3, 2, 2, 4)


def test_states_are_found_by_time_and_no_other_time_is_answered():
    made = trajectory()
    assert torch.equal(made.at(0.5), made.x[1])
    assert torch.equal(made.at(0.5 + 1e-12), made.x[1])
    with pytest.raises(UserError, match=r"^time: 0.6 was not saved; the nearest saved time is 0.5$"):
        made.at(0.6)
    with pytest.raises(UserError, match="^time: nan was not saved"):
        made.at(math.nan)


def test_tuple_states_are_stacked_and_found_part_by_part():
    states = [(torch.full((2,), float(k)), torch.full((3, 2), 10.0 * k)) for k in range(3)]
    x = stack_states(states)
    assert [tuple(p.shape) for p in x] == [(3, 2), (3, 3, 2)]
    found = Trajectory(torch.tensor([0.0, 1.0, 2.0]), x, "euler", 1.0, 2).at(2.0)
    assert torch.equal(found[0], states[2][0]) and torch.equal(found[1], states[2][1])


def test_a_state_without_tokens_has_no_token_names():
    with pytest.raises(ValueError, match="no token layout"):
        _ = Trajectory(torch.zeros(1), torch.zeros(1, 2), "euler", 1.0, 1).cls
