"""Attention on the image grid and over time: the maps of the report, one scale a row, layers beside their control times."""

import numpy as np
import pytest
import token_figure_reports as known

from analysis.figures import attention_heads, attention_mass, attention_over_time, cls_attention, teacher_student_attention
from analysis.figures.attention_curves import uniform_distance
from analysis.figures.attention_plots import picture_of
from odevit.errors import UserError


def maps(figure):
    """(title, map) of all pictures, in order."""
    return [(ax.get_title(), np.asarray(ax.images[0].get_array())) for ax in figure.axes if ax.images]


def test_every_head_the_mean_and_the_rollout():
    report = known.attention()
    drawn = maps(cls_attention(report, 1, 1.0))
    assert [title for title, _ in drawn] == ["head 0", "head 1", "mean", "to $t = 1$", "to $t = 2$"]
    assert all(np.array_equal(drawn[h][1], report.cls_maps[1, 1, h]) for h in range(2))
    assert np.allclose(drawn[2][1], report.cls_maps[1, 1].mean(0)) and np.array_equal(drawn[3][1], report.rollout_maps[0, 1])


def test_heads_share_a_scale_from_zero():
    report = known.attention()
    limits = {ax.images[0].get_clim() for ax in cls_attention(report).axes if ax.images and not ax.get_title().startswith("to")}
    assert limits == {(0.0, report.cls_maps[2, 0].max())}


def test_over_time_with_a_picture_and_a_head():
    report = known.attention()
    drawn = maps(attention_over_time(report, heads=(1,), picture=np.zeros((3, 8, 8), np.uint8)))
    assert drawn[0][0] == "image" and drawn[0][1].shape == (8, 8, 3)
    assert np.allclose([m for _, m in drawn[1:4]], report.cls_mean[:, 0])
    assert np.array_equal([m for _, m in drawn[4:7]], report.cls_maps[:, 0, 1])
    assert np.array_equal([m for _, m in drawn[7:]], report.rollout_maps[:, 0])


def test_a_layer_stands_above_the_time_at_which_it_begins():
    student, teacher = known.attention(4), known.attention(2, seed=9, provenance=known.OTHER)
    drawn = maps(teacher_student_attention(student, teacher, (2.1, 3.0)))
    assert [title for title, _ in drawn] == ["layer 0", "layer 1", "$t = 0$", "$t = 2$"]
    assert np.allclose(drawn[1][1], teacher.cls_mean[1, 0]) and np.allclose(drawn[3][1], student.cls_mean[2, 0])


def test_entropy_and_distance_of_each_head():
    report = known.attention()
    left, right = attention_heads(report).axes
    for ax, values in ((left, report.entropy), (right, report.distance)):
        drawn = {line.get_label(): line for line in ax.get_lines()}
        assert np.allclose(drawn["head 1"].get_ydata(), np.median(values[:, :, 1].mean(-1), 1))
    assert np.isclose({line.get_label(): line for line in left.get_lines()}["uniform"].get_ydata()[0], np.log(6))


def test_uniform_distance_on_the_grid():
    assert np.isclose(uniform_distance(known.attention()), (2 + np.sqrt(2)) / 4)
    eight = known.attention(patch_grid=(8, 8))
    assert np.isclose(uniform_distance(eight), 4.136483, atol=1e-6)


def test_mass_sums_to_one():
    report = known.attention()
    for ax, mass in zip(attention_mass(report).axes, (report.cls_mass, report.mass)):
        drawn = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
        for i, name in enumerate(("CLS", "patches", "registers")):
            assert np.allclose(drawn[name], np.median(mass.mean(2)[..., i], 1))


def test_a_broken_map_is_grey_and_said():
    broken = known.attention().cls_maps.copy()
    broken[2, 0, 0, 1, 1] = np.nan
    made = cls_attention(known.attention(cls_maps=broken))
    assert np.isnan(maps(made)[0][1][1, 1]) and "not finite" in made.get_supxlabel()


def test_refusals():
    with pytest.raises(UserError, match="time: 0.4 was not saved; the nearest is 0"):
        cls_attention(known.attention(), time=0.4)
    with pytest.raises(UserError, match="head: 2 is outside 0 to 1"):
        attention_over_time(known.attention(), heads=(2,))
    with pytest.raises(UserError, match="AttentionReport has no patch grid"):
        attention_over_time(known.attention(patch_grid=()))
    with pytest.raises(UserError, match="control_times: 1 times for the 3 layers"):
        teacher_student_attention(known.attention(), known.attention(), (1.0,))
    with pytest.raises(UserError, match="not an image of 1 or 3 channels"):
        picture_of(np.zeros((2, 5, 5)))
