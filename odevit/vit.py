"""The discrete residual ViT of the same parts: x_{l+1} = x_l + block_l(x_l)   (Dosovitskiy et al. 2021, 2010.11929).

Its layers are read as Euler steps of size 1 of a field that is piecewise constant in t, so every analysis of a trajectory
applies to it: layer index = t, velocity = block update.
"""

from dataclasses import replace

from torch import Tensor

from .backbone import Backbone
from .config import InputConfig, ViTConfig
from .field import VectorField
from .trajectory import TimeGrid, Trajectory


class ViT(Backbone):
    """A discrete ViT; `solver` is Euler with one step a layer, T = depth.

    Args:
        config: the model.
        inputs: normalisation and class names.
    """

    config: ViTConfig

    def __init__(self, config: ViTConfig, inputs: InputConfig | None = None):
        super().__init__(config, VectorField(config, config.depth, config.depth), config.solver, inputs or InputConfig())

    def flow(self, x0: Tensor, grid: TimeGrid | None = None, *, method: str | None = None, segments: int = 0) -> Trajectory:
        """Hidden states from x0, t = 0, 1, .., depth; other grids and methods read the layers as a piecewise field."""
        solved = super().flow(x0, grid, method=method, segments=segments)
        plain = method is None and solved.h == 1.0
        return replace(solved, method="discrete") if plain else solved
