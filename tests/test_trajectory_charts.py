"""Charts of paths: lines are the coordinates, frames move a marker along them, a thousand images stay within the budget."""

import numpy as np
import pytest
import token_figure_reports as known

from analysis.reports import TokenPathReport
from app.charts import look
from app.charts.trajectory_charts import (
    POINTS,
    WAYS,
    chosen_paths,
    left_out,
    patch_colours,
    token_names,
    token_plane,
    token_space,
)
from odevit.errors import UserError


def many(times=7, images=1000, tokens=65, registers=4, grid=(6, 10)) -> TokenPathReport:
    """A report as large as the largest that somebody asks for; only what the charts read has its size."""
    shape = (times, images, tokens)
    states = np.random.default_rng(0).standard_normal((*shape, 3))
    return known.paths(
        time=np.arange(float(times)), coordinates=states, norm=np.ones(shape), registers=registers, patch_grid=grid,
    )  # fmt: skip


def points_of(figure) -> int:
    """Points that travel: those of the traces, and those of the frames."""
    drawn = [trace for trace in (*figure.data, *(t for f in figure.frames for t in f.data)) if trace.type != "heatmap"]
    return sum(len(trace.x) for trace in drawn if trace.x is not None)


def paths_in(figure, dimensions=2):
    """The polygons of all lines, as lists of points, in the order drawn."""
    found = []
    for trace in figure.data:
        if trace.type != "heatmap" and "lines" in trace.mode:
            points = np.stack([getattr(trace, axis) for axis in "xyz"[:dimensions]], -1)
            gaps = np.flatnonzero(np.isnan(points[:, 0]))
            found += [part[~np.isnan(part[:, 0])] for part in np.split(points, gaps + 1) if len(part) > 1]
    return found


@pytest.mark.parametrize("by", WAYS)
@pytest.mark.parametrize("draw, k", [(token_plane, 2), (token_space, 3)])
def test_every_path_is_drawn_once_whatever_the_colour_tells(draw, k, by):
    report = known.paths()
    drawn = paths_in(draw(report, [2, 1], by=by), k)
    wanted = report.coordinates[..., :k].transpose(1, 2, 0, 3).reshape(-1, 3, k).astype(np.float32)
    assert len(drawn) == len(wanted)
    assert all(any(np.array_equal(path, line) for line in drawn) for path in wanted)


def test_frames_move_one_marker_for_each_token_along_its_path():
    report = known.paths()
    figure = token_plane(report, at=1.1)
    assert [frame.name for frame in figure.frames] == ["0", "1", "2"] and figure.layout.sliders[0].active == 1
    for k, frame in enumerate(figure.frames):
        points = np.concatenate([np.stack([t.x, t.y], -1) for t in frame.data])
        wanted = report.coordinates[k, ..., :2].astype(np.float32).reshape(-1, 2)
        assert sorted(map(tuple, points)) == sorted(map(tuple, wanted))
    for index, moved in zip(figure.frames[1].traces, figure.frames[1].data):
        assert np.array_equal(figure.data[index].x, moved.x)  # what is seen first is the frame of the time asked for
        assert figure.data[index].type == moved.type


def test_axes_have_one_scale_and_say_what_they_explain():
    figure = token_plane(known.paths())
    assert figure.layout.xaxis.title.text == "PC 1 (state, 40% of variance)" and figure.layout.yaxis.scaleanchor == "x"
    scene = token_space(known.paths()).layout.scene
    assert scene.zaxis.title.text == "PC 3, 20%" and scene.aspectmode == "data"


def test_colours_tell_patch_class_and_time():
    report = known.paths()
    key = token_plane(report).data[0]
    assert key.type == "heatmap" and key.z.tolist() == [[0, 1], [2, 3]]
    drawn = [t for t in token_plane(report).data if t.type != "heatmap" and t.hovertemplate]
    lines = {t.hovertemplate.split("<br>")[0]: t.line.color for t in drawn}
    assert [lines[f"patch ({r}, {c})"] for r in (0, 1) for c in (0, 1)] == patch_colours(4)
    assert len({*lines.values()}) == 6  # CLS, four patches, register
    classes = token_plane(report, [2, 1], "abc", by="class")
    colours = {t.name: t.line.color for t in classes.data if t.showlegend}
    assert colours == {"b": look.class_colour(1), "c": look.class_colour(2)}
    shaded = [t for t in token_space(report, by="time").data if t.mode == "lines"]
    assert all(set(np.asarray(t.line.color)[:3]) == {0.0, 1.0, 2.0} for t in shaded)


def test_names_and_hover_say_which_token():
    assert token_names(known.paths()) == ["CLS", *(f"patch ({r}, {c})" for r in (0, 1) for c in (0, 1)), "register 0"]
    assert token_names(known.paths(patch_grid=()))[5] == "token 5"


@pytest.mark.parametrize("draw", [token_plane, token_space])
def test_a_thousand_images_of_65_tokens_stay_below_the_budget(draw):
    report = many()
    figure = draw(report)
    assert look.size(figure) < look.MAX_BYTES / 2 and points_of(figure) <= 2.5 * POINTS
    images, tokens = chosen_paths(report)
    assert set(tokens) >= {0, 61, 62, 63, 64} and len(images) * len(tokens) * 7 <= POINTS
    assert left_out(report).startswith(f"Drawn: {len(images)} of 1000 images and {len(tokens)} of 65 tokens")


def test_what_fits_is_drawn_in_full_and_patches_go_before_images():
    assert left_out(known.paths()) == ""
    images, tokens = chosen_paths(many(images=200))
    assert len(images) == 200 and len(tokens) < 65


def test_without_registers_or_without_a_layout():
    bare = known.paths(registers=0, patch_grid=(1, 5))
    assert len(paths_in(token_plane(bare))) == 12
    assert len(paths_in(token_plane(known.paths(patch_grid=()), by="time"))) == 12


@pytest.mark.parametrize("by, classes, said", [("colour", None, "by: 'colour' is unknown"), ("class", None, "needs the class")])
def test_what_cannot_be_drawn_is_said(by, classes, said):
    with pytest.raises(UserError, match=said):
        token_plane(known.paths(), classes, by=by)


def test_three_dimensions_need_three_axes():
    with pytest.raises(UserError, match="2 principal axes; three dimensions need 3"):
        token_space(known.paths(coordinates=known.numbers(3, 2, 6, 2)))
