"""The config of a teacher from the shapes of its tensors and from what stands beside them; contradictions are refused."""

import logging
import math
from dataclasses import replace

import torch

from ..config import InputConfig, ViTConfig
from ..errors import UserError
from .facts import Facts
from .families import BLOCK
from .translation import State

log = logging.getLogger("odevit")


def sized(state: State, facts: Facts, depth: int, num_heads: int | None, patch_size: int | None) -> ViTConfig:
    """Widths, depth, heads and patch; image, registers and head are still those of any small model.

    Raises:
        UserError: shapes of no ViT, sizes that differ from config.json or from what was asked for, unknown number of heads.
    """
    stem, first = state["tokenizer.stem.weight"], BLOCK.format(i=0)
    if stem.ndim != 4 or stem.shape[-1] != stem.shape[-2]:
        raise UserError(f"the patch embedding has shape {tuple(stem.shape)}; supported is one convolution with square patches")
    width, channels, patch = stem.shape[:3]
    hidden, back = len(state[f"{first}mlp.fc1.weight"]), state[f"{first}mlp.fc2.weight"].shape[-1]
    if hidden != back:
        raise UserError(f"the MLP maps to {hidden} and from {back}: a gated MLP (SwiGLU), which is not supported")
    if patch_size not in (None, patch):
        raise UserError(f"patch_size: {patch_size}, but the patch embedding of the weights is {patch} x {patch}")
    registers = state["tokenizer.registers"].numel() // width if "tokenizer.registers" in state else 0
    here = {"width": width, "depth": depth, "patch": patch, "channels": channels, "hidden": hidden, "registers": registers}
    for key, (what, value) in facts.sizes.items():
        if here[what] != value:
            raise UserError(f"config.json says {key} {value}, but the weights have {here[what]}")
    return ViTConfig(
        img_size=patch, patch_size=patch, in_chans=channels, num_classes=2, embed_dim=width,
        num_heads=_heads(facts.num_heads, num_heads, width), mlp_ratio=hidden / width, registers=0, norm_eps=facts.eps,
        depth=depth, layer_scale=f"{first}scale1" in state, activation=facts.activation,  # type: ignore[arg-type]
    )  # fmt: skip


def _heads(told: int | None, given: int | None, width: int) -> int:
    if told is None and given is None:
        usual = f"; 64 channels a head are usual, that is {width // 64}" if width % 64 == 0 else ""
        raise UserError(f"num_heads: the weights do not tell it; give num_heads=, a divisor of the width {width}{usual}")
    if None not in (told, given) and told != given:
        raise UserError(f"num_heads: {given}, but config.json says {told}")
    return given or told  # type: ignore[return-value]


def patch_grid(state: State, facts: Facts, patch: int, img_size: int | tuple[int, int] | None) -> tuple[int, int]:
    """(rows, columns) of patches that the position table was trained with.

    A table has a row for each patch, and none, one for CLS, or one for every other token; of an image size that nothing tells,
    it is taken to be a square.
    """
    width = state["tokenizer.cls"].numel()
    total = state["tokenizer.positions"].numel() // width
    others = sum(state[name].numel() // width for name in ("distillation", "tokenizer.registers") if name in state)
    counts = [total - lead for lead in (1, 1 + others, 0)]
    asked = (img_size, img_size) if isinstance(img_size, int) else img_size
    for size in (facts.image, asked):
        if size is not None and math.prod(side // patch for side in size) in counts:
            return size[0] // patch, size[1] // patch
    if facts.image and not asked:
        rows, columns = (side // patch for side in facts.image)
        says = f"{facts.image[0]}x{facts.image[1]} pixels, that is {rows}x{columns} patches of {patch}"
        raise UserError(f"config.json says {says}, but the position table has {total} rows; give img_size=")
    side = next((math.isqrt(n) for n in counts if n > 0 and math.isqrt(n) ** 2 == n), None)
    if side is None:
        raise UserError(f"img_size: a position table of {total} rows is of no square image; give img_size=(height, width)")
    return side, side


def completed(state: State, config: ViTConfig, grid: tuple[int, int]) -> ViTConfig:
    """The config with image size, registers and what the head reads; the heads of `state` are joined into one, in place."""
    pool = _join_heads(state, config.embed_dim)
    return replace(
        config, img_size=(grid[0] * config.patch_size, grid[1] * config.patch_size) if grid[0] != grid[1] else
        grid[0] * config.patch_size, registers=len(state["tokenizer.registers"]), pool=pool,
    )  # fmt: skip


def _join_heads(state: State, width: int):
    """The mean of the heads of CLS and distillation token as one head; what the head reads."""
    weight = state.get("head.weight")
    if weight is None:
        return "cls"
    if "distillation_head.weight" not in state:
        return "cls_patches" if weight.shape[-1] == 2 * width else "cls"
    second = {part: state.pop(f"distillation_head.{part}") for part in ("weight", "bias")}
    state["head.weight"] = torch.cat([weight, second["weight"]], 1) / 2
    state["head.bias"] = (state["head.bias"] + second["bias"]) / 2
    return "cls_register"


def headed(state: State, config: ViTConfig, labels: int | None, num_classes: int | None) -> ViTConfig:
    """The config with the number of classes; a head that is missing or not the one asked for becomes zeros, in place; logged.

    Args:
        labels: number of classes by config.json, where it says.
        num_classes: what was asked for.
    """
    weight = state.get("head.weight")
    if weight is not None:
        if labels not in (None, len(weight)):
            raise UserError(f"config.json says {labels} classes, but the head of the weights has {len(weight)}")
        if num_classes in (None, len(weight)):
            return replace(config, num_classes=len(weight))
    classes = num_classes or labels or 2
    config = replace(config, num_classes=classes, pool="cls")
    what = "no head in the weights" if weight is None else f"the head of {len(weight)} classes was dropped"
    log.warning("%s: the head is new, zeros for %d classes, and must be trained", what, classes)
    like = state["tokenizer.positions"]
    state["head.weight"], state["head.bias"] = like.new_zeros(classes, config.embed_dim), like.new_zeros(classes)
    return config


def inputs_of(facts: Facts, config: ViTConfig) -> InputConfig:
    """Normalisation and class names; a default that does not fit the channels becomes 0.5."""
    mean, std, channels = facts.mean, facts.std, config.in_chans
    if len(mean) != channels:
        if not facts.normalised_by.startswith("the default"):
            raise UserError(f"{facts.normalised_by} has {len(mean)} means, but the model has {channels} channel(s)")
        mean, std = (0.5,) * channels, (0.5,) * channels
    classes = facts.classes if len(facts.classes) == config.num_classes else ()
    return InputConfig(mean=tuple(mean), std=tuple(std), classes=classes)
