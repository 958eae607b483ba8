"""Charts of interventions: every token where it belongs, before beside after, signs around zero, and few bytes."""

import figure_reports as known
import numpy as np
import pytest

from analysis.reports import InterventionReport
from app import charts
from app.charts import look
from odevit.layout import TokenLayout

LAYOUT = TokenLayout(registers=1, grid=(2, 2))  # of figure_reports.effects
PIXELS = np.arange(3 * 8 * 12, dtype=np.uint8).reshape(3, 8, 12)


def intervention(before, after, **changes) -> InterventionReport:
    """One image of CLS, 2 x 2 patches and a register; token i is i + 1 away at t = 1 and twice as far at t = 3."""
    before, after = np.array([before], dtype=float), np.array([after], dtype=float)
    fields = {
        "change": "tokens cls to zero", "t": 1.0, "time": np.array([1.0, 3.0]), "size": np.ones(1), "kl": np.ones(1),
        "logits_before": before, "logits_after": after, "flipped": before.argmax(1) != after.argmax(1), "restart_gap": 0.0,
        "token_distance": np.array([1.0, 2.0])[:, None, None] * np.arange(1.0, 7.0), "provenance": known.MODEL,
    }  # fmt: skip
    return InterventionReport(**(fields | changes))


def named(figure) -> dict:
    return {trace.name: trace for trace in figure.data}


def test_probabilities_before_and_after_and_the_change_of_each_logit():
    figure = charts.class_effect(intervention(np.log([1, 3, 4]), np.log([4, 3, 1])), "abc")
    before, after, mark, change = figure.data
    np.testing.assert_allclose([*before.y, *after.y], [1 / 8, 3 / 8, 1 / 2, 1 / 2, 3 / 8, 1 / 8])
    np.testing.assert_allclose(change.y, [np.log(4), 0, -np.log(4)], atol=1e-12)
    assert list(before.x) == list(change.x) == ["a", "b", "<b>c</b>"] and list(mark.x) == ["a"]
    assert change.marker.color == tuple(look.class_colour(c) for c in range(3)) == before.marker.color


@pytest.mark.parametrize(("label", "symbol"), [(0, "circle"), (2, "x"), (None, "diamond")])
def test_the_prediction_after_the_change_is_judged_by_its_shape(label, symbol):
    figure = charts.class_effect(intervention([0, 0, 1], [1, 0, 0]), "abc", label=label)
    assert figure.data[2].marker.symbol == symbol


def test_of_many_classes_the_most_probable_before_or_after_are_drawn_and_this_is_said():
    before, after = np.zeros(100), np.zeros(100)
    before[[5, 50]], after[99] = 9.0, 9.0
    figure = charts.class_effect(intervention(before, after), [f"c{i}" for i in range(100)])
    assert {"<b>c5</b>", "c50", "c99"} < set(figure.data[0].x) and len(figure.data[0].x) == 10
    assert list(figure.data[0].x) == sorted(figure.data[0].x, key=lambda name: int(name.strip("<b>/c")))
    assert "10 of 100" in figure.layout.xaxis2.title.text


def test_distances_of_all_tokens_and_of_each_kind():
    lines = named(charts.spread(intervention([0, 1], [1, 0]), LAYOUT))
    np.testing.assert_allclose(lines["all tokens"].y, np.sqrt(91) * np.array([1, 2]))
    np.testing.assert_allclose(lines["CLS"].y, [1, 2])
    np.testing.assert_allclose(lines["patches"].y, np.sqrt(4 + 9 + 16 + 25) * np.array([1, 2]))
    np.testing.assert_allclose(lines["registers"].y, [6, 12])
    assert list(lines["CLS"].x) == [1, 3]


def test_a_model_without_registers_has_no_line_for_them():
    report = intervention([0, 1], [1, 0], token_distance=np.ones((2, 1, 5)))
    assert "registers" not in named(charts.spread(report, TokenLayout(registers=0, grid=(2, 2))))


def test_patches_are_on_the_grid_and_cls_and_registers_beside_it():
    figure = charts.effect_frames(known.effects(), LAYOUT, PIXELS, "kl")
    _, patches, apart = figure.data
    assert np.array_equal(patches.z, [[2, 3], [4, 5]]) and np.array_equal(apart.z, [[1], [6]])
    assert figure.layout.yaxis3.ticktext == ("CLS", "reg 0") and apart.text == (["CLS"], ["register 0"])
    assert [np.asarray(frame.data[0].z).tolist() for frame in figure.frames] == [[[1, 2], [3, 4]], [[2, 3], [4, 5]]]
    assert [slider.label for slider in figure.layout.sliders[0].steps] == ["0", "1"]
    assert (figure.layout.coloraxis.cmin, figure.layout.coloraxis.cmax) == (0, 5)  # of the patches at all times


def test_signed_effects_have_zero_in_the_middle():
    colours = charts.effect_frames(known.effects(), LAYOUT, PIXELS, "margin_change").layout.coloraxis
    assert (colours.cmin, colours.cmax) == (-2.5, 2.5) and colours.colorscale == charts.effect_frames(
        known.effects(), LAYOUT, PIXELS, "logit_change", at=0.0
    ).layout.coloraxis.colorscale


def test_the_map_starts_at_the_time_asked_for():
    figure = charts.effect_frames(known.effects(), LAYOUT, PIXELS, "kl", at=0.2)
    assert figure.layout.sliders[0].active == 0 and np.array_equal(figure.data[1].z, [[1, 2], [3, 4]])


def test_the_image_lies_under_its_patches():
    figure = charts.patch_chooser(PIXELS, (2, 3), (0, 0), (1, 2))
    image, points = figure.data
    left, top = image.x0 - image.dx / 2, image.y0 - image.dy / 2
    np.testing.assert_allclose([left, top, left + 12 * image.dx, top + 8 * image.dy], [-0.5, -0.5, 2.5, 1.5])
    assert [tuple(p) for p in points.customdata] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    (frame,) = figure.layout.shapes
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (0.5, 2.5, -0.5, 0.5)
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]  # first row on top


def test_the_strongest_token_of_a_kind_is_named():
    lines = named(charts.effect_over_time(known.effects(), LAYOUT, "margin_change"))
    np.testing.assert_allclose(lines["strongest of patches"].y, [1.5, -2.5])  # 2.5 - kl of 1 .. 4, then of 2 .. 5
    assert lines["strongest of patches"].text == ("patch row 0, column 0", "patch row 1, column 1")
    assert lines["strongest of registers"].text == ("register 0", "register 0")
    np.testing.assert_allclose(lines["CLS"].y, [2.5, 1.5])


def test_heads_are_told_apart():
    lines = charts.head_effects(known.effects(), "logit_change").data
    assert [line.name for line in lines] == [f"head {i}" for i in range(6)]
    assert [list(line.y) for line in lines[:2]] == [[0, -1], [-1, -2]]
    assert len({(line.line.color, line.line.dash) for line in lines}) == 6


def test_a_large_model_stays_within_the_budget():
    layout = TokenLayout(registers=10, grid=(14, 14))
    values = np.random.default_rng(0).normal(size=(7, layout.size, 1))
    report = known.effects(time=np.arange(7.0), regions=tuple(map(str, range(layout.size))), logit_change=values)
    picture = np.random.default_rng(0).integers(0, 256, (3, 224, 224), dtype=np.uint8)
    assert look.size(charts.effect_frames(report, layout, picture)) < look.MAX_BYTES
    assert look.size(charts.patch_chooser(picture, layout.grid, (0, 13), (0, 13))) < look.MAX_BYTES
