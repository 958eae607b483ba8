"""Motion, collapse and norms of tokens: medians over tokens of each kind, lengths as integrals, maps where the patches lie."""

import numpy as np
import pytest
import token_figure_reports as known

from analysis.figures import token_collapse, token_motion, token_norms
from analysis.figures.motion_plots import length_so_far
from odevit.errors import UserError

KINDS = {"CLS": slice(0, 1), "patches": slice(1, 5), "registers": slice(5, 6)}


def lines(ax):
    return {line.get_label(): line.get_xydata() for line in ax.get_lines()}


def test_motion_is_the_median_of_each_kind():
    report = known.paths()
    axes = token_motion(report).axes
    for ax, values in zip(axes, (report.speed, report.curvature, length_so_far(report))):
        for name, where in KINDS.items():
            assert np.allclose(lines(ax)[name], np.stack([report.time, np.median(values[..., where], (1, 2))], -1))
    stairs = lines(axes[3])["patches"]
    assert np.array_equal(stairs[:, 0], np.sort(report.straightness[:, 1:5].ravel()))
    assert np.allclose(stairs[:, 1], np.arange(1, 9) / 8)


def test_length_is_the_integral_of_the_speed():
    speed = np.ones((3, 2, 6)) * np.array([1.0, 3.0, 5.0])[:, None, None]
    assert np.allclose(length_so_far(known.paths(speed=speed, time=np.array([0.0, 1.0, 3.0])))[:, 0, 0], [0, 2, 10])


def test_differences_have_no_ends_and_their_length_is_the_polygons():
    speed = known.paths().speed.copy()
    speed[-1] = np.nan
    report = known.paths(speed=speed, derivatives="differences", time=np.array([0.0, 1.0, 3.0]))
    assert np.allclose(length_so_far(report)[-1], speed[0] + 2 * speed[1])
    made = token_motion(report)
    assert lines(made.axes[0])["CLS"][:, 0].tolist() == [0, 1] and lines(made.axes[2])["CLS"][:, 0].tolist() == [0, 1, 3]
    assert made.get_supxlabel() == "speed and curvature by differences of the saved states"


def test_collapse_draws_what_the_report_says():
    report = known.paths()
    axes = token_collapse(report).axes
    assert np.allclose(lines(axes[0])[r"$\Pi x$"][:, 1], np.median(report.mean_cosine_centred, 1))
    assert np.allclose(lines(axes[1])["$x$"][:, 1], np.median(report.collapse, 1))
    assert np.allclose(lines(axes[2])["effective"][:, 1], np.median(report.effective_rank, 1))
    assert np.allclose(lines(axes[3])["clusters"][:, 1], np.median(report.clusters, 1)) and "0.9" in axes[3].get_ylabel()


def test_norm_maps_lie_on_the_image_and_the_others_apart():
    report = known.paths()
    made = token_norms(report, image=1)
    maps = [ax.images[0].get_array() for ax in made.axes if ax.images]
    assert np.array_equal(np.stack(maps[0::2]), report.patch_norm[:, 1])
    assert np.array_equal(np.stack(maps[1::2])[:, 0], report.norm[:, 1][:, [0, 5]])
    scales = {ax.images[0].get_clim() for ax in made.axes if ax.images}
    assert scales == {(report.norm[:, 1].min(), report.norm[:, 1].max())}


def test_a_report_without_layout_has_one_kind_and_no_maps():
    bare = known.paths(patch_grid=(), registers=0)
    assert set(lines(token_motion(bare).axes[0])) == {"tokens"}
    with pytest.raises(UserError, match="TokenPathReport has no patch grid"):
        token_norms(bare)


def test_undefined_curvature_is_a_gap_and_said():
    curvature = known.paths().curvature.copy()
    curvature[0, :, 0] = np.nan
    made = token_motion(known.paths(curvature=curvature))
    assert np.isnan(lines(made.axes[1])["CLS"][0, 1]) and "CLS: 2 of 6 not finite, left out" in made.get_supxlabel()
