"""The figure of a perturbed picture: distances and bounds as in the reports, the proven one told where it leaves the axes."""

import numpy as np
from test_stability_charts import perturbation, stretch

from analysis.figures import perturbation_growth
from analysis.figures.outputs import remark


def lines(figure) -> dict:
    return {str(drawn.get_label()): drawn for drawn in figure.axes[0].get_lines()}


def test_distances_and_bounds_are_those_of_the_reports():
    report = perturbation()
    figure = perturbation_growth(report, stretch())
    drawn, start = lines(figure), report.distance[0]
    np.testing.assert_allclose(drawn["all tokens"].get_ydata(), report.distance)
    assert drawn["CLS"].get_xdata().tolist() == [1, 2]  # at t = 0 it has not seen the picture
    (between,) = [line for name, line in drawn.items() if "between" in name]
    np.testing.assert_allclose(between.get_ydata(), [start, 2.5 * start, 8.75 * start])
    assert "proven bound at T 1e+04" in remark(figure) and figure.axes[0].get_ylim()[1] == 600


def test_without_registers_and_stretches():
    drawn = lines(perturbation_growth(perturbation(registers=0, proven=np.zeros(0))))
    assert "registers" not in drawn and len(drawn) == 3
