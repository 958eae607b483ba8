"""Perturbed pictures, as pixels of eight bits: noise, and squares of the patch grid filled with a colour.

What the model gets is rounded and cut to 0..255 like any picture, so the perturbation is what one sees.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from odevit.errors import UserError


def noisy(pixels: Tensor, strength: float, seed: int = 0) -> Tensor:
    """Pixels with Gaussian noise added, rounded and cut to 0..255.

    Args:
        pixels: uint8, (C, H, W).   strength: standard deviation as a share of the range, 0 to 1.   seed: the same on every
            device; strengths of one seed scale one draw.

    >>> noisy(torch.full((1, 2, 2), 7, dtype=torch.uint8), 0.0).unique().tolist()
    [7]
    """
    if not 0 <= strength <= 1:
        raise UserError(f"strength: {strength} is not a share of the range (0 to 1)")
    _check(pixels)
    draw = torch.randn(pixels.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (pixels.cpu() + 255 * strength * draw).round().clamp(0, 255).to(torch.uint8).to(pixels.device)


def covered(shape: tuple[int, int], grid: tuple[int, int], row: int, column: int, size: int = 1) -> tuple[slice, slice]:
    """The pixels (rows, columns) of size x size patches from (row, column) on, cut at the border of the picture.

    Args:
        shape: (H, W).   grid: patches (rows, columns), the first patch top left.   row, column: of the first patch.

    >>> covered((32, 32), (8, 8), 7, 2, size=2)
    (slice(28, 32, None), slice(8, 16, None))
    """
    for name, value, most in (("row", row, grid[0]), ("column", column, grid[1])):
        if not 0 <= value < most:
            raise UserError(f"{name}: {value} is outside the patch grid (0 to {most - 1})")
    if size < 1:
        raise UserError(f"size: {size} is not a number of patches (1 or more)")
    (high, wide), (rows, columns) = shape, grid
    bottom, right = min(row + size, rows), min(column + size, columns)
    return slice(row * high // rows, bottom * high // rows), slice(column * wide // columns, right * wide // columns)


def filled(pixels: Tensor, where: tuple[slice, slice], colour: Sequence[float]) -> Tensor:
    """Pixels with a region in one colour.

    Args:
        pixels: uint8, (C, H, W).   where: rows and columns, see `covered`.   colour: 0 to 255, one value for each channel, or
            red, green, blue for a picture with one (its luma, ITU-R 601, is taken).
    """
    _check(pixels)
    values = list(colour)
    if len(pixels) == 1 and len(values) == 3:
        values = [0.299 * values[0] + 0.587 * values[1] + 0.114 * values[2]]
    if len(values) != len(pixels) or not all(0 <= v <= 255 for v in values):
        raise UserError(f"colour: {tuple(colour)} is no colour of {len(pixels)} channel(s) from 0 to 255")
    changed = pixels.clone()
    changed[:, where[0], where[1]] = torch.tensor(values).round().to(pixels)[:, None, None]
    return changed


def _check(pixels: Tensor) -> None:
    if pixels.dtype != torch.uint8 or pixels.ndim != 3:
        raise UserError(f"pixels: {pixels.dtype} of shape {tuple(pixels.shape)}; one picture of uint8 (C, H, W) is needed")
