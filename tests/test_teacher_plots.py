"""Figures of teacher and student: distances as they are, control points where softmax puts them."""

import figure_reports as known
import numpy as np
import pytest
import token_figure_reports as tokens

from analysis.figures import control_points, match_distance, pair_distance
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


def test_far_is_one_colour():
    distance = np.array([[0.0, 9.0], [1.0, 0.5]])
    report = MatchReport(
        provenance=known.MODEL, time=np.array([0.0, 1.0]), layer=np.array([0, 1]), distance=distance, numerator=distance,
        matched_time=np.array([0.0, 1.0]), schedule=np.array([[0, 0], [1, 1]]), schedule_cost=0.5, fit="identity",
        tokens="cls", rows=4, determined=True,
    )  # fmt: skip
    mesh = match_distance(report).axes[0].collections[0]
    assert mesh.get_clim() == (0.0, 2.0) and mesh.colorbar.extend == "max"


def test_control_points_follow_the_temperature():
    report = tokens.pair(moved=np.array([1.0, 3.0, 2.0]), horizon=6.0, steps=12, control_times=np.array([0.0, 1.0, 4.0, 6.0]))
    rows = [np.asarray(c.get_offsets()) for c in control_points(report, (1e-3, 1.0, 1e6)).axes[0].collections]
    cold, warm, hot, own = (row[:, 0] for row in rows)
    assert np.allclose(np.diff(cold) * 2, [1, 10, 1]) and np.allclose(np.diff(hot) * 2, [4, 4, 4])
    assert np.allclose(np.diff(warm) * 2, [1, 8, 3])  # 12 steps of a half, shares .09, .67, .24
    assert own.tolist() == report.control_times.tolist() and [row[0, 1] for row in rows] == [0, 1, 2, 3]


def test_the_temperature_of_the_training_is_among_those_drawn():
    ticks = [label.get_text() for label in control_points(tokens.pair(temperature=30.0)).axes[0].get_yticklabels()]
    assert ticks == ["0.2", "0.6", "2", "6", "20", "30", "this student"]


def test_before_and_after_are_the_numbers_of_the_report():
    report = tokens.pair()
    left, right = pair_distance(report).axes
    for ax, name in ((left, "distance"), (right, "overlap")):
        drawn = {line.get_label(): line.get_ydata().tolist() for line in ax.get_lines()}
        assert drawn == {"before training": report.before[name].tolist(), "after training": getattr(report, name).tolist()}
    alone = pair_distance(tokens.pair(before={})).axes[0].get_lines()
    assert [line.get_label() for line in alone] == ["after training"]


def test_distances_and_temperatures_that_make_no_sense():
    with pytest.raises(UserError, match="moved: the distances of the teacher are not finite"):
        control_points(tokens.pair(moved=np.array([1.0, np.nan])))
    with pytest.raises(UserError, match="temperatures: .* must be positive"):
        control_points(tokens.pair(), (0.0,))
