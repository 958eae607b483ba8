"""Paths of all tokens in three dimensions: every line is a path of the report, colours tell token or class."""

import numpy as np
import pytest
import token_figure_reports as known

from analysis.figures.space_plots import token_trajectories_3d
from analysis.figures.style import class_colour
from odevit.errors import UserError


def test_every_path_is_drawn_in_three_dimensions():
    report = known.paths()
    ax = token_trajectories_3d(report, images=(0, 1)).axes[0]
    lines = {line.get_label(): np.stack(line.get_data_3d(), -1) for line in ax.get_lines()}
    for image in (0, 1):
        for n in range(6):
            assert np.array_equal(lines[f"_path {image} {n}"], report.coordinates[:, image, n, :3])
    assert ax.get_legend_handles_labels()[1] == ["CLS", "patches", "registers"] and "PC 3" in ax.get_zlabel()


def test_classes_give_the_colour_of_the_image():
    ax = token_trajectories_3d(known.paths(), images=(1,), classes=[0, 2]).axes[0]
    assert {line.get_color() for line in ax.get_lines()} == {class_colour(2)}


def test_two_axes_are_refused():
    with pytest.raises(UserError, match="component: 2 is outside 0 to 1"):
        token_trajectories_3d(known.paths(coordinates=known.numbers(3, 2, 6, 2)))
