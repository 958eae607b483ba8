"""CLS paths: the lines are the coordinates, classes have their colours, teacher and student meet at the control points."""

import numpy as np
import pytest
import token_figure_reports as known
from matplotlib.figure import Figure

from analysis.figures import cls_trajectory, cls_trajectory_3d, teacher_student_trajectory
from analysis.figures.style import class_colour, class_marker
from odevit.errors import UserError


def lines(ax, start=""):
    """Data of the lines whose label starts so, by label."""
    xyz = (lambda line: np.stack(line.get_data_3d(), -1)) if ax.name == "3d" else lambda line: line.get_xydata()
    return {line.get_label(): xyz(line) for line in ax.get_lines() if line.get_label().startswith(start)}


@pytest.mark.parametrize("draw, k", [(cls_trajectory, 2), (cls_trajectory_3d, 3)])
def test_lines_are_the_cls_coordinates(draw, k):
    report = known.paths()
    ax = draw(report).axes[0]
    drawn = lines(ax, "_image")
    assert all(np.array_equal(drawn[f"_image {i}"], report.coordinates[:, i, 0, :k]) for i in range(2)) and len(drawn) == 2
    assert np.array_equal(lines(ax, "$t = 0$")["$t = 0$"], report.coordinates[0, :1, 0, :k])
    assert "PC 1 (state, 40%" in ax.get_xlabel()


def test_labels_come_before_predictions_and_have_the_colours_of_their_class():
    ends = {line.get_label(): line for line in cls_trajectory(known.paths(), known.lens(), names="abc").axes[0].get_lines()}
    assert (ends["c"].get_color(), ends["c"].get_marker()) == (class_colour(2), class_marker(2)) and "b" in ends
    labelled = cls_trajectory(known.paths(), known.lens(), labels=[0, 0, 1]).axes[0].get_legend_handles_labels()[1]
    assert labelled == ["class 0", "$t = 0$"]


def test_a_missing_state_is_a_gap_and_said():
    states = known.paths().coordinates.copy()
    states[1, 0, 0, 0] = np.nan
    made = cls_trajectory(known.paths(coordinates=states))
    assert np.isnan(lines(made.axes[0], "_image")["_image 0"][1, 0]) and "1 of 12 not finite" in made.get_supxlabel()


@pytest.mark.parametrize("k", [2, 3])
def test_control_points_lie_on_the_students_polygon(k):
    report = known.pair()
    drawn = lines(teacher_student_trajectory(report, k, images=(1,)).axes[0])
    x, h = report.student_cls[:, 1, :k], report.teacher_cls[:, 1, :k]
    assert np.allclose(drawn["control points"], [x[0], (x[0] + x[1]) / 2, x[2]])
    assert np.array_equal(drawn["student $x(t)$"], x) and np.array_equal(drawn["teacher $h_l$"], h)


def test_pairs_are_joined_control_point_to_layer():
    report = known.pair(control_times=np.array([0.0, 1.0, 2.0]))
    ax = teacher_student_trajectory(report).axes[0]
    joined = [line.get_xydata() for line in ax.get_lines() if line.get_label() == "_pair"]
    ends = np.stack([report.student_cls[..., :2], report.teacher_cls[..., :2]], 2).swapaxes(0, 1).reshape(6, 2, 2)
    assert np.allclose(joined, ends) and "PC 1 (state, 40%" in ax.get_xlabel()


def test_refusals():
    with pytest.raises(UserError, match="draws a TokenPathReport, not a LensReport"):
        cls_trajectory(known.lens())
    with pytest.raises(UserError, match="different models mixed"):
        cls_trajectory(known.paths(), known.lens(provenance=known.OTHER))
    with pytest.raises(UserError, match="labels: 1 images, the paths have 2"):
        cls_trajectory(known.paths(), labels=[3])
    with pytest.raises(UserError, match="component: 2 is outside 0 to 1"):
        cls_trajectory_3d(known.paths(coordinates=known.numbers(3, 2, 6, 2)))
    with pytest.raises(UserError, match="need 3-D axes"):
        cls_trajectory_3d(known.paths(), ax=Figure().add_subplot())
    with pytest.raises(UserError, match="coordinates is empty"):
        cls_trajectory(known.paths(coordinates=np.zeros((3, 0, 6, 3))))
    with pytest.raises(UserError, match="draws a PairReport, not a TokenPathReport"):
        teacher_student_trajectory(known.paths())
    with pytest.raises(UserError, match="components: 4 cannot be drawn; 2 or 3"):
        teacher_student_trajectory(known.pair(), 4)
    with pytest.raises(UserError, match="component: 2 is outside 0 to 1"):
        teacher_student_trajectory(known.pair(student_cls=known.numbers(3, 2, 2)), 3)
