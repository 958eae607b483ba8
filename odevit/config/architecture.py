"""What a model is and how it is solved: frozen dataclasses of plain numbers and strings.

`__post_init__` cross-checks, so a config that exists is a config that makes sense.
"""

import typing
from dataclasses import dataclass
from typing import Literal

from ..errors import UserError
from .reading import one_of

AttentionKind = Literal["dot", "l2", "cosine"]
NormKind = Literal["center", "layer", "none"]
StemKind = Literal["patch", "conv"]
PoolKind = Literal["cls", "cls_patches", "cls_register"]


@dataclass(frozen=True)
class BackboneConfig:
    """What an ODE-ViT and a discrete ViT share: stem, tokens, widths, head."""

    img_size: int | tuple[int, int] = 32
    """Side of the square input image in pixels, or (height, width)."""
    patch_size: int = 4
    """Side of a patch in pixels; a power of two for the convolutional stem."""
    in_chans: int = 3
    """Channels of the image: 3, or 1 for grey images."""
    num_classes: int = 10
    """Number of classes C."""
    embed_dim: int = 128
    """Width D of a token."""
    num_heads: int = 4
    """Attention heads H; divides embed_dim."""
    mlp_ratio: float = 2.0
    """Hidden width of the MLP over embed_dim."""
    registers: int = 4
    """Learned register tokens R, appended last, without positions; 0 allowed."""
    stem: StemKind = "patch"
    """patch: one strided convolution; conv: 3x3 stride-2 convolutions with BatchNorm and GELU, then 1x1."""
    attention: AttentionKind = "dot"
    """dot: scaled dot product; l2: tied L2 distance (Kim et al. 2020); cosine: scaled cosine (LipsFormer)."""
    norm: NormKind = "center"
    """center: CenterNorm, linear; layer: LayerNorm, not Lipschitz with a useful constant; none."""
    norm_eps: float = 1e-6
    """LayerNorm's epsilon."""
    bias: bool = False
    """Biases in the attention and MLP projections."""
    final_norm: bool = False
    """LayerNorm on the tokens before the head; belongs to the readout, not to the trajectory."""
    pool: PoolKind = "cls"
    """What the head reads: cls; cls_patches: CLS beside the mean of the patches (DINOv2); cls_register: CLS beside the first
    register (the distillation token of DeiT)."""

    def __post_init__(self):
        for name in ("patch_size", "in_chans", "num_classes", "embed_dim", "num_heads"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}: {getattr(self, name)} must be at least 1")
        if self.registers < 0:
            raise UserError(f"registers: {self.registers} must be 0 or more")
        for name in ("mlp_ratio", "norm_eps"):
            if not 0 < getattr(self, name) < float("inf"):
                raise UserError(f"{name}: {getattr(self, name)} must be positive and finite")
        if self.embed_dim < 2:
            raise UserError(f"embed_dim: {self.embed_dim}; a normalisation over channels needs at least 2")
        if self.embed_dim % self.num_heads:
            raise UserError(f"num_heads: {self.num_heads} does not divide embed_dim {self.embed_dim}")
        if self.num_classes < 2:
            raise UserError(f"num_classes: {self.num_classes}; a classifier needs at least 2")
        for kind, known in (("attention", AttentionKind), ("norm", NormKind), ("stem", StemKind), ("pool", PoolKind)):
            one_of(kind, getattr(self, kind), typing.get_args(known))
        if self.pool == "cls_register" and not self.registers:
            raise UserError("pool: cls_register reads the first register, but registers is 0")
        for side in self.image_shape:
            if side < 1 or side % self.patch_size:
                raise UserError(f"img_size: {side} is not divisible by patch_size {self.patch_size}")
        if self.stem == "conv" and self.patch_size & (self.patch_size - 1):
            raise UserError(f"patch_size: {self.patch_size} is not a power of two, which the conv stem needs")

    @property
    def image_shape(self) -> tuple[int, int]:
        """(height, width) in pixels."""
        return (self.img_size, self.img_size) if isinstance(self.img_size, int) else self.img_size

    @property
    def grid(self) -> tuple[int, int]:
        """(rows, columns) of patches."""
        height, width = self.image_shape
        return height // self.patch_size, width // self.patch_size


