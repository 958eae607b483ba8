"""ODE-ViT: one block integrated over time, dx/dt = F(x) + G(x)   (arXiv 2511.16501)."""

from .backbone import Backbone
from .config import InputConfig, ODEViTConfig, SolverConfig, ViTConfig, preset
from .errors import UserError
from .field import VectorField
from .vit import ViT


class ODEViT(Backbone):
    """A vision transformer whose encoder is the flow of one block (or a few, piecewise constant in t).

    Args:
        config: the model.
        solver: horizon T, steps and method.
        inputs: normalisation and class names.
    """

    config: ODEViTConfig

    def __init__(self, config: ODEViTConfig, solver: SolverConfig | None = None, inputs: InputConfig | None = None):
        solver = solver or SolverConfig()
        if solver.steps % config.blocks:
            raise UserError(f"blocks: {config.blocks} does not divide steps {solver.steps}")
        field = VectorField(config, config.blocks, solver.horizon, config.time_frequencies)
        super().__init__(config, field, solver, inputs or InputConfig())


def build(model, solver: SolverConfig, inputs: InputConfig | None = None) -> Backbone:
    """The model that a config describes."""
    return ViT(model, inputs) if isinstance(model, ViTConfig) else ODEViT(model, solver, inputs)


def create_model(name: str, **overrides) -> Backbone:
    """A fresh model by preset name (see `list_models`), with fields of its model or solver config replaced.

    >>> create_model("odevit_tiny_patch4_32", num_classes=100).head.out_features
    100
    """
    return build(*preset(name, **overrides))
