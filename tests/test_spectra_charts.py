"""Charts of the Jacobian: conjugate pairs stay pairs, the region is scaled by 1/h, what a step does to a mode is marked."""

import figure_reports as known
import numpy as np
import pytest

from analysis.discretization import step_stability
from app import charts
from app.charts import look
from app.charts.spectra_charts import KINDS, RATES

DECAYS, GROWS, SPOILT = KINDS
MODES = [-0.1 + 2j, -0.1 - 2j, -1.0, 0.5]  # theory: Euler turns the pair into growth at h = 0.1, and keeps it at 0.04


def plane(h: float = 0.1, **options):
    spectra = [known.eigenvalues(MODES, t) for t in (0.0, 1.0)]
    steps = [step_stability(charts.values_of(r), "euler", h) for r in spectra]
    rates = [known.rates(t) for t in (0.0, 1.0)]
    return charts.eigenvalue_plane(spectra, rates, steps, known.euler_region(), h=h, **options)


def points(figure, name: str) -> list[complex]:
    (trace,) = [trace for trace in figure.data if trace.name == name]
    return (np.asarray(trace.x) + 1j * np.asarray(trace.y)).tolist()


def test_a_pair_that_euler_spoils_is_told_from_decay_and_growth():
    figure = plane(0.1)
    assert points(figure, SPOILT) == [-0.1 + 2j, -0.1 - 2j]
    assert points(figure, DECAYS) == [-1] and points(figure, GROWS) == [0.5]
    assert len({symbol for _, symbol in KINDS.values()}) == len(KINDS)


def test_at_a_smaller_step_the_same_pair_decays():
    figure = plane(0.04)
    assert points(figure, DECAYS) == [-0.1 + 2j, -0.1 - 2j, -1] and points(figure, SPOILT) == []


@pytest.mark.parametrize("h", [0.5, 2.0])
def test_the_region_of_euler_has_its_edge_on_the_circle_around_minus_1_over_h(h):
    region = plane(h).data[0]
    z = np.asarray(region.x)[None, :] + 1j * np.asarray(region.y)[:, None]
    inside, modulus = np.asarray(region.z) < 1, np.abs(1 + h * z)
    assert inside.any() and np.array_equal(inside, modulus.astype(np.float32) < 1)
    assert region.contours.value == 1.0 and region.contours.operation == ">=" and f"h = {h:g}" in region.name


def test_the_plane_has_one_scale_and_its_imaginary_axis():
    figure = plane()
    assert figure.layout.yaxis.scaleanchor == "x" and figure.layout.yaxis.scaleratio == 1
    assert [s for s in figure.layout.shapes if s.x0 == s.x1 == 0 and s.xref == "x"]
    assert figure.layout.xaxis.title.text == "Re λ (1/t)" and figure.layout.yaxis.title.text == "Im λ (1/t)"
    assert figure.layout.xaxis2.title.text == look.TIME


def test_rates_carry_their_residuals():
    figure = plane()
    for i, (field, name) in enumerate(RATES.items()):
        (trace,) = [trace for trace in figure.data if trace.name == name]
        assert list(trace.y) == [getattr(known.rates(t), field)[0] for t in (0.0, 1.0)]
        assert np.allclose(trace.customdata, (i + 1) * 1e-5)


def test_each_frame_moves_eigenvalues_and_the_line_of_the_time():
    spectra = [known.eigenvalues([t - 1.0, 1j * (t + 1), -1j * (t + 1)], t) for t in (0.0, 1.0, 2.0)]
    figure = charts.eigenvalue_plane(spectra, [known.rates(r.t) for r in spectra], at=0.9)
    assert [frame.name for frame in figure.frames] == ["0", "1", "2"] and figure.layout.sliders[0].active == 1
    for frame, spectrum in zip(figure.frames, spectra):
        drawn = np.concatenate([np.asarray(t.x) + 1j * np.asarray(t.y) for t in frame.data if t.name in KINDS])
        assert set(drawn) == set(spectrum.eigenvalues)
        assert list(frame.data[-1].x) == [spectrum.t] * 2
    assert points(figure, GROWS) == [0, 2j, -2j] and points(figure, SPOILT) == []


def test_the_numerical_range_moves_with_the_slider():
    spectra = [known.eigenvalues([0.5, 1j], t) for t in (0.0, 1.0)]
    ranges = [known.disc(1.0), known.disc(2.0)]
    figure = charts.eigenvalue_plane(spectra, [known.rates(r.t) for r in spectra], (), None, ranges, at=0.0)
    for frame, report in zip(figure.frames, ranges):
        inner, outer = (np.asarray(t.x) + 1j * np.asarray(t.y) for t in frame.data[:2])
        assert np.allclose(inner[:-1], report.points) and np.allclose(outer[:-1], report.outer) and inner[0] == inner[-1]
    assert figure.layout.xaxis.range[0] < -2 and figure.layout.xaxis.range[1] > 2


def test_padding_and_broken_values_are_left_out():
    report = known.eigenvalues([[1 + 1j, np.nan, 2.0]], residuals=np.array([[1e-9, np.nan, 1e-7]]))
    assert charts.values_of(report).tolist() == [1 + 1j, 2]
    assert list(charts.convergence([report]).data[0].y) == [1e-9, 1e-7]


def test_a_normal_jacobian_is_at_distance_zero():
    rates = known.rates(logarithmic_norm=np.array([-0.1]), abscissa=np.array([-0.1]), norm=np.array([abs(-0.1 + 2j)]))
    figure = charts.departure([known.eigenvalues([-0.1 + 2j, -0.1 - 2j])], [rates])
    assert [list(trace.y) for trace in figure.data] == [[0.0], [0.0]]
    apart = charts.departure([known.eigenvalues([0.5])], [known.rates(1.0)])
    assert [list(trace.y) for trace in apart.data] == [[1.0], [3.5]]


def test_what_did_not_converge_is_hollow():
    report = known.eigenvalues([2.0, 1.0], residuals=np.array([1e-7, 1e-3]), dense=False, tolerance=1e-6)
    figure = charts.convergence([report])
    assert [symbol.endswith("-open") for symbol in figure.data[0].marker.symbol] == [False, True]
    assert figure.layout.yaxis.type == "log" and list(figure.data[1].y) == [2e-6, 2e-6]
