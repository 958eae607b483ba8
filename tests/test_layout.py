"""TokenLayout: the three slices partition the token axis, in a fixed order, also without registers."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from odevit import TokenLayout, UserError


@given(st.integers(0, 12), st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_slices_partition_the_token_axis(registers, rows, columns):
    layout = TokenLayout(registers, (rows, columns))
    positions = list(range(layout.size))
    parts = [positions[layout.cls], positions[layout.patches], positions[layout.registers]]
    assert sum(parts, []) == positions
    assert [len(p) for p in parts] == [1, rows * columns, registers]
    assert layout.num_patches == rows * columns


def test_no_registers_give_an_empty_slice_on_states_and_on_maps():
    """Defect 9: a slice by -0 is empty for the patches or everything for the registers."""
    layout = TokenLayout(0, (2, 3))
    maps = torch.arange(49).reshape(7, 7)
    assert maps[layout.registers].shape == (0, 7)
    assert maps[:, layout.patches].shape == (7, 6)
    assert torch.equal(torch.cat([maps[layout.cls], maps[layout.patches]]), maps)


def test_layouts_are_values():
    assert TokenLayout(4, (8, 8)) == TokenLayout(registers=4, grid=(8, 8))
    assert TokenLayout(4, (8, 8)) != TokenLayout(4, (4, 16))
    assert eval(repr(TokenLayout(3, (2, 5)))) == TokenLayout(3, (2, 5))


@pytest.mark.parametrize(("registers", "grid"), [(-1, (2, 2)), (0, (0, 2)), (0, (2, -1))])
def test_impossible_layouts_are_refused(registers, grid):
    with pytest.raises(UserError, match=rf"^layout: registers {registers} must be >= 0 and grid .* must be positive$"):
        TokenLayout(registers, grid)
