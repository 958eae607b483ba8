"""Figures of the certificate: every word of it, every status by its sign; and g_k against the eigenvalues of softmax."""

import figure_reports as known
import matplotlib
import numpy as np
import pytest

from analysis.figures import certificate_table, jasmin_bounds, style, token_growth
from analysis.figures.verdict_plots import g


@pytest.mark.parametrize("venue", ["neurips", "icml"])
def test_the_table_holds_every_question_and_answer_inside_the_page(venue):
    report = known.certificate(answer=np.array(["Yes.", "a long answer " * 12, "No."]))
    with style.paper(venue):
        figure = certificate_table(report)
    texts = [t for t in figure.axes[0].texts if t.get_text()]
    shown = " ".join(t.get_text().replace("\n", " ") for t in texts)
    assert all(v.question in shown and v.answer.strip() in shown for v in report.verdicts)
    boxes = [t.get_window_extent() for t in texts]
    assert all(box.x1 <= figure.bbox.width and box.y0 >= 0 for box in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[i + 1 :])


def test_every_status_has_its_sign_and_colour():
    figure = certificate_table(known.certificate())
    signs = [(line.get_marker(), line.get_color()) for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 1]
    assert [sign for sign, _ in signs] == ["*", "x", "o"] and len({colour for _, colour in signs}) == 3


def test_growth_and_its_bound():
    lines = {line.get_label(): line.get_ydata().tolist() for line in token_growth(known.certificate()).axes[0].get_lines()}
    assert lines == {"measured": [1, 2, 3], "proven bound": [1, 10, 100]}


def test_g_bounds_the_eigenvalues_of_softmax():
    """p_(k+1) <= lambda_k <= g_k <= p_(k), with equality of g_1 where all other entries are equal."""
    draw = np.random.default_rng(0)
    for n in (2, 3, 7):
        p = -np.sort(-draw.dirichlet(np.ones(n), 50))
        for row in p:
            values = np.sort(np.linalg.eigvalsh(np.diag(row) - np.outer(row, row)))[::-1]
            for k in range(1, n + 1):
                following = row[k] if k < n else 0.0
                assert following - 1e-12 <= values[k - 1] <= g(row, k) + 1e-12 <= row[k - 1] + 2e-12
    equal = np.array([0.4, 0.2, 0.2, 0.2])
    assert g(equal, 1) == pytest.approx(np.linalg.eigvalsh(np.diag(equal) - np.outer(equal, equal)).max())


def test_curves_of_g_start_at_uniform_and_end_at_one_hot():
    ax = jasmin_bounds(8).axes[0]
    lines = {line.get_label(): line.get_xydata() for line in ax.get_lines()}
    assert np.allclose(lines["$g_1$, one key"][[0, -1]], [[1 / 8, 1 / 8], [1, 0]], atol=1e-5)
    assert np.allclose(lines["$g_1$, two keys"][-1], [0.5, 0.5], atol=1e-5)
    assert all(values[:, 1].max() <= 0.5 + 1e-12 for name, values in lines.items() if str(name).startswith("$g"))
    assert isinstance(ax, matplotlib.axes.Axes)
