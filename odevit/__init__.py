"""ODE-ViT: vision transformers trained as ordinary differential equations.

    model = odevit.ODEViT.from_pretrained(path)
    logits = model(images)
    trajectory = model.trajectory(images)
"""

from . import data, losses, teachers
from .config import DataConfig, InputConfig, ODEViTConfig, SolverConfig, TrainConfig, ViTConfig, list_models
from .errors import NonFiniteError, UserError
from .field import VectorField
from .flow import integrate, methods
from .layout import TokenLayout
from .model import ODEViT, build, create_model
from .trajectory import TimeGrid, Trajectory
from .vit import ViT

__version__ = "0.1.0"

__all__ = [
    "DataConfig", "InputConfig", "NonFiniteError", "ODEViT", "ODEViTConfig", "SolverConfig", "TimeGrid", "TokenLayout",
    "TrainConfig", "Trajectory", "UserError", "VectorField", "ViT", "ViTConfig", "build", "create_model", "data", "integrate",
    "list_models", "losses", "methods", "teachers",
]  # fmt: skip
