"""Charts of stability: what is drawn is in the report, what has not converged is hollow, what is vacuous lies in the band."""

import figure_reports as known
import numpy as np
import pytest

from analysis.reports import PerturbationReport, StretchReport
from app import charts
from app.charts import look

TIME = np.array([0.0, 1.0, 2.0])


def perturbation(registers: int = 1, **changes) -> PerturbationReport:
    """CLS, 2 x 2 patches and registers; CLS and registers start together, token i is i t away at t."""
    tokens = np.outer(TIME, np.arange(5.0 + registers))
    tokens[0, 1:5] = 0.5
    fields = {
        "method": "euler", "steps": 2, "time": TIME, "registers": registers, "patch_grid": (2, 2), "token_distance": tokens,
        "distance": np.linalg.norm(tokens, axis=1), "distance_cls": tokens[:, 0] + TIME,
        "distance_patches": np.linalg.norm(tokens[:, 1:5], axis=1),
        "distance_registers": np.linalg.norm(tokens[:, 5:], axis=1) if registers else np.zeros(0),
        "reach": np.full(3, 20.0), "pixels": 1.0, "logits_before": np.array([1.0, 0.0]), "logits_after": np.array([0.0, 1.0]),
        "shift": 2.0, "radius": 1.0, "lipschitz": np.array([99.0, 99.0]), "proven": np.array([1.0, 100.0, 1e4]),
        "provenance": known.MODEL,
    }  # fmt: skip
    return PerturbationReport(**(fields | changes))


def stretch() -> StretchReport:
    return StretchReport(
        step=np.arange(2), time=np.array([[0.0, 1.0], [1.0, 2.0]]), along=np.array([2.0, 3.0]), between=np.array([2.5, 3.5]),
        largest=np.array([3.0, 4.0]), rate=np.log([2.0, 2.0]), residual=0.0, quadrature=0.0, provenance=known.MODEL,
    )  # fmt: skip


def named(figure) -> dict:
    return {trace.name: trace for trace in figure.data}


def test_finite_time_and_qr_exponents_are_told_apart():
    finite = known.lyapunov(exponents=np.array([[0.6, -0.5]]), converged=np.array([[True, False]]))
    svd, qr = charts.exponent_spectrum(finite, known.lyapunov()).data
    assert "σ" in svd.name and "finite-time" in svd.name and "|R" in qr.name
    assert list(svd.y) == [0.6, -0.5] and list(svd.x) == [1, 2] and list(svd.marker.symbol) == ["circle", "circle-open"]
    np.testing.assert_allclose(qr.y, [0.7, -0.7])
    assert "not converged" in svd.customdata[1] and not svd.customdata[0]


def test_convergence_names_the_values_at_the_end():
    figure = charts.exponent_convergence(known.lyapunov())
    lines = named(figure)
    np.testing.assert_allclose(lines["λ1 = 0.7"].y, [1.5, 1.0, 1 / 3 + 0.5, 0.75, 0.7])
    assert set(lines) == {"λ1 = 0.7", "λ2 = -0.7"} and "averaging time" in figure.layout.xaxis.title.text


def test_only_the_first_exponents_have_names():
    report = known.lyapunov(history=np.ones((1, 5, 9)))
    figure = charts.exponent_convergence(report)
    assert sum(trace.showlegend for trace in figure.data) == 4 and len(figure.data) == 9


def test_wrong_images_are_crosses_in_the_colour_of_their_class():
    figure = charts.exponents_by_class(known.exponents(), ["a", "b", "c"])
    right, wrong, mean = figure.data
    assert (right.name, wrong.name) == ("right (4)", "wrong (2)") and wrong.marker.symbol == "x" != right.marker.symbol
    assert list(wrong.y) == [0.5, 0.6] and set(wrong.marker.color) == {look.class_colour(2)}
    assert (np.abs(np.array(right.x) - [0, 1, 2, 0]) <= 0.25).all() and "b, confidence" in wrong.customdata[0]
    assert list(mean.y) == [0.25, 0.2, 0.4667] and list(figure.layout.xaxis.ticktext) == ["a", "b", "c"]


def test_without_labels_classes_are_predicted_and_nothing_is_right():
    figure = charts.exponents_by_class(known.exponents(labels=np.full(6, -1), correct=np.zeros(6, bool)), ["a", "b", "c"])
    assert figure.data[0].name == "images (6)" and figure.layout.xaxis.title.text == "predicted class"


