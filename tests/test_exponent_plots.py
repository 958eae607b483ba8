"""Figures of exponents: every image is drawn once, in its class and group, with the statistics of the report."""

import figure_reports as known
import numpy as np
import pytest

from analysis.figures import (
    exponents_by_class,
    exponents_confidence,
    exponents_histogram,
    exponents_right_wrong,
    lyapunov_convergence,
    lyapunov_spectrum,
    style,
)
from analysis.figures.outputs import remark
from odevit.errors import UserError


def line(figure, label: str):
    (found,) = [line for line in figure.axes[0].get_lines() if str(line.get_label()).startswith(label)]
    return found


def test_the_histogram_counts_every_image_once():
    figure = exponents_histogram(known.exponents())
    bars = figure.axes[0].patches
    assert sum(bar.get_height() for bar in bars) == 6
    assert bars[0].get_x() == pytest.approx(0.1) and bars[-1].get_x() + bars[-1].get_width() == pytest.approx(0.6)


def test_one_value_only_still_makes_a_histogram():
    figure = exponents_histogram(known.exponents(exponents=np.full((6, 1), 0.3)))
    assert sum(bar.get_height() for bar in figure.axes[0].patches) == 6


def test_classes_keep_their_colour_and_marker():
    drawn = [line for line in exponents_by_class(known.exponents()).axes[0].get_lines() if line.get_linestyle() == "None"]
    looks = {line.get_marker(): (line.get_color(), sorted(line.get_ydata())) for line in drawn}
    for c, values in enumerate(([0.1, 0.4], [0.2], [0.3, 0.5, 0.6])):
        assert looks[style.class_marker(c)] == (style.class_colour(c), values)


def test_right_and_wrong_are_parted_and_the_auc_is_said():
    figure = exponents_right_wrong(known.exponents())
    assert sorted(set(line(figure, "right (4)").get_xdata())) == [0.1, 0.2, 0.3, 0.4]
    wrong = line(figure, "wrong (2)").get_xydata()
    assert wrong.tolist() == [[0.5, 0.0], [0.5, 0.5], [0.6, 1.0]]
    assert line(figure, "AUC 1.00 [0.90, 1.00]")


def test_without_labels_there_is_no_right_or_wrong():
    blind = known.exponents(labels=np.full(6, -1), correct=np.zeros(6, dtype=bool))
    with pytest.raises(UserError, match="no labels"):
        exponents_right_wrong(blind)
    assert len(line(exponents_confidence(blind), "image (6)").get_xdata()) == 6
    assert exponents_by_class(blind).axes[0].get_xlabel() == "predicted class"


def test_confidence_parts_right_from_wrong_by_shape():
    figure = exponents_confidence(known.exponents())
    right, wrong = line(figure, "right (4)"), line(figure, "wrong (2)")
    assert (right.get_marker(), wrong.get_marker()) == ("o", "x")
    assert wrong.get_xydata().tolist() == [[0.5, pytest.approx(0.5)], [0.6, pytest.approx(0.4)]]


def test_an_exponent_that_is_not_finite_is_left_out_and_said():
    values = np.array([0.1, np.nan, 0.3, -np.inf, 0.5, 0.6])[:, None]
    figure = exponents_histogram(known.exponents(exponents=values))
    assert sum(bar.get_height() for bar in figure.axes[0].patches) == 4 and "2 of 6 not finite" in remark(figure)


def test_convergence_shows_the_history_and_its_end():
    report = known.lyapunov()
    figure = lyapunov_convergence(report)
    assert line(figure, r"$\lambda_{1} = 0.7$").get_ydata().tolist() == report.history[:, 0].tolist()
    both = known.lyapunov(history=np.stack([report.history, report.history + 0.2]))
    assert np.allclose(line(lyapunov_convergence(both), r"$\lambda_{2}").get_ydata(), report.history[:, 1] + 0.1)


def test_a_spectrum_without_history_cannot_converge():
    with pytest.raises(UserError, match="LyapunovReport.history is empty|LyapunovReport.time is empty"):
        lyapunov_convergence(known.lyapunov(time=np.zeros(0), history=np.zeros((0, 2))))


def test_qr_and_finite_time_are_two_quantities():
    finite = known.lyapunov(quantity="finite-time exponents (SVD)", exponents=np.array([[0.9, 0.1], [1.1, 0.3]]))
    figure = lyapunov_spectrum(known.lyapunov(), finite)
    names = figure.axes[0].get_legend_handles_labels()[1]
    assert names == ["averaged log |R_ii| (QR), $T = 5$", "finite-time exponents (SVD), $T = 5$"]
    drawn = [line.get_ydata().tolist() for line in figure.axes[0].get_lines() if line.get_marker() in style.MARKERS[:2]]
    assert drawn == [known.lyapunov().exponents.tolist(), [1.0, 0.2]]
