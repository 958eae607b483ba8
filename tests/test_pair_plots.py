"""Figures of two models: the lines are the coordinates and speeds of both, in the looks of first and second."""

import numpy as np
import pytest
import token_figure_reports as known

from analysis.figures.pair_plots import paired_paths, paired_speeds
from analysis.figures.style import OKABE_ITO
from odevit.errors import UserError

NAMES = ("pupil", "master")


def test_both_paths_are_drawn_with_their_names():
    first, second = known.paths(), known.paths(coordinates=known.numbers(3, 2, 6, 3, seed=9))
    ax = paired_paths(first, second, NAMES).axes[0]
    lines = {line.get_label(): line for line in ax.get_lines()}
    for report, name, colour in zip((first, second), NAMES, OKABE_ITO):
        assert np.array_equal(lines[name].get_xydata(), report.coordinates[:, 0, 0, :2]) and lines[name].get_color() == colour
        assert np.array_equal(lines[f"_{name} 1"].get_xydata(), report.coordinates[:, 1, 0, :2])
    assert ax.get_legend_handles_labels()[1] == list(NAMES) and "PC 1 (state, 40%" in ax.get_xlabel()


def test_other_images_are_refused():
    with pytest.raises(UserError, match="second: 1 images, the first has 2"):
        paired_paths(known.paths(), known.paths(coordinates=known.numbers(3, 1, 6, 3)), NAMES)


def test_speeds_are_over_the_share_of_the_way():
    second = known.paths(time=np.array([0.0, 2.0, 8.0]))
    lines = {line.get_label(): line for line in paired_speeds(known.paths(), second, NAMES).axes[0].get_lines()}
    assert lines["pupil"].get_xdata().tolist() == [0.0, 0.5] and lines["master"].get_xdata().tolist() == [0.0, 0.25]
    assert np.allclose(lines["pupil"].get_ydata(), np.median(known.paths().speed[:-1, :, 0], 1))
