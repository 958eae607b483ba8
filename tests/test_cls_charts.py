"""Charts of CLS by class and of the field on its plane: colours, wrong ones by shape, arrows point where the field does."""

import numpy as np
import pytest
import token_figure_reports as known

from app.charts import look
from app.charts.cls_charts import HEAD, arrow_lines, cls_by_class, vector_field
from odevit.errors import UserError


def ends_of(figure):
    """The markers at T by their name in the legend."""
    return {t.name: t for t in figure.data if t.mode == "markers" and t.name != "t = 0"}


def test_colour_is_the_label_and_a_wrong_prediction_has_another_shape():
    report = known.paths()
    ends = ends_of(cls_by_class(report, known.lens(), [2, 0], "abc"))  # predicted: c, b
    assert set(ends) == {"c", "a, wrong"}
    right, wrong = ends["c"].marker, ends["a, wrong"].marker
    assert (right.color, right.symbol) == (look.class_colour(2), look.class_symbol(2))
    assert (wrong.color, wrong.symbol) == (look.class_colour(0), look.class_symbol(0) + "-open-dot")
    assert ends["a, wrong"].text == ("image 1: a, predicted b",)
    assert np.allclose([ends["a, wrong"].x[0], ends["a, wrong"].y[0]], report.coordinates[-1, 1, 0, :2])


@pytest.mark.parametrize("labels", [None, [-1, -1]])
def test_unknown_labels_leave_the_prediction(labels):
    assert set(ends_of(cls_by_class(known.paths(), known.lens(), labels, "abc"))) == {"c", "b"}


def test_the_chosen_image_is_bold_and_all_paths_are_drawn():
    report = known.paths()
    figure = cls_by_class(report, known.lens())
    (bold,) = [t for t in figure.data if t.line.width == 4]
    assert np.allclose(np.stack([bold.x, bold.y], -1), report.coordinates[:, 0, 0, :2])
    thin = [t for t in figure.data if t.line.width == 1.3]
    assert sum(np.isfinite(t.x).sum() for t in thin) == 2 * 3
    assert figure.layout.yaxis.scaleanchor == "x" and "40% of variance" in figure.layout.xaxis.title.text


def test_too_few_predictions_are_refused():
    short = known.lens(prediction=known.lens().prediction[:, :1])
    with pytest.raises(UserError, match="lens: 1 images, the paths have 2"):
        cls_by_class(known.paths(), short)


def test_arrows_point_along_the_field_and_heads_point_back():
    tails, vectors = np.array([[0.0, 0.0], [5.0, 1.0]]), np.array([[1.0, 0.0], [0.0, 2.0]])
    lines = arrow_lines(tails, vectors, np.array([1.0, 2.0])).reshape(2, 7, 2)
    assert np.array_equal(lines[:, 1] - lines[:, 0], vectors) and np.isnan(lines[:, [2, 6]]).all()
    for barb in (lines[:, 3], lines[:, 5]):
        back = (barb - lines[:, 1]) / [1.0, 2.0]  # where a cell is a square
        assert np.allclose(np.linalg.norm(back, axis=1), HEAD) and ((back * vectors / [1.0, 2.0]).sum(1) < 0).all()


def test_the_longest_arrow_fits_its_cell_and_frames_hold_the_rest_at_their_times():
    planes = [known.plane(held_at=0.0), known.plane(held_at=2.0, arrows=3 * known.numbers(2, 3, 2, seed=1))]
    figure = vector_field(planes, at=0.2)
    assert [frame.name for frame in figure.frames] == ["0", "2"] and figure.layout.sliders[0].active == 0
    shafts = [np.stack([f.data[0].x, f.data[0].y], -1).reshape(-1, 7, 2) for f in figure.frames]
    longest = [np.abs(s[:, 1] - s[:, 0]).max() for s in shafts]  # cells are 1 x 1
    assert 0.9 < longest[1] <= 1 and longest[0] == pytest.approx(longest[1] / 3, rel=1e-5)
    for frame, plane in zip(figure.frames, planes):
        assert np.allclose(frame.data[1].marker.color, plane.off_plane.ravel())
        held = plane.path[int(plane.held_at)]
        assert (frame.data[2].x[0], frame.data[2].y[0]) == tuple(held)
    assert np.array_equal(figure.data[0].x, planes[0].path[:, 0])