def test_shares_of_right_and_wrong_end_at_one():
    right, wrong = charts.exponents_right_wrong(known.exponents()).data
    assert right.y[-1] == wrong.y[-1] == 1 and right.y[0] == 0 and list(wrong.x) == [0.5, 0.5, 0.6]
    (only,) = charts.exponents_right_wrong(known.exponents(correct=np.ones(6, bool))).data
    assert only.name == "right (6)"


def test_the_difference_of_two_pictures_is_signed_around_zero():
    before = np.full((3, 4, 4), 100, np.uint8)
    after = before.copy()
    after[:, 0, 0] = 130
    first, second, change = charts.perturbed_picture(before, after, (2, 2)).data
    assert first.source != second.source and change.z[0][0] == 30 and np.sum(change.z) == 30
    assert (change.zmin, change.zmax) == (-30, 30) and change.colorscale is not None
    assert (change.x0, change.dx) == (-0.25, 0.5)  # a patch has two pixels


def test_distances_and_bounds_over_time():
    report = perturbation()
    lines = named(charts.separation(report, stretch()))
    np.testing.assert_allclose(lines["all tokens"].y, report.distance)
    assert np.isnan(lines["CLS"].y[0]) and lines["CLS"].y[2] == 2 and np.isnan(lines["registers"].y[0])
    start = report.distance[0]
    np.testing.assert_allclose(lines["≤ along one (1st order)"].y, [start, 2 * start, 6 * start])
    np.testing.assert_allclose(lines["≤ between them"].y, [start, 2.5 * start, 8.75 * start])
    np.testing.assert_allclose(lines["≤ ∫μ dt (1st order)"].y, [start, 2 * start, 4 * start])
    assert list(lines["≤ proven"].marker.symbol) == ["circle", "circle-open", "circle-open"]


def test_the_axis_keeps_the_distances_in_sight_and_lets_the_proven_bound_go():
    low, high = charts.separation(perturbation(), stretch()).layout.yaxis.range
    assert 10**low == pytest.approx(1 / 3) and 20 < 10**high < 1e4


def test_without_registers_and_proven_bound_nothing_is_drawn_of_them():
    report = perturbation(registers=0, lipschitz=np.zeros(0), proven=np.zeros(0))
    lines = named(charts.separation(report))
    assert "registers" not in lines and not [name for name in lines if name and name.startswith("≤")]
    assert charts.bounds_of(report, None) == {}
    frames = charts.token_separation(report).frames
    assert list(frames[-1].data[1].y) == ["CLS"]


def test_tokens_move_on_the_grid_with_cls_and_registers_beside_it():
    figure = charts.token_separation(perturbation(), at=1.0)
    assert [frame.name for frame in figure.frames] == ["0", "1", "2"]
    np.testing.assert_allclose(figure.data[0].z, [[1, 2], [3, 4]])
    assert list(figure.data[1].y) == ["CLS", "reg 0"] and [row[0] for row in figure.frames[2].data[1].z] == [0, 10]
    assert figure.layout.coloraxis.cmax == 10


def test_the_same_picture_twice_is_no_error():
    zero = np.zeros(3)
    report = perturbation(distance=zero, distance_cls=zero, distance_patches=zero, distance_registers=zero, proven=zero)
    assert np.isfinite(charts.separation(report, stretch()).layout.yaxis.range).all()


def test_two_answers_show_both_predictions():
    figure = charts.two_answers(np.log([3, 1]), np.log([1, 3]), "ab", ("image", "perturbed"), label=0)
    before, after, mark = figure.data
    np.testing.assert_allclose([*before.y, *after.y], [0.75, 0.25, 0.25, 0.75])
    assert list(before.x) == ["<b>a</b>", "<b>b</b>"] and mark.name == "perturbed: wrong" and mark.marker.symbol == "x"
    assert charts.two_answers(np.log([3, 1]), np.log([3, 1]), "ab", ("x", "y")).data[2].marker.symbol == "diamond"


def test_of_many_classes_the_likeliest_are_drawn():
    logits = np.arange(100.0)
    figure = charts.two_answers(logits, logits, [str(i) for i in range(100)], ("x", "y"), 99)
    assert list(figure.data[0].x) == [*map(str, range(90, 99)), "<b>99</b>"]
    assert "10 likeliest of 100" in figure.layout.xaxis.title.text
