"""Token paths and the field on a plane: every token's line and end, colours by place, time and class, arrows to scale."""

import numpy as np
import pytest
import token_figure_reports as known
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba
from matplotlib.quiver import Quiver

from analysis.figures import field_plane, token_trajectories
from analysis.figures.plane_plots import FILL
from analysis.figures.style import class_colour
from odevit.errors import UserError


def test_every_token_has_its_path():
    report = known.paths()
    ax = token_trajectories(report, images=(1,)).axes[0]
    drawn = {line.get_label(): line.get_xydata() for line in ax.get_lines()}
    assert all(np.array_equal(drawn[f"_path {n}"], report.coordinates[:, 1, n, :2]) for n in range(6))
    assert ax.get_legend_handles_labels()[1] == ["registers", "patches", "CLS"]
    colours = {line.get_label(): to_rgba(line.get_color()) for line in ax.get_lines()}
    key = ax.child_axes[0].images[0]
    shown = key.cmap(key.norm(np.asarray(key.get_array())))
    assert np.allclose([colours[f"_path {n}"] for n in range(1, 5)], shown.reshape(4, 4), atol=0.01)


def test_time_is_the_colour_of_each_piece():
    report = known.paths()
    pieces = [c for c in token_trajectories(report, by="time").axes[0].collections if isinstance(c, LineCollection)]
    assert len(pieces) == 6 and all(np.array_equal(c.get_array(), [0.5, 1.5]) and c.get_clim() == (0, 2) for c in pieces)
    last = pieces[-1].get_segments()  # CLS is drawn last, on top
    assert np.allclose(last, np.stack([report.coordinates[:2, 0, 0, :2], report.coordinates[1:, 0, 0, :2]], 1))


def test_classes_have_their_colours():
    ax = token_trajectories(known.paths(), known.lens(), by="class").axes[0]
    colours = [line.get_color() for line in ax.get_lines() if line.get_label() == "_path 3"]
    assert colours == [class_colour(2), class_colour(1)]
    with pytest.raises(UserError, match='by: "class" needs labels'):
        token_trajectories(known.paths(), by="class")


def test_arrows_are_tangents_and_the_longest_fills_its_cell():
    report = known.plane()
    ax = field_plane(report).axes[0]
    (drawn,) = (c for c in ax.collections if isinstance(c, Quiver))
    assert np.array_equal(np.stack([drawn.U, drawn.V], -1).reshape(2, 3, 2), report.arrows)
    assert np.array_equal(drawn.get_array().reshape(2, 3), report.off_plane) and drawn.get_clim() == (0, 1)
    assert (drawn.angles, drawn.scale_units) == ("xy", "xy") and np.isclose(report.arrows.max() / drawn.scale, FILL)
    drawn = {line.get_label(): line.get_xydata() for line in ax.get_lines()}
    assert np.array_equal(drawn["CLS, image 0"], report.path) and np.array_equal(drawn["rest held, $t = 1$"], report.path[1:2])


def test_refusals():
    with pytest.raises(UserError, match="by: 'colour' is unknown"):
        token_trajectories(known.paths(), by="colour")
    with pytest.raises(UserError, match="image: 2 is outside 0 to 1"):
        token_trajectories(known.paths(), images=(2,))
    with pytest.raises(UserError, match="draws a PlaneReport, not a TokenPathReport"):
        field_plane(known.paths())
