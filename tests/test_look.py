"""The look of charts: frames that carry the slider's start, words in the page's colour, nothing added that was not drawn."""

import numpy as np
import plotly.graph_objects as go
import pytest

from app.charts import look


def test_words_take_the_colour_of_the_page_and_no_colour_bar_appears():
    bar = {"color": [1.0, 2.0], "showscale": True, "colorbar": {"title": {"text": "v"}}}
    bare = go.Heatmap(z=[[1.0]], showscale=False)
    figure = go.Figure([go.Scatter(x=[1], y=[2]), go.Scatter(x=[1, 2], y=[2, 3], marker=bar), bare])
    figure.add_annotation(text="plain")
    figure.add_annotation(text="own", font_color="red")
    look.inked(figure, dark=True)
    plain, coloured, heat = figure.data
    assert not plain.marker.colorbar.to_plotly_json() and not heat.colorbar.to_plotly_json()
    assert coloured.marker.colorbar.tickfont.color == look.INK[True]
    assert [note.font.color for note in figure.layout.annotations] == [look.INK[True], "red"]
    assert figure.layout.xaxis.tickfont.color == figure.layout.yaxis.title.font.color == look.INK[True]


def test_a_plot_in_space_gets_no_axes_of_the_plane():
    figure = look.inked(go.Figure(go.Scatter3d(x=[1], y=[2], z=[3])), dark=False)
    assert not figure.layout.xaxis.to_plotly_json()
    assert figure.layout.scene.zaxis.tickfont.color == look.INK[False]


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


@pytest.mark.parametrize(("dark", "page"), [(False, "#FFFFFF"), (True, "#1A1C24")])
def test_words_have_contrast(dark, page):
    light, deep = sorted((luminance(look.INK[dark]), luminance(page)), reverse=True)
    assert (light + 0.05) / (deep + 0.05) >= 4.5


@pytest.mark.parametrize(("at", "start"), [(None, 2), (0.0, 0), (0.6, 1), (99.0, 2)])
def test_a_slider_starts_at_the_time_asked_for_with_the_data_of_that_time(at, start):
    figure = go.Figure([go.Scatter(x=[0], y=[0]), go.Scatter(x=[9], y=[9])])
    look.lay_out(figure, look.TIME, "y")
    look.framed(figure, [0.0, 0.5, 1.0], [[{"type": "scatter", "x": [k], "y": [k]}] for k in range(3)], at=at)
    assert figure.layout.sliders[0].active == start
    assert list(figure.data[0].x) == [0] and list(figure.data[1].x) == [start]
    assert [frame.traces for frame in figure.frames] == [(1,)] * 3
    assert [step.label for step in figure.layout.sliders[0].steps] == ["0", "0.5", "1"]


def test_thinning_keeps_both_ends_within_the_budget():
    assert look.thin(1000, 7)[[0, -1]].tolist() == [0, 999] and len(look.thin(1000, 7)) == 7
    assert look.thin(3, 7).tolist() == [0, 1, 2]


@pytest.mark.parametrize("symbol", look.SYMBOLS)
def test_every_symbol_can_mark_a_wrong_prediction(symbol):
    go.Scatter(marker={"symbol": [symbol, f"{symbol}-open", f"{symbol}-open-dot"]})
