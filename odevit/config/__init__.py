"""Everything that is configured: frozen dataclasses (model, solver, data, loss, optimisation), presets, dict <-> config."""

from .architecture import (
    AttentionKind,
    BackboneConfig,
    InputConfig,
    NormKind,
    ODEViTConfig,
    PoolKind,
    SolverConfig,
    StemKind,
    ViTConfig,
)
from .distilling import DistillConfig, MatchConfig, read_run
from .presets import PRESETS, list_models, preset
from .reading import from_dict, nearest, one_of, to_dict
from .training import DataConfig, LossConfig, OptimConfig, TrainConfig

__all__ = [
    "PRESETS", "AttentionKind", "BackboneConfig", "DataConfig", "DistillConfig", "InputConfig", "LossConfig", "MatchConfig",
    "NormKind", "ODEViTConfig", "OptimConfig", "PoolKind", "SolverConfig", "StemKind", "TrainConfig", "ViTConfig", "from_dict",
    "list_models", "nearest", "one_of", "preset", "read_run", "to_dict",
]  # fmt: skip
