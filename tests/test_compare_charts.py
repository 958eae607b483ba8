"""Charts of two models: both paths move together, each region has its own step, a wrong prediction is hatched."""

import figure_reports
import numpy as np
import pytest
import token_figure_reports as known

from app.charts import look
from app.charts.compare_charts import (
    LOOKS,
    paired_chances,
    paired_decisions,
    paired_paths,
    paired_rates,
    paired_spectra,
    paired_speeds,
    share_of,
)

NAMES = ("pupil", "master")


def slower(**changes):
    """The same paths over twice the time, with the even states only."""
    report = known.paths()
    cut = {name: getattr(report, name)[::2] for name in ("coordinates", "speed", "norm")}
    return known.paths(time=np.array([0.0, 4.0]), **(cut | changes))


def test_both_paths_are_drawn_and_markers_move_at_equal_shares():
    first, second = known.paths(), slower()
    figure = paired_paths(first, second, NAMES, at=0.9)
    bold = [t for t in figure.data if t.mode == "lines" and t.line.width == 4]
    assert [t.name for t in bold] == list(NAMES) and [t.line.color for t in bold] == [style[0] for style in LOOKS]
    for trace, report in zip(bold, (first, second)):
        assert np.allclose(np.stack([trace.x, trace.y], -1)[:-1], report.coordinates[:, 0, 0, :2])
    assert figure.layout.sliders[0].active == 1 and len(figure.frames) == 3
    middle = figure.frames[1].data
    assert np.allclose(np.stack([middle[0].x, middle[0].y], -1), first.coordinates[1, :, 0, :2])
    halfway = second.coordinates[:, :, 0, :2].mean(0)  # between its two saved states
    assert np.allclose(np.stack([middle[1].x, middle[1].y], -1), halfway)


def test_patches_are_drawn_where_the_reports_have_them():
    with_patches = paired_paths(known.paths(), known.paths(), NAMES)
    alone = known.paths(patch_grid=(), registers=0, coordinates=known.numbers(3, 2, 1, 3), norm=np.ones((3, 2, 1)))
    faint = [t for t in with_patches.data if t.mode == "lines" and t.opacity == 0.35]
    assert len(faint) == 2 and sum(np.isfinite(faint[0].x)) == 3 * 4
    assert not [t for t in paired_paths(alone, alone, NAMES).data if t.mode == "lines" and t.opacity == 0.35]


def test_each_region_is_scaled_by_its_own_step_and_the_nearest_share_is_shown():
    spectra = (
        [figure_reports.eigenvalues([1j * k, -1.0], t=float(k)) for k in range(3)],
        [figure_reports.eigenvalues([5.0 + k], t=10.0 * k) for k in range(2)],
    )
    region = figure_reports.euler_region()
    figure = paired_spectra(spectra, (region, region), (1.0, 0.5), NAMES, at=2.0)
    one, two = (t for t in figure.data if t.type == "contour")
    assert (min(one.x), min(two.x)) == (-3.0, -6.0) and two.name == "master: |R(hλ)| = 1"
    shown = figure.frames[2].data
    assert sorted(zip(shown[0].x, shown[0].y)) == [(-1.0, 0.0), (0.0, 2.0)] and list(shown[1].x) == [6.0]
    assert list(figure.frames[0].data[1].x) == [5.0] and figure.layout.yaxis.scaleanchor == "x"
    assert look.size(figure) < look.MAX_BYTES / 2


def test_a_region_far_larger_than_the_eigenvalues_does_not_hide_them():
    near, far = ([figure_reports.eigenvalues([size * 1j])] for size in (1.0, 0.01))
    region = figure_reports.euler_region()  # the disc around -1
    left = [paired_spectra((group, group), (region, None), (1.0, 1.0), NAMES).layout.xaxis.range[0] for group in (near, far)]
    assert left[0] < -2 and -0.1 < left[1] < 0


def test_a_splitting_has_no_region():
    spectra = ([figure_reports.eigenvalues([1j])], [figure_reports.eigenvalues([2j])])
    figure = paired_spectra(spectra, (None, None), (1.0, 1.0), NAMES)
    assert not [t for t in figure.data if t.type == "contour"]


def test_rates_of_both_with_their_names_over_the_share_of_the_way():
    groups = ([figure_reports.rates(t=t) for t in (0.0, 1.0, 4.0)], [figure_reports.rates(t=t) for t in (0.0, 2.0)])
    curves = {t.name: t for t in paired_rates(groups, NAMES).data}
    assert set(curves) == {f"{what}, {name}" for what in ("‖J‖", "μ(J)") for name in NAMES}
    assert list(curves["‖J‖, pupil"].x) == [0.0, 0.25, 1.0] and list(curves["μ(J), master"].x) == [0.0, 1.0]
    for field, what in (("norm", "‖J‖"), ("logarithmic_norm", "μ(J)")):
        assert curves[f"{what}, pupil"].y[1] == float(np.ravel(getattr(groups[0][1], field))[0])


def test_a_wrong_prediction_is_hatched_and_said():
    other = known.lens(logits=known.lens().logits[:, :, [2, 0, 1]])  # image 0: class 0
    figure = paired_chances((known.lens(), other), NAMES, "abc", 2)
    right, wrong = figure.data
    assert (right.name, wrong.name) == ("pupil: c", "master: a (wrong)")
    assert list(right.marker.pattern.shape) == ["", "", ""] and list(wrong.marker.pattern.shape) == ["/", "", ""]
    assert list(right.marker.line.width) == [0, 0, 3] and figure.layout.xaxis.ticktext[2] == "<b>c ✓</b>"
    assert np.allclose(right.y, np.exp([0, 0, 2]) / np.exp([0, 0, 2]).sum())


def test_without_a_label_nothing_is_wrong():
    figure = paired_chances((known.lens(), known.lens()), NAMES)
    assert [t.name for t in figure.data] == ["pupil: class 2", "master: class 2"]


def test_only_the_likeliest_classes_are_drawn():
    logits = np.zeros((3, 2, 100))
    logits[:, :, 77] = 5.0
    figure = paired_chances((known.lens(logits=logits), known.lens(logits=logits)), NAMES)
    assert len(figure.data[0].x) == 10 and "class 77" in figure.layout.xaxis.ticktext


def test_the_decision_time_is_marked_at_its_share():
    late = known.lens(time=np.array([0.0, 2.0, 4.0]), decision_time=np.array([2.0, 0.0]))
    figure = paired_decisions((known.lens(), late), NAMES, "abc")
    assert [shape.x0 for shape in figure.layout.shapes] == [0.5, 0.5] and list(figure.data[1].x) == [0.0, 0.5, 1.0]
    assert figure.data[0].y[-1] == pytest.approx(np.exp(2) / (np.exp(2) + 2))


def test_speeds_are_medians_over_images_and_gaps_are_left_out():
    speed = known.paths().speed.copy()
    speed[-1] = np.nan
    figure = paired_speeds((known.paths(speed=speed), known.paths()), NAMES)
    curves = {t.name: t for t in figure.data if t.fill is None}
    assert list(curves["pupil"].x) == [0.0, 0.5] and np.allclose(curves["pupil"].y, np.median(speed[:2, :, 0], 1))
    assert np.array_equal(share_of([2.0, 3.0, 6.0]), [0.0, 0.25, 1.0])
