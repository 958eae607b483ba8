"""Charts of Lipschitz bounds: sides by sign, vacuous hollow, the sharpest comparable bound found, the flow bound reproduced."""

import figure_reports as known
import numpy as np
import pytest

from analysis.reports import FlowBoundReport
from app import charts

NAMES = ["lower", "ascent", "F exact per token", "F product", "F logarithmic norm", "G block norm", "G ball", "G LipsFormer",
         "J block influence", "local", "upper"]  # fmt: skip
SIDES = ["lower", "lower", "local", "upper", "upper", "local", "upper", "upper", "local", "local", "upper"]
STATUS = ["measured", "measured", "proven", "proven", "proven", "proven", "proven", "vacuous", "proven", "proven", "proven"]
VALUES = np.array([2.0, 9.0, 1.0, 4.0, -0.5, 3.0, 40.0, np.inf, 3.5, 3.5, 44.0])


def report(t: float = 0.0, **changes):
    facts = {
        "lower": np.array([2.0]), "local": np.array([3.5]), "upper": 44.0, "ascent": 9.0, "residual": np.array([1e-6]),
        "part": np.array(NAMES), "value": VALUES[:, None], "side": np.array(SIDES), "status": np.array(STATUS),
        "region": np.array(["-"] * len(NAMES)), "reference": np.array(["-"] * len(NAMES)),
        "norm": np.array(["mu_2" if "logarithmic" in n else "2" for n in NAMES]),
    }  # fmt: skip
    return known.bounds(t, **(facts | changes))


def flow(expansion, contraction, most, least) -> FlowBoundReport:
    return FlowBoundReport(
        provenance=known.MODEL, t=np.array([0.0, 1.0, 3.0]), expansion=np.array([expansion]), residual=0.0,
        contraction=np.array([contraction]), most=np.array([most]), least=np.array([least]),
    )  # fmt: skip


def test_the_sharpest_is_the_smallest_proven_bound_in_the_same_norm():
    assert charts.sharpest(report(), "F", local=True) == "F exact per token"
    assert charts.sharpest(report(), "F", local=False) == "F product"  # the logarithmic norm is smaller, and another thing
    assert charts.sharpest(report(), "G", local=False) == "G ball"
    assert charts.sharpest(report(status=np.array(["vacuous"] * len(NAMES))), "G", local=True) == ""


def test_the_whole_field_says_where_its_bound_comes_from():
    assert charts.sharpest_whole(report()) == "J block influence"
    worse = np.where(np.array(NAMES) == "J block influence", 5.0, VALUES)[:, None]
    assert charts.sharpest_whole(report(value=worse)) == "F exact per token with G block norm"


def test_three_sides_over_t_on_a_logarithmic_axis():
    figure = charts.bounds_over_time([report(0.0), report(1.0, upper=np.inf, vacuous=True)])
    lower, local, upper, ascent = figure.data
    assert list(lower.y) == [2, 2] and list(local.y) == [3.5, 3.5] and list(ascent.y) == [9, 9]
    assert upper.y[0] == 44 and np.isnan(upper.y[1]) and "vacuous" in upper.name
    assert [s.endswith("-open") for s in upper.marker.symbol] == [False, True]
    assert figure.layout.yaxis.type == "log" and local.fill == "tonexty"


def test_a_branch_shows_its_own_bounds_with_the_sharpest_thick():
    figure = charts.branch_over_time([report(0.0), report(1.0)], "G")
    lines = {trace.name: trace for trace in figure.data}
    assert set(lines) == {"block norm", "ball", "LipsFormer, vacuous"}
    assert lines["block norm"].line.width == lines["ball"].line.width > lines["LipsFormer, vacuous"].line.width
    assert lines["block norm"].line.dash == "solid" and lines["ball"].line.dash == "dash"
    assert np.isnan(lines["LipsFormer, vacuous"].y).all()
    (mu,) = [trace for trace in charts.branch_over_time([report()], "F").data if trace.name.startswith("log")]
    assert np.isnan(mu.y).all()  # a logarithmic axis has no place for -0.5


def test_every_bound_by_name_side_and_time():
    later = report(1.0, value=2 * VALUES[:, None])
    figure = charts.bounds_by_name([report(0.0), later], at=0.0)
    by = {trace.name: dict(zip(trace.y, trace.x)) for trace in figure.data}
    assert by["lower"] == {"lower": 2, "ascent": 9} and by["vacuous"] == {}
    assert by["local"] == {"MLP: exact per token": 1, "attention: block norm": 3, "J block influence": 3.5, "local": 3.5}
    assert set(by["sharpest of its branch"]) == {
        "MLP: exact per token",
        "MLP: product",
        "attention: block norm",
        "attention: ball",
    }
    assert dict(zip(figure.frames[1].data[0].y, figure.frames[1].data[0].x)) == {"lower": 4, "ascent": 18}
    low, high = figure.layout.xaxis.range
    assert figure.layout.xaxis.type == "log" and 10**low < 1 and 10**high > 88


def test_a_finite_vacuous_bound_is_hollow():
    figure = charts.bounds_by_name([report(value=np.where(np.isinf(VALUES), 1e6, VALUES)[:, None])])
    (trace,) = [trace for trace in figure.data if trace.name == "vacuous"]
    assert list(trace.x) == [1e6] and trace.marker.symbol.endswith("-open")


def test_the_table_compares_like_with_like():
    rows = {row["bound"]: row for row in charts.bound_table(report())}
    assert list(rows)[:5] == ["lower", "ascent", "J block influence", "local", "upper"] and len(rows) == len(NAMES)
    assert rows["upper"]["times the smallest"] == 22 and rows["MLP: product"]["times the smallest"] == 4
    assert rows["attention: ball"]["times the smallest"] == pytest.approx(40 / 3)
    assert rows["MLP: logarithmic norm"]["times the smallest"] is None
    assert rows["MLP: logarithmic norm"]["norm"] == "logarithmic norm"


def test_the_flow_bound_is_the_integral_of_the_rates():
    figure = charts.flow_stretch(flow([1.0, 1.0, 2.0], [0.5, 0.5, 0.5], np.exp(4.0), np.exp(-1.5)))
    most, least = figure.data
    assert np.allclose(most.y, np.exp([0, 1, 4])) and np.allclose(least.y, np.exp([0, -0.5, -1.5]))
    assert figure.layout.yaxis.type == "log"


def test_where_the_rates_do_not_lead_to_the_end_only_the_end_is_drawn():
    figure = charts.flow_stretch(flow([1.0, 1.0, 2.0], [0.5, 0.5, 0.5], np.exp(5.0), np.exp(-1.5)))
    assert list(figure.data[0].x) == [3.0] and np.allclose(figure.data[0].y, np.exp(5.0)) and len(figure.data[1].x) == 3


def test_the_measured_stretch_is_that_of_the_first_exponent():
    measured = known.lyapunov(exponents=np.array([[0.5, -0.5]]), horizon=3.0)
    figure = charts.flow_stretch(flow([1.0, 1.0, 2.0], [0.5, 0.5, 0.5], np.exp(4.0), np.exp(-1.5)), measured)
    assert np.allclose(figure.data[2].y, np.exp(1.5)) and list(figure.data[2].x) == [3.0]
