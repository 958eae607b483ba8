"""Charts of the decision: frames hold the report's numbers at their times, verdicts are told by word, weight and symbol."""

import numpy as np
import pytest
import token_figure_reports as known

from app.charts import decision_shares, look, margin_over_time, prediction_over_time, token_maps

PIXELS = np.arange(64, dtype=np.uint8).reshape(1, 8, 8)


def story(lens=None, attention=None, **options):
    return prediction_over_time(lens or known.lens(), attention or known.attention(), PIXELS, names="abc", **options)


def bars(figure, frame):
    """Probability by name of class, as the bars of a frame show it."""
    (bar,) = (trace for trace in figure.frames[frame].data if trace.type == "bar")
    return dict(zip(bar.customdata, bar.x))


def named(figure):
    return {trace.name: trace for trace in figure.data if trace.name}


def test_every_frame_holds_the_numbers_of_its_time():
    lens, attention = known.lens(), known.attention()
    figure = story(lens, attention)
    assert [frame.name for frame in figure.frames] == ["0", "1", "2"]
    for k, frame in enumerate(figure.frames):
        assert np.allclose(frame.data[0].z, attention.cls_maps[k, 0].mean(0))
        chance = np.exp(lens.logits[k, 0]) / np.exp(lens.logits[k, 0]).sum()
        assert np.allclose([bars(figure, k)[name] for name in ("a", "b", "<b>c</b>")], chance)
        cursor, dots = frame.data[-2:]
        assert set(cursor.x) == {k} and set(dots.x) == {k} and np.allclose(sorted(dots.y), sorted(chance))


def test_the_slider_starts_where_asked():
    for at, expected in ((None, 2), (0.9, 1), (-5.0, 0)):
        figure = story(at=at)
        assert figure.layout.sliders[0].active == expected
        assert np.array_equal(figure.data[-6].z, figure.frames[expected].data[0].z)


def test_what_is_predicted_now_is_told_apart_from_the_end():
    figure = story()
    said = [[text for text in frame.data[3].text if "now" in text] for frame in figure.frames]
    assert [len(texts) for texts in said] == [1, 1, 1] and said[0][0].startswith("a") and said[2][0].startswith("<b>c</b>")
    sizes = [frame.data[-1].marker.size for frame in figure.frames]
    assert all(sorted(s)[-1] > sorted(s)[-2] for s in sizes)


@pytest.mark.parametrize(
    "label, names",
    [(2, {"<b>c</b> (true)", "a", "b"}), (0, {"<b>c</b> ✗ wrong", "a (true)", "b"}), (None, {"<b>c</b>", "a", "b"})],
)
def test_right_wrong_and_unknown_are_words(label, names):
    assert set(bars(story(label=label), 0)) == names


def test_a_class_keeps_its_colour_and_symbol_on_bar_and_curve():
    figure = story()
    frame = figure.frames[1].data
    assert list(frame[2].marker.symbol) == list(frame[-1].marker.symbol) == [look.class_symbol(c) for c in (2, 0, 1)]
    assert list(frame[1].marker.color) == [look.class_colour(c) for c in (2, 0, 1)]
    assert named(figure)["<b>c</b>"].line.color == look.class_colour(2)


def test_decision_and_doubtful_steps_are_drawn():
    first = named(story())
    assert list(first["decided, t* = 1"].x) == [1, 1]
    doubt = first["a flip could hide in this step"]
    assert np.array_equal(doubt.x[:2], [0, 1]) and np.isnan(doubt.x[2]) and len(doubt.x) == 3
    assert "a flip could hide in this step" not in named(story(image=1))


def test_of_many_classes_the_true_one_is_never_left_out():
    logits = np.zeros((3, 2, 40))
    logits[..., :8] = np.arange(1, 9)
    figure = story(known.lens(logits=logits, prediction=logits.argmax(-1)), label=39)
    assert set(bars(figure, 0)) == {"<b>class 7</b> ✗ wrong", "c", *(f"class {c}" for c in range(3, 7)), "class 39 (true)"}
    grey = named(figure)["33 other classes"]
    assert len(grey.x) == 33 * 4 and np.isnan(grey.y[3::4]).all()


def test_a_discrete_net_has_no_map_after_its_last_layer():
    attention = known.attention(times=2)
    figure = story(attention=attention)
    assert np.isnan(figure.frames[2].data[0].z).all() and np.isfinite(figure.frames[1].data[0].z).all()
    assert figure.layout.sliders[0].active == 1


def test_the_picture_lies_on_the_patches():
    trace = token_maps.under(np.zeros((3, 32, 16), np.uint8), (4, 2))
    corners = [trace.x0 - trace.dx / 2, trace.x0 + 15.5 * trace.dx, trace.y0 - trace.dy / 2, trace.y0 + 31.5 * trace.dy]
    assert np.allclose(corners, [-0.5, 1.5, -0.5, 3.5])


def test_many_times_are_thinned_and_this_is_said():
    steps = 500
    lens = known.lens(
        time=np.linspace(0, 2, steps), logits=np.zeros((steps, 2, 3)), prediction=np.zeros((steps, 2), int),
        resolved=np.ones((steps - 1, 2), bool),
    )  # fmt: skip
    figure = story(lens, known.attention(times=steps))
    assert len(figure.frames) == token_maps.FRAMES == 48
    assert figure.frames[0].name == "0" and figure.frames[-1].name == "2"
    assert "48 of the 500 saved times" in token_maps.frames_note(steps) and token_maps.frames_note(48) == ""


def test_margins_of_the_chosen_image_and_the_others():
    margin = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    drawn = named(margin_over_time(known.lens(margin=margin), 0, [2, 0]))
    assert np.array_equal(drawn["this image"].y, [0, 2, 4]) and drawn["this image"].marker.symbol == "circle"
    assert np.array_equal(drawn["other images, wrong in the end (1)"].y[:3], [1, 3, 5])
    wrong = named(margin_over_time(known.lens(margin=margin), 1, [2, 0]))
    assert wrong["this image (wrong)"].marker.symbol == "x" and "other images (1)" in wrong


def test_shares_of_decided_images():
    drawn = named(decision_shares(known.lens(), 0, [2, 0]))
    assert list(drawn["decided"].y) == [0.5, 1, 1] and list(drawn["decided, no flip can hide"].y) == [0.5, 0.5, 0.5]
    assert list(drawn["accuracy of the readout"].y) == [0, 0.5, 0.5] and list(drawn["this image, t* = 1"].x) == [1, 1]
    assert "accuracy of the readout" not in named(decision_shares(known.lens()))