@dataclass(frozen=True)
class ODEViTConfig(BackboneConfig):
    """The vector field f(t, x) = F(x) + G(x) and its tokenizer and head."""

    blocks: int = 1
    """Distinct blocks over [0, T], piecewise constant in t; 1 is the paper's model."""
    time_frequencies: int = 0
    """Fourier pairs in t added to the normalised tokens; 0 keeps the field autonomous."""

    def __post_init__(self):
        super().__post_init__()
        if self.blocks < 1:
            raise UserError(f"blocks: {self.blocks} must be at least 1")
        if self.time_frequencies < 0:
            raise UserError(f"time_frequencies: {self.time_frequencies} must be 0 or more")


@dataclass(frozen=True)
class ViTConfig(BackboneConfig):
    """A discrete residual ViT of the same parts: baseline and teacher."""

    norm: NormKind = "layer"
    """center, layer or none, as in BackboneConfig."""
    bias: bool = True
    """Biases in the attention and MLP projections."""
    final_norm: bool = True
    """LayerNorm on the tokens before the head."""
    depth: int = 6
    """Number of layers."""
    block: Literal["parallel", "sequential"] = "sequential"
    """parallel: x + F(x) + G(x); sequential: y = x + G(x), then y + F(y), the usual ViT."""
    layer_scale: bool = False
    """Learned factor per channel on each branch (LayerScale)."""
    activation: Literal["gelu", "gelu_tanh", "quick_gelu"] = "gelu"
    """Activation of the MLP; the bounds of the analyses know which one."""

    def __post_init__(self):
        super().__post_init__()
        if self.depth < 1:
            raise UserError(f"depth: {self.depth} must be at least 1")
        one_of("block", self.block, ("parallel", "sequential"))
        one_of("activation", self.activation, ("gelu", "gelu_tanh", "quick_gelu"))

    @property
    def solver(self) -> "SolverConfig":
        """Its layers as Euler steps of size 1 over [0, depth]."""
        return SolverConfig("euler", float(self.depth), self.depth)


@dataclass(frozen=True)
class SolverConfig:
    """How the flow is computed: the horizon, the number of steps and the one-step method."""

    method: str = "euler"
    """A one-step method of the installed torchdiffeq, or lie_trotter / strang with an optional sub-step ("strang:midpoint")."""
    horizon: float = 6.0
    """End T of integration time; one unit is one layer of a discrete ViT."""
    steps: int = 6
    """Steps of a fixed-step method over [0, T]."""
    rtol: float = 1e-5
    """Relative tolerance of an adaptive method."""
    atol: float = 1e-6
    """Absolute tolerance of an adaptive method."""

    def __post_init__(self):
        if not 0 < self.horizon < float("inf"):
            raise UserError(f"horizon: {self.horizon} must be positive and finite")
        if self.steps < 1:
            raise UserError(f"steps: {self.steps} must be at least 1")
        for name in ("rtol", "atol"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name}: {getattr(self, name)} must be positive")


@dataclass(frozen=True)
class InputConfig:
    """What the model expects of its images; stands in config.json under `data`."""

    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    """Mean per channel that is subtracted, for pixels in [0, 1]."""
    std: tuple[float, ...] = (0.25, 0.25, 0.25)
    """Deviation per channel that is divided by."""
    classes: tuple[str, ...] = ()
    """Class names in the order of the logits; empty where unknown."""
    source: str = ""
    """The dataset that the model was trained on, as it was named."""

    def __post_init__(self):
        if len(self.mean) != len(self.std):
            raise UserError(f"data.mean has {len(self.mean)} values, data.std {len(self.std)}")
        if not all(0 < s < float("inf") for s in self.std):
            raise UserError(f"data.std: {self.std} must be positive and finite")
