"""Figures of one solver against another show what the reports hold."""

import numpy as np
import pytest
from test_solver_charts import answers, paths
from test_stability_charts import perturbation

from analysis.discretization import step_stability
from analysis.figures import no_flip_margins, solver_paths, step_limits, token_separation, two_answers
from odevit.errors import UserError


def test_bars_are_probabilities_and_the_likeliest_are_drawn():
    ax = two_answers(np.log([3.0, 1.0]), np.log([1.0, 3.0]), "ab", ("image", "perturbed")).axes[0]
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], [0.75, 0.25, 0.25, 0.75])
    assert [text.get_text() for text in ax.get_xticklabels()] == ["a", "b"]
    many = two_answers(np.arange(50.0), np.arange(50.0)).axes[0]
    assert len(many.patches) == 20 and many.get_xticklabels()[-1].get_text() == "49"


def test_paths_and_their_distances():
    plane, distance = solver_paths(paths()).axes
    reference, euler = plane.get_lines()
    assert reference.get_xdata().tolist() == [0, 1, 2] and euler.get_xdata()[:2].tolist() == [0, 3]
    (line,) = distance.get_lines()
    assert line.get_xdata().tolist() == [2] and line.get_ydata().tolist() == [0.5]
    assert "90 %" in plane.get_xlabel()


def test_flips_lie_below_the_diagonal():
    kept, flipped, diagonal = no_flip_margins(answers()).axes[0].get_lines()
    assert kept.get_label() == "kept (2)" and flipped.get_xdata().tolist() == [0.5] and flipped.get_ydata().tolist() == [0.4]
    assert (diagonal.get_xdata() == diagonal.get_ydata()).all()


def test_largest_steps_by_method():
    reports = [step_stability(np.array([-2.0 + 0j]), m, 0.5) for m in ("euler", "rk4")]
    euler, rk4, taken = step_limits(reports, [0.0]).axes[0].get_lines()
    assert euler.get_ydata()[0] == pytest.approx(1.0) and rk4.get_ydata()[0] == pytest.approx(2.785293563 / 2)
    assert taken.get_ydata()[0] == 0.5
    with pytest.raises(UserError, match="2 for 2 methods at 3 times"):
        step_limits(reports, [0.0, 1.0, 2.0])


def test_maps_of_tokens_at_three_times_on_one_scale():
    axes = token_separation(perturbation()).axes[:3]
    np.testing.assert_allclose(axes[2].images[0].get_array(), [[2, 4], [6, 8]])
    assert {image.get_clim() for ax in axes for image in ax.images} == {(0.0, 10.0)}
    assert "CLS 0, registers 10" in axes[2].get_title()
    assert "registers" not in token_separation(perturbation(registers=0)).axes[2].get_title()
