"""Charts of the solver: rows as in the report, the trained one ringed, bounds that leave the axis, paths with an end."""

import figure_reports as known
import numpy as np
import pytest

from analysis.discretization import step_stability
from analysis.reports import AnswersReport, SolverPathsReport
from app import charts


def answers(**changes) -> AnswersReport:
    """Three images of two classes; the second flips."""
    fields = {
        "method": "rk4", "steps": 4, "nfe": 16, "trained_method": "euler", "trained_steps": 4, "trained_nfe": 4,
        "trained_logits": np.array([[1.0, 0], [1, 0], [0, 1]]), "logits": np.array([[1.0, 0], [0, 1], [0, 2]]),
        "labels": np.array([0, 0, 1]), "shift": np.array([0.1, 0.5, 0.2]), "radius": np.array([0.2, 0.4, 0.3]),
        "provenance": known.MODEL,
    }  # fmt: skip
    return AnswersReport(**(fields | changes))


def paths() -> SolverPathsReport:
    """A reference of three states and a solve of two."""
    nan = np.nan
    return SolverPathsReport(
        name=np.array(["rk4, 2 steps (reference)", "euler, 1 step"]), method=np.array(["rk4", "euler"]), steps=np.array([2, 1]),
        nfe=np.array([8, 1]), time=np.array([[0.0, 1, 2], [0, 2, nan]]), share=np.array([0.9, 0.1]), reference_error=1e-6,
        plane=np.array([[[0.0, 0], [1, 0], [2, 1]], [[0, 0], [3, 3], [nan, nan]]]), logits=np.zeros((2, 2)),
        distance=np.array([[0.0, 0, 0], [0, 0.5, nan]]), provenance=known.MODEL,
    )  # fmt: skip


def named(figure) -> dict:
    return {trace.name: trace for trace in figure.data}


def test_accuracy_against_cost_with_the_trained_solver_ringed():
    lines = named(charts.solver_accuracy(known.swap()))
    assert list(lines["euler"].x) == [4, 8] and list(lines["euler"].y) == [0.9, 0.8]
    assert list(lines["as trained"].x) == [4] and list(lines["as trained"].y) == [0.9]
    assert lines["dopri5"].text[0] == "its own steps" and lines["euler"].text[0] == "4 steps"
    low, high = charts.solver_accuracy(known.swap(accuracy=np.full(4, 0.99))).layout.yaxis.range
    assert high - low >= 0.1 and low < 0.99 < high <= 1.02
    looks = [(lines[m].line.color, lines[m].marker.symbol) for m in ("euler", "rk4", "dopri5")]
    assert len(set(looks)) == 3


def test_an_adaptive_trained_solver_is_ringed_at_its_one_row():
    report = known.swap()
    changed = type(report)(**(report.values() | {"trained_method": "dopri5", "trained_steps": 4, "provenance": known.MODEL}))
    ring = named(charts.solver_accuracy(changed))["as trained"]
    assert list(ring.x) == [50]


def test_flips_stay_below_what_the_radius_allows():
    report = known.swap()
    figure = charts.solver_flips(report)
    flips = [t for t in figure.data if t.name != "at most (proven)"]
    most = [t for t in figure.data if t.name == "at most (proven)"]
    assert len(flips) == len(most) == 3 and sum(bool(t.showlegend) for t in most) == 1
    assert all((np.array(f.y) <= np.array(m.y) + 1e-12).all() for f, m in zip(flips, most))


def test_a_flip_needs_a_move_beyond_the_radius():
    kept, flipped, diagonal = charts.solver_margins(answers()).data
    assert kept.name == "prediction kept (2)" and flipped.name == "prediction flipped (1)" and flipped.marker.symbol == "x"
    assert list(flipped.x) == [0.5] and list(flipped.y) == [0.4] and list(diagonal.x) == list(diagonal.y)
    assert diagonal.x[1] >= 0.5


def test_paths_end_with_a_star_and_keep_their_own_times():
    figure = charts.solver_plane(paths())
    reference, end, euler, star = figure.data
    assert list(reference.x) == [0, 1, 2] and list(euler.x) == [0, 3] and list(euler.customdata) == [0, 2]
    assert star.marker.symbol == "star" and list(star.x) == [3] and list(end.y) == [1]
    assert figure.layout.yaxis.scaleanchor == "x" and "90 %" in figure.layout.xaxis.title.text


def test_the_distance_starts_after_0_on_a_logarithmic_axis():
    figure = charts.solver_distance(paths())
    (euler,) = figure.data
    assert np.isnan(euler.y[0]) and euler.y[1] == 0.5 and figure.layout.yaxis.type == "log"


def test_errors_of_first_order_and_bounds_that_leave_the_axis():
    reports = [known.euler(n, classical=np.array([1e30, 1e30]), vacuous=np.array([True, True])) for n in (8, 4, 16)]
    figure = charts.euler_errors(reports)
    lines = named(figure)
    measured = lines["measured"]
    assert list(measured.x) == [4, 8, 16] and measured.y[0] / measured.y[1] == pytest.approx(2)
    classical = lines["classical bound (vacuous)"]
    assert all(symbol.endswith("-open") for symbol in classical.marker.symbol)
    assert 10 ** figure.layout.yaxis.range[1] < 1e10
    first = lines["first order"].y
    assert first[0] / first[1] == pytest.approx(2)


def test_an_error_that_was_not_measured_is_not_drawn():
    report = known.euler(4, true_error=np.zeros((2, 0)))
    assert "measured" not in named(charts.euler_errors([report])) and "measured" not in named(charts.error_along(report))


def test_error_along_starts_after_t_0_where_it_is_zero():
    report = known.euler(4)
    lines = named(charts.error_along(report, image=1))
    assert list(lines["measured"].x) == [0.25, 0.5, 0.75, 1.0]
    np.testing.assert_allclose(lines["measured"].y, report.true_error[1, 1:])


def test_largest_steps_by_method_beside_the_step_taken():
    reports = [step_stability(np.array([-2.0 + 0j]), m, 0.5) for m in ("euler", "rk4")]
    lines = named(charts.step_limits(reports, [0.0]))
    assert lines["h_max, euler"].y[0] == pytest.approx(1.0) and lines["h_max, rk4"].y[0] == pytest.approx(2.785293563 / 2)
    assert list(lines["h = 0.5, as trained"].y) == [0.5, 0.5]


def test_nothing_decays_nothing_limits():
    figure = charts.step_limits([step_stability(np.array([1.0 + 0j]), "euler", 0.5)], [0.0])
    assert np.isnan(figure.data[0].y[0])
