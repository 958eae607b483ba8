"""Named configurations, in timm's manner: odevit_<size>_<stem>_<pixels>."""

import fnmatch
from dataclasses import fields
from typing import Any

from ..errors import UserError
from .architecture import BackboneConfig, ODEViTConfig, SolverConfig, ViTConfig
from .reading import from_dict, nearest, one_of, to_dict

_TINY: dict[str, Any] = {"embed_dim": 128, "num_heads": 4, "mlp_ratio": 2.0, "registers": 4}
_SMALL: dict[str, Any] = {"embed_dim": 192, "num_heads": 3, "mlp_ratio": 4.0, "registers": 4}

PRESETS: dict[str, tuple[BackboneConfig, SolverConfig]] = {
    "odevit_tiny_patch4_32": (ODEViTConfig(**_TINY), SolverConfig()),
    "odevit_tiny_conv_32": (ODEViTConfig(**_TINY, stem="conv"), SolverConfig()),
    "odevit_small_patch4_32": (ODEViTConfig(**_SMALL), SolverConfig(horizon=12.0, steps=12)),
    "odevit_small_conv_32": (ODEViTConfig(**_SMALL, stem="conv"), SolverConfig(horizon=12.0, steps=12)),
    "odevit_base_patch16_224": (
        ODEViTConfig(img_size=224, patch_size=16, embed_dim=768, num_heads=12, mlp_ratio=4.0, registers=10),
        SolverConfig(horizon=12.0, steps=36),
    ),
    "odevit_digits": (
        ODEViTConfig(img_size=8, patch_size=2, in_chans=1, embed_dim=48, num_heads=4, registers=2, stem="conv"),
        SolverConfig(horizon=4.0, steps=4),
    ),
    "vit_tiny_patch4_32": (ViTConfig(**_TINY), ViTConfig().solver),
    "vit_tiny_conv_32": (ViTConfig(**_TINY, stem="conv"), ViTConfig().solver),
    "vit_digits": (
        ViTConfig(img_size=8, patch_size=2, in_chans=1, embed_dim=48, num_heads=4, registers=2, depth=4, stem="conv"),
        ViTConfig(depth=4).solver,
    ),
}


def list_models(pattern: str = "*") -> list[str]:
    """Names of the presets that match a shell pattern, such as "odevit*"."""
    return sorted(fnmatch.filter(PRESETS, pattern))


def preset(name: str, **overrides) -> tuple[BackboneConfig, SolverConfig]:
    """The (model, solver) configs of a preset, with fields of either replaced; the solver of a discrete ViT follows its depth.

    Raises UserError for an unknown preset or field, naming the nearest, and for a value of the wrong type.
    """
    one_of("preset", name, PRESETS)
    model, solver = PRESETS[name]
    of_model = {f.name for f in fields(model)}
    of_solver = {f.name for f in fields(solver)}
    for key in overrides:
        if key not in of_model | of_solver:
            raise UserError(f"{key}: unknown field{nearest(key, of_model | of_solver)}")
    model = from_dict(type(model), to_dict(model) | {k: v for k, v in overrides.items() if k in of_model}, name)
    if not isinstance(model, ViTConfig):
        return model, from_dict(SolverConfig, to_dict(solver) | {k: v for k, v in overrides.items() if k in of_solver}, name)
    for key in of_solver.intersection(overrides):
        raise UserError(f"{key}: a discrete ViT is not solved but has layers; set depth, or give a grid to trajectory()")
    return model, model.solver
