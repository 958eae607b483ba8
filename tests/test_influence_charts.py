"""Charts of influence: rows are moved by columns, patches lie on their grid, CLS and registers apart, no own block."""

import figure_reports as known
import numpy as np
import pytest

from app import charts
from odevit.layout import TokenLayout

LAYOUT = TokenLayout(registers=1, grid=(2, 2))  # of figure_reports.influence: j moves i by 10 i + j + 1
PIXELS = np.arange(64, dtype=np.uint8).reshape(1, 8, 8)


def maps(token: int, onto: bool, times=(0.0,), layout=LAYOUT, **changes):
    reports = [known.influence(t, **changes) for t in times]
    figure = charts.influence_maps(reports, layout, PIXELS, token, onto=onto)
    heat = [np.asarray(trace.z) for trace in figure.data if trace.type == "heatmap"]
    return figure, heat[::2], heat[1::2]


def test_what_moves_cls_and_what_cls_moves():
    _, (grid,), (apart,) = maps(0, onto=True)
    assert grid.tolist() == [[2, 3], [4, 5]] and np.isnan(apart[0, 0]) and apart[0, 1] == 6
    _, (grid,), (apart,) = maps(0, onto=False)
    assert grid.tolist() == [[11, 21], [31, 41]] and apart[0, 1] == 51


def test_a_patch_is_left_out_of_its_own_map_framed_and_told():
    figure, (grid,), (apart,) = maps(3, onto=True)
    assert np.isnan(grid[1, 0]) and grid[0].tolist() == [32, 33] and apart.tolist() == [[31, 36]]
    frame = figure.layout.shapes[-1]
    assert (frame.x0, frame.x1, frame.y0, frame.y1) == (-0.5, 0.5, 0.5, 1.5)
    assert figure.layout.annotations[0].text == "t = 0<br>itself 34"


def test_one_scale_for_all_times_up_to_the_largest_patch():
    values = np.ones((6, 6))
    values[0, 2], values[0, 5] = 3.0, 99.0
    figure, grids, _ = maps(0, True, (0.0, 1.0, 2.0, 3.0, 4.0), influence=values)
    assert len(grids) == 5 and figure.layout.coloraxis.cmin == 0 and figure.layout.coloraxis.cmax == 3.0
    assert {t.coloraxis for t in figure.data if t.type == "heatmap"} == {"coloraxis"}


def test_without_registers_cls_is_alone_below_the_image():
    layout = TokenLayout(registers=0, grid=(1, 5))
    _, (grid,), (apart,) = maps(1, True, layout=layout)
    assert grid.shape == (1, 5) and apart.tolist() == [[11.0]]
    assert charts.token_names(layout)[-1] == "patch 0,4"


def test_names_are_in_the_order_of_the_tokens():
    assert charts.token_names(LAYOUT) == ["CLS", "patch 0,0", "patch 0,1", "patch 1,0", "patch 1,1", "register 0"]


@pytest.mark.parametrize(("token", "frame"), [(2, (0.5, 1.5, -0.5, 0.5)), (0, None), (5, None)])
def test_the_chosen_patch_is_framed_on_the_image(token, frame):
    figure = charts.token_chooser(PIXELS, LAYOUT, token)
    shapes = figure.layout.shapes
    assert figure.layout.clickmode == "event+select" and figure.layout.dragmode is False
    assert [(s.x0, s.x1, s.y0, s.y1) for s in shapes] == ([frame] if frame else [])
