"""Figures of teacher and student: distances as they are, control points where softmax puts them."""

import figure_reports as known
import numpy as np
import pytest

from analysis.figures import control_points, match_distance
from analysis.reports import MatchReport
from odevit.errors import UserError


def test_distances_nearest_times_and_schedule():
    distance = np.array([[0.0, 1.0, 2.0], [1.0, 0.5, 0.0]])
    report = MatchReport(
        provenance=known.MODEL, time=np.array([0.0, 1.0, 2.0]), layer=np.array([0, 1]), distance=distance, numerator=distance,
        matched_time=np.array([0.0, 2.0]), schedule=np.array([[0, 0], [1, 1], [1, 2]]), schedule_cost=0.5, fit="identity",
        tokens="cls", rows=4, determined=True,
    )  # fmt: skip
    ax = match_distance(report).axes[0]
    assert np.array_equal(np.asarray(ax.collections[0].get_array()).reshape(2, 3), distance)
    lines = {line.get_label(): line.get_xydata().tolist() for line in ax.get_lines()}
    assert lines == {"monotone matching": [[0, 0], [1, 1], [2, 1]], "nearest time": [[0, 0], [2, 1]]}


def test_control_points_follow_the_temperature():
    d = np.array([1.0, 3.0, 2.0])
    ax = control_points(d, temperatures=(1e-3, 1e6), horizon=6.0).axes[0]
    cold, hot = (np.asarray(c.get_offsets())[:, 0] for c in ax.collections)
    assert np.allclose(cold, [0, 0, 6, 6]) and np.allclose(hot, [0, 2, 4, 6], atol=1e-4)
    warm = np.asarray(control_points(d, temperatures=(1.0,)).axes[0].collections[0].get_offsets())[:, 0]
    assert np.allclose(np.diff(warm), 3 * np.exp(d) / np.exp(d).sum())
    whole = np.asarray(control_points(d, temperatures=(1.0,), steps=12).axes[0].collections[0].get_offsets())[:, 0]
    assert np.allclose(np.diff(whole) * 4, [1, 8, 3])  # 12 steps of a quarter, shares .09, .67, .24


def test_distances_and_temperatures_that_make_no_sense():
    with pytest.raises(UserError, match="distances: shape"):
        control_points([1.0, np.nan])
    with pytest.raises(UserError, match="temperatures: .* must be positive"):
        control_points([1.0, 2.0], temperatures=(0.0,))
