"""Charts of motion and collapse: medians and bands of the report, every quantity by its name, budgets."""

import numpy as np
import pytest
import token_figure_reports as known

from analysis.figures.motion_plots import length_so_far
from app.charts import look
from app.charts.motion_charts import (
    COUNTS,
    DOTS,
    QUANTITIES,
    SHARES,
    band,
    dots_left_out,
    path_shape,
    token_alikeness,
    token_motion,
    token_ranks,
)


def lines(figure):
    """The curves by name, bands left out."""
    return {t.name: t for t in figure.data if t.fill is None}


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_each_kind_of_token_has_the_median_of_its_tokens(quantity):
    report = known.paths()
    figure = token_motion(report, quantity)
    values = length_so_far(report) if quantity == "length" else getattr(report, quantity)
    for kind, where in (("CLS", [0]), ("patches", [1, 2, 3, 4]), ("registers", [5])):
        assert np.allclose(lines(figure)[kind].y, np.median(values[:, :, where].reshape(3, -1), 1))
    assert figure.layout.yaxis.title.text == QUANTITIES[quantity] and figure.layout.xaxis.title.text == look.TIME


def test_times_without_a_value_are_left_out():
    speed = known.paths().speed.copy()
    speed[-1] = np.nan  # by differences the last speed has no neighbour
    curve = lines(token_motion(known.paths(speed=speed, derivatives="differences")))["CLS"]
    assert curve.x.tolist() == [0.0, 1.0] and np.isfinite(curve.y).all()


def test_a_band_holds_four_fifths_and_one_sample_has_none():
    rows = np.tile(np.arange(11.0), (2, 1))
    shade, curve = band(np.arange(2.0), rows, "x", "#0072B2")
    assert curve.y.tolist() == [5, 5] and sorted(set(shade.y)) == [1, 9]
    assert len(list(band(np.arange(2.0), rows[:, :1], "x", "#0072B2"))) == 1


def test_straightness_and_turning_of_every_token():
    report = known.paths()
    figure = path_shape(report)
    assert [t.name for t in figure.data] == ["patches", "registers", "CLS"]  # CLS on top
    cls = figure.data[-1]
    assert np.allclose(cls.x, report.straightness[:, 0]) and np.allclose(cls.y, report.turning[:, 0])
    assert list(cls.text) == ["CLS, image 0", "CLS, image 1"]
    assert figure.data[0].text[5] == "patch (0, 1), image 1"
    assert dots_left_out(report) == ""


def test_a_thousand_images_are_thinned_and_said():
    shape = (1000, 65)
    totals = {name: np.random.default_rng(0).random(shape) for name in ("straightness", "turning", "length")}
    large = known.paths(norm=np.ones((3, *shape)), registers=4, patch_grid=(6, 10), **totals)
    figure = path_shape(large)
    assert sum(len(t.x) for t in figure.data) <= DOTS and look.size(figure) < look.MAX_BYTES / 2
    assert dots_left_out(large).startswith(f"{sum(len(t.x) for t in figure.data):,} of 65,000 tokens drawn")


@pytest.mark.parametrize("draw, fields", [(token_alikeness, SHARES), (token_ranks, COUNTS)])
def test_collapse_shows_the_medians_over_images(draw, fields):
    report = known.paths()
    drawn = lines(draw(report))
    assert set(drawn) == set(fields.values())
    for field, name in fields.items():
        assert np.allclose(drawn[name].y, np.median(getattr(report, field), 1))
    assert (draw(report).layout.yaxis.type == "log") == (draw is token_ranks)


def test_without_registers_there_is_no_curve_of_them():
    assert set(lines(token_motion(known.paths(registers=0, patch_grid=(1, 5))))) == {"CLS", "patches"}
