"""Names for the positions on the token axis, so that nobody slices by hand.

Order of the tokens (ODE-ViT, arXiv 2511.16501): [CLS], patches row by row, registers last.
"""

from dataclasses import dataclass

from .errors import UserError


@dataclass(frozen=True, init=False, repr=False)
class TokenLayout:
    """Slices that partition range(N): `cls` (1 token), `patches` (rows x columns) and `registers` (0 or more).

    Args:
        registers: number of register tokens, 0 allowed.
        grid: (rows, columns) of the patch grid.

    >>> layout = TokenLayout(registers=4, grid=(8, 8))
    >>> layout.size, layout.cls, layout.patches, layout.registers
    (69, slice(0, 1, None), slice(1, 65, None), slice(65, 69, None))
    """

    num_registers: int
    grid: tuple[int, int]

    def __init__(self, registers: int = 0, grid: tuple[int, int] = (1, 1)):
        rows, columns = grid
        if registers < 0 or rows < 1 or columns < 1:
            raise UserError(f"layout: registers {registers} must be >= 0 and grid {grid} must be positive")
        object.__setattr__(self, "num_registers", int(registers))
        object.__setattr__(self, "grid", (int(rows), int(columns)))

    @property
    def num_patches(self) -> int:
        """Number of patch tokens, rows * columns."""
        return self.grid[0] * self.grid[1]

    @property
    def size(self) -> int:
        """Number of tokens N."""
        return 1 + self.num_patches + self.num_registers

    @property
    def cls(self) -> slice:
        """The [CLS] token, as a slice of length 1."""
        return slice(0, 1)

    @property
    def patches(self) -> slice:
        """The patch tokens, row by row."""
        return slice(1, 1 + self.num_patches)

    @property
    def registers(self) -> slice:
        """The register tokens; empty where there are none."""
        return slice(1 + self.num_patches, self.size)

    def __repr__(self) -> str:
        return f"TokenLayout(registers={self.num_registers}, grid={self.grid})"
