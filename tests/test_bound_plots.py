"""Figures of Lipschitz bounds: the sides in order, vacuous bounds marked, nothing infinite drawn as a number."""

import figure_reports as known
import numpy as np

from analysis.figures import lipschitz_over_time, lipschitz_parts
from analysis.figures.outputs import remark


def lines(figure) -> dict:
    return {line.get_label(): line for line in figure.axes[0].get_lines()}


def test_lower_local_and_upper_are_drawn_in_the_order_of_time():
    drawn = lines(lipschitz_over_time([known.bounds(1.0, upper=60.0), known.bounds(0.0)]))
    assert drawn["lower (at the states)"].get_xydata().tolist() == [[0, 1.5], [1, 1.5]]
    assert drawn["local (at the states)"].get_ydata().tolist() == [4, 4]
    assert drawn["upper (on the ball)"].get_ydata().tolist() == [50, 60]
    assert drawn["ascent in the ball (measured)"].get_ydata().tolist() == [7, 7]


def test_a_vacuous_bound_is_hollow_and_called_vacuous():
    line = lines(lipschitz_over_time([known.bounds(vacuous=True)]))["upper (on the ball), vacuous"]
    assert line.get_markerfacecolor() == "none"


def test_an_infinite_bound_is_a_gap_and_said():
    figure = lipschitz_over_time([known.bounds(0.0), known.bounds(1.0, upper=np.inf, vacuous=True)])
    upper = lines(figure)["upper (on the ball), hollow: vacuous"].get_ydata()
    assert upper[0] == 50 and np.isnan(upper[1]) and "1 of 2 not finite, left out" in remark(figure)


def test_parts_carry_their_name_norm_side_and_status():
    figure = lipschitz_parts([known.bounds(), known.bounds(2.0, local=np.array([9.0, 9.0]))])
    ax = figure.axes[0]
    assert [t.get_text() for t in ax.get_yticklabels()] == [
        "lower", "F product", "G Castin et al. (infinity norm)", "local", "upper",
    ]  # fmt: skip
    signs = [line for line in ax.get_lines() if line.get_marker() != "None" and len(line.get_xdata()) == 1]
    assert [line.get_xdata()[0] for line in signs] == [2, 4, 90, 5, 50]
    assert [line.get_marker() for line in signs] == ["o", "^", "^", "s", "^"]
    assert [line.get_markerfacecolor() == "none" for line in signs] == [False, False, True, False, False]
    assert "t = 2" in ax.get_xlabel()  # the report with the largest local bound
