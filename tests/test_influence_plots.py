"""Figures of influence and interventions: every block and cell where it belongs, patches on their grid, signs around zero."""

import figure_reports as known
import numpy as np
import pytest

from analysis.figures import block_influence, effect_map, effect_on_patches, influence_on_patches
from odevit.errors import UserError


def images(figure) -> list[np.ndarray]:
    return [np.asarray(image.get_array()) for ax in figure.axes for image in ax.get_images()]


def test_rows_are_moved_by_columns_and_images_are_averaged():
    report = known.influence()
    two = known.influence(influence=np.stack([report.influence, 3 * report.influence]))
    assert np.array_equal(images(block_influence(two, known.layout()))[0], 2 * report.influence)


def test_lines_part_cls_patches_and_registers():
    edges = block_influence(known.influence(), known.layout()).axes[0].get_lines()
    assert sorted({float(line.get_xdata()[0]) for line in edges if line.get_xdata()[0] == line.get_xdata()[1]}) == [0.5, 4.5]


def test_of_several_times_the_middle_one_is_drawn():
    figure = block_influence([known.influence(t) for t in (2.0, 0.0, 1.0)])
    assert "t = 1" in figure.axes[1].get_ylabel()


def test_patches_lie_on_their_grid_in_both_directions():
    first, second, third, fourth = images(influence_on_patches([known.influence(1.0), known.influence(0.0)], known.layout()))
    assert first.tolist() == second.tolist() == [[2, 3], [4, 5]]  # row of CLS: moved by each patch
    assert third.tolist() == fourth.tolist() == [[11, 21], [31, 41]]  # column of CLS


def test_a_layout_of_another_size():
    with pytest.raises(UserError, match="the TokenPathReport is of 6 tokens, the figure of 4"):
        influence_on_patches(known.influence(influence=np.ones((4, 4))), known.layout())


def test_effects_over_times_and_regions():
    (values,) = images(effect_map(known.effects()))
    assert values.tolist() == [[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]]
    signed = effect_map(known.effects(), "margin_change").axes[0].get_images()[0]
    assert signed.norm(0.0) == 0.5 and signed.norm(-3.5) == 0.0


def test_effects_on_the_patch_grid():
    figure = effect_on_patches(known.effects(), known.layout())
    assert [values.tolist() for values in images(figure)] == [[[1, 2], [3, 4]], [[2, 3], [4, 5]]]
    assert figure.axes[1].get_title() == "$t = 1$\nCLS 1\nreg 6"


def test_an_unknown_quantity():
    with pytest.raises(UserError, match="quantity: unknown 'kll'"):
        effect_map(known.effects(), "kll")
