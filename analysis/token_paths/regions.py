"""Which tokens are meant: names and indices of token positions as a list of indices."""

from collections.abc import Sequence

from odevit.errors import UserError
from odevit.layout import TokenLayout

NAMES = ("all", "cls", "patches", "registers")
Tokens = str | int | slice | Sequence[int]


def token_indices(tokens: Tokens, layout: TokenLayout) -> list[int]:
    """Indices of the named positions, never negative.

    Args:
        tokens: "all", "cls", "patches", "registers", an index, a slice or several indices (negative: from the end).
        layout: names of the positions.

    Raises:
        UserError: an unknown name, an index outside the layout, or no token at all.

    >>> token_indices("registers", TokenLayout(registers=2, grid=(2, 2)))
    [5, 6]
    """
    every = range(layout.size)
    if isinstance(tokens, str):
        if tokens not in NAMES:
            raise UserError(f"tokens: {tokens!r} is unknown (names: {', '.join(NAMES)}; or indices 0 to {layout.size - 1})")
        found = list(every[slice(None) if tokens == "all" else getattr(layout, tokens)])
    elif isinstance(tokens, slice):
        found = list(every[tokens])
    else:
        wanted = [tokens] if isinstance(tokens, int) else list(tokens)
        outside = [i for i in wanted if not -layout.size <= i < layout.size]
        if outside:
            raise UserError(f"tokens: {outside[0]} is outside 0 to {layout.size - 1} ({layout})")
        found = [every[i] for i in wanted]
    if not found:
        raise UserError(f"tokens: {tokens!r} names no token of {layout}")
    return found


def patch_region(rows: slice, columns: slice, layout: TokenLayout) -> list[int]:
    """Indices of the patch tokens in a rectangle of the patch grid.

    >>> patch_region(slice(0, 1), slice(1, 3), TokenLayout(grid=(2, 3)))
    [2, 3]
    """
    height, width = layout.grid
    return [1 + r * width + c for r in range(height)[rows] for c in range(width)[columns]]
