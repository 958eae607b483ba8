"""Figures of the solver: errors and their order against steps, accuracy and flips against cost."""

import figure_reports as known
import numpy as np
import pytest

from analysis.figures import error_along, euler_error, solver_accuracy, solver_flips
from analysis.figures.outputs import remark
from odevit.errors import UserError


def line(figure, label: str):
    (found,) = [line for line in figure.axes[0].get_lines() if str(line.get_label()).startswith(label)]
    return found


def test_an_error_of_first_order_is_seen_as_one():
    figure = euler_error([known.euler(16), known.euler(4), known.euler(8)], known.order())
    measured = line(figure, "measured, $p = 1.00$")
    assert np.allclose(measured.get_xydata(), [[4, 1.5 / 4], [8, 1.5 / 8], [16, 1.5 / 16]])
    assert line(figure, "observed order 1.00, euler from 4 steps")
    reference = line(figure, "first order").get_ydata()
    assert np.allclose(reference[:-1] / reference[1:], 2)


def test_bounds_far_above_the_error_leave_the_axes_and_this_is_said():
    reports = [known.euler(n, classical=np.array([1e30, np.inf]), vacuous=np.array([True, True])) for n in (4, 8)]
    figure = euler_error(reports)
    assert line(figure, "classical bound, $e^{LT}$, vacuous").get_markerfacecolor() == "none"
    assert "classical up to 1e+30, beyond the axes" in remark(figure) and "2 of 4 not finite" in remark(figure)
    assert figure.axes[0].get_ylim()[1] < 1e10


def test_reports_on_fewer_images_are_compared_on_those():
    both, names = known.euler(8), ("true_error", "principal", "stepwise", "classical", "logarithmic")
    few = known.euler(8, **{name: getattr(both, name)[:1] for name in names})
    measured = line(euler_error([known.euler(4), few]), "measured")
    assert np.allclose(measured.get_ydata(), [1 / 4, 1 / 8])


def test_an_error_that_was_not_measured_is_not_drawn():
    figure = error_along(known.euler(4, true_error=np.zeros((2, 0))))
    assert [str(drawn.get_label())[:9] for drawn in figure.axes[0].get_lines()] == ["principal", "stepwise "]


def test_error_along_starts_after_t_0_where_it_is_zero():
    report = known.euler(4)
    drawn = line(error_along(report), "measured")
    assert drawn.get_xdata().tolist() == [0.25, 0.5, 0.75, 1.0]
    assert np.allclose(drawn.get_ydata(), np.median(report.true_error, 0)[1:])


def test_accuracy_against_cost_with_the_trained_solver_ringed():
    figure = solver_accuracy(known.swap())
    assert line(figure, "euler").get_xydata().tolist() == [[4, 0.9], [8, 0.8]]
    assert line(figure, "dopri5").get_xydata().tolist() == [[50, 0.6]]
    rings = [drawn.get_xydata().tolist() for drawn in figure.axes[0].get_lines() if drawn.get_markersize() == 9]
    assert [ring for ring in rings if ring] == [[[4, 0.9]]]


def test_adaptive_solvers_have_no_steps_and_this_is_said():
    figure = solver_accuracy(known.swap(), against="steps")
    assert "dopri5 chooses its own steps" in remark(figure)
    assert line(figure, "rk4").get_xdata().tolist() == [4]


def test_without_labels_there_is_no_accuracy():
    with pytest.raises(UserError, match="no labels, so it has no accuracies; solver_flips needs none"):
        solver_accuracy(known.swap(accuracy=np.full(4, np.nan)))
    with pytest.raises(UserError, match="against: unknown 'time'"):
        solver_accuracy(known.swap(), against="time")


def test_flips_stay_below_what_the_radius_allows():
    drawn = solver_flips(known.swap()).axes[0].get_lines()
    flips = {str(d.get_label()): d.get_ydata() for d in drawn}
    bars = [d for d in drawn if d.get_marker() == "_" and len(d.get_xdata())]
    assert flips["euler"].tolist() == [0.0, 0.1] and np.allclose(bars[0].get_ydata(), [0.0, 0.2])
    assert all((d <= b.get_ydata()).all() for d, b in zip((flips["euler"], flips["rk4"], flips["dopri5"]), bars))
