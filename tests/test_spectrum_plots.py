"""Figures of the Jacobian draw the numbers of the report: imaginary parts kept, gaps left, the region scaled by 1/h."""

import figure_reports as known
import numpy as np
import pytest

from analysis.figures import jacobian_eigenvalues, norms_over_time, numerical_range
from analysis.figures.outputs import remark
from analysis.reports import FlowBoundReport
from odevit.errors import UserError


def points(figure, label: str) -> np.ndarray:
    """The points of the line with this label, as complex numbers."""
    (line,) = [line for line in figure.axes[0].get_lines() if line.get_label() == label]
    x, y = line.get_xydata().T
    return x + 1j * y


def test_eigenvalues_of_a_rotation_keep_their_imaginary_parts():
    figure = jacobian_eigenvalues([known.eigenvalues([-0.1 + 2j, -0.1 - 2j], t) for t in (1.0, 0.0)])
    for t in ("0", "1"):
        assert points(figure, f"$t = {t}$").tolist() == [-0.1 + 2j, -0.1 - 2j]
    assert figure.axes[0].get_aspect() == 1.0


def test_the_certificate_holds_all_times_and_its_padding_is_no_gap():
    figure = jacobian_eigenvalues(known.certificate())
    assert points(figure, "$t = 1$").tolist() == [1 + 1j, 1 - 1j, 1 + 2j] and remark(figure) == ""


def test_a_value_that_is_not_finite_is_a_gap_and_said():
    figure = jacobian_eigenvalues(known.eigenvalues([1 + 1j, np.nan]))
    assert remark(figure) == "eigenvalues: 1 of 2 not finite, left out"


@pytest.mark.parametrize("h", [0.5, 2.0])
def test_the_region_of_euler_is_the_disc_around_minus_1_over_h(h):
    figure = jacobian_eigenvalues(known.eigenvalues([-1.0 / h]), known.euler_region(), h)
    edges = [path.vertices for c in figure.axes[0].collections for path in c.get_paths()]
    z = np.concatenate(edges) @ [1, 1j]
    on_edge = np.abs(z * h + 1)[np.abs(np.abs(z * h + 1) - 1) < 0.3]
    assert len(on_edge) > 20 and np.allclose(on_edge, 1, atol=0.02)


def test_the_step_size_comes_from_the_certificate():
    figure = jacobian_eigenvalues(known.certificate(), known.euler_region())
    assert "$h = 1$" in str(figure.axes[0].get_legend_handles_labels()[1])


def test_a_far_eigenvalue_leaves_the_axes_and_this_is_said():
    values = [1j, -1j, 2.0, -1.0, 1000.0]
    figure = jacobian_eigenvalues(known.eigenvalues(values), known.euler_region(), 1.0)
    assert figure.axes[0].get_xlim()[1] < 10
    assert remark(figure) == "1 of 5 eigenvalues beyond the axes, modulus up to 1e+03"
    assert points(figure, "$t = 0$").tolist() == values


def test_singular_values_have_no_place_in_the_complex_plane():
    report = known.eigenvalues([1.0], eigenvalues=None, singular_values=np.array([1.0]))
    with pytest.raises(UserError, match="holds singular values"):
        jacobian_eigenvalues(report)


def test_a_step_that_is_not_positive():
    with pytest.raises(UserError, match="h: 0 must be a positive step size"):
        jacobian_eigenvalues(known.eigenvalues([1.0]), known.euler_region(), 0)


def test_the_numerical_range_lies_between_its_polygons():
    report = known.disc(2.0)
    figure = numerical_range(report, known.eigenvalues([0.5, 1j]))
    inner, outer = points(figure, "inner polygon"), points(figure, "outer polygon")
    assert np.array_equal(inner[:-1], report.points) and np.array_equal(outer[:-1], report.outer) and inner[0] == inner[-1]
    assert points(figure, "eigenvalues").tolist() == [0.5, 1j]


def test_norms_are_those_of_the_certificate():
    report = known.certificate()
    flow = FlowBoundReport(
        provenance=known.MODEL, t=np.array([0.0, 2.0]), expansion=np.ones((2, 2)), contraction=np.array([[1.0, 2], [1, 2]]),
        most=np.ones(2), least=np.ones(2), residual=0.0,
    )  # fmt: skip
    figure = norms_over_time(report, flow)
    assert points(figure, r"$\|J\|$ (spectral norm)").imag.tolist() == np.median(report.jacobian_norm, 1).tolist()
    assert points(figure, r"$\alpha(J)$ (spectral abscissa)").imag.tolist() == np.median(report.abscissa, 1).tolist()
    assert points(figure, r"$-\mu(-J)$ (contraction)").imag.tolist() == [-1.0, -2.0]
    assert len(figure.axes[0].collections) == 4  # a band over the images for each


def test_norms_of_rates_bring_their_own_contraction():
    figure = norms_over_time([known.rates(t) for t in (1.0, 0.0)])
    assert points(figure, r"$\|J\|$ (spectral norm)").tolist() == [0 + 3j, 1 + 4j]
    assert points(figure, r"$-\mu(-J)$ (contraction)").tolist() == [0 - 2j, 1 - 3j]
