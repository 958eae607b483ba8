"""The vector field f(t, x) = F(x) + G(x): MLP plus attention, each behind a normalisation of its own.

F(x) = W_2 gelu(W_1 C_1(x)),  G(x) = attention(C_2(x)),  C(x) = gamma * D/(D-1) * (x - mean x) + beta per token  (CenterNorm,
LipsFormer 2304.09856; ODE-ViT 2511.16501). CenterNorm is linear, so the field is Lipschitz on every ball. The field is a pure
function of (t, x): no dropout, no memory. With several blocks it is piecewise constant in t; `breaks` and `piece` say where.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import SelfAttention, linear, spectral_init_
from .config import BackboneConfig, ViTConfig


class CenterNorm(nn.Module):
    """C(x) = gamma * D/(D-1) * (x - mean(x)) + beta per token; affine, norm at most D/(D-1) max|gamma|."""

    def __init__(self, dim: int):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(dim))
        self.beta = nn.Parameter(torch.zeros(dim))

    @property
    def scale(self) -> Tensor:
        """gamma * D/(D-1), shape (D,)."""
        dim = self.gamma.numel()
        return self.gamma * (dim / (dim - 1))

    def matrix(self) -> Tensor:
        """The matrix of C, shape (D, D): C(x) = matrix() x + beta."""
        dim = self.gamma.numel()
        eye = torch.eye(dim, dtype=self.gamma.dtype, device=self.gamma.device)
        return self.scale[:, None] * (eye - 1 / dim)

    def forward(self, x: Tensor) -> Tensor:
        """C(x), shape (..., D)."""
        return self.scale * (x - x.mean(-1, keepdim=True)) + self.beta


class Mlp(nn.Module):
    """W_2 act(W_1 y + b_1) + b_2 on normalised tokens y, shape (..., D)."""

    def __init__(self, dim: int, hidden: int, bias: bool = False, activation: str = "gelu"):
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden, bias=bias)
        self.fc2 = nn.Linear(hidden, dim, bias=bias)
        self.activation = activation
        for layer in (self.fc1, self.fc2):
            spectral_init_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def act(self, z: Tensor) -> Tensor:
        """The activation: exact GELU, its tanh form, or z sigmoid(1.702 z)."""
        if self.activation == "quick_gelu":
            return z * torch.sigmoid(1.702 * z)
        return F.gelu(z, approximate="tanh" if self.activation == "gelu_tanh" else "none")

    def forward(self, y: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """F(y), shape (..., D); products in `dtype`."""
        hidden = self.act(linear(y, self.fc1.weight, self.fc1.bias, dtype))
        return linear(hidden, self.fc2.weight, self.fc2.bias, dtype)


def make_norm(config: BackboneConfig) -> nn.Module:
    """The normalisation that the config names."""
    if config.norm == "center":
        return CenterNorm(config.embed_dim)
    return nn.LayerNorm(config.embed_dim, eps=config.norm_eps) if config.norm == "layer" else nn.Identity()


class Block(nn.Module):
    """One block: the velocity F(x) + G(x), or that of a sequential ViT layer, G(x) + F(x + G(x)).

    Attributes:
        norm1, attn: branch G.   norm2, mlp: branch F.   scale1, scale2: LayerScale of G and F, or None.
        sequential: the MLP sees the state after attention.
    """

    def __init__(self, config: BackboneConfig):
        super().__init__()
        discrete = config if isinstance(config, ViTConfig) else None
        dim = config.embed_dim
        self.norm1, self.norm2 = make_norm(config), make_norm(config)
        self.attn = SelfAttention(dim, config.num_heads, config.attention, config.bias)
        activation = discrete.activation if discrete else "gelu"
        self.mlp = Mlp(dim, round(dim * config.mlp_ratio), config.bias, activation)
        self.sequential = bool(discrete and discrete.block == "sequential")
        scaled = bool(discrete and discrete.layer_scale)
        self.scale1 = nn.Parameter(torch.ones(dim)) if scaled else None
        self.scale2 = nn.Parameter(torch.ones(dim)) if scaled else None
        self._linear = not (self.sequential or scaled or config.norm == "layer")

    def attention_part(self, x: Tensor, shift: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """G(x), shape (..., N, D); `shift` (D,) is added to the normalised tokens."""
        return _scaled(self.attn(_shifted(self.norm1(x), shift), dtype).to(x.dtype), self.scale1)

    def mlp_part(self, x: Tensor, shift: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """F(x), shape (..., N, D)."""
        out = self.mlp(_shifted(self.norm2(x), shift), dtype).to(x.dtype)
        return out if self.scale2 is None else self.scale2 * out

    def forward(self, x: Tensor, shift: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """The velocity, shape (..., N, D), in the dtype of x."""
        stacked, rest = self._enter(x, shift, dtype)
        return self._leave(x, shift, dtype, self.attn.heads(stacked), rest)

    def with_maps(
        self, x: Tensor, shift: Tensor | None = None, dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """The velocity and the attention maps (..., H, N, N) that it is made of."""
        stacked, rest = self._enter(x, shift, dtype)
        heads, maps = self.attn.mix(stacked)
        return self._leave(x, shift, dtype, heads, rest), maps

    def compile(self, *args, **how):
        """torch.compile both ways to evaluate the block, in place."""
        super().compile(*args, **how)
        self.with_maps = torch.compile(self.with_maps, *args, **how)  # type: ignore[method-assign]

    def maps(self, x: Tensor, shift: Tensor | None = None) -> Tensor:
        """Attention maps at x, (..., H, N, N)."""
        return self.attn.maps(_shifted(self.norm1(x), shift))

    def _enter(self, x: Tensor, shift: Tensor | None, dtype: torch.dtype | None) -> tuple[Tensor, Tensor | None]:
        """Product with the maps of q, k, v; and the centred tokens where the norms are linear and so fold into the weights."""
        if not self._linear:
            return linear(_shifted(self.norm1(x), shift), *self.attn.stacked(), dtype), None
        if isinstance(self.norm1, CenterNorm):
            x = x - x.mean(-1, keepdim=True)
        x = x if dtype is None else x.to(dtype)  # rounded once for both branches
        return linear(x, *_fold(self.norm1, shift, *self.attn.stacked()), dtype), x

    def _leave(self, x: Tensor, shift: Tensor | None, dtype, heads: Tensor, centred: Tensor | None) -> Tensor:
        """The velocity from the heads: output projection, and the MLP on what it sees."""
        attended = _scaled(linear(heads, self.attn.proj.weight, self.attn.proj.bias, dtype), self.scale1)
        if centred is None:
            return (attended + self.mlp_part(x + attended if self.sequential else x, shift, dtype)).to(x.dtype)
        hidden = linear(centred, *_fold(self.norm2, shift, self.mlp.fc1.weight, self.mlp.fc1.bias), dtype)
        return (attended + linear(self.mlp.act(hidden), self.mlp.fc2.weight, self.mlp.fc2.bias, dtype)).to(x.dtype)


def _scaled(out: Tensor, scale: Tensor | None) -> Tensor:
    return out if scale is None else scale * out


def _fold(norm: nn.Module, shift: Tensor | None, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Weight and bias that do to centred tokens what weight(norm(x) + shift) + bias does to x."""
    if not isinstance(norm, CenterNorm):
        return weight, bias if shift is None else F.linear(shift, weight, bias)
    return weight * norm.scale, F.linear(norm.beta if shift is None else norm.beta + shift, weight, bias)


def _shifted(y: Tensor, shift: Tensor | None) -> Tensor:
    return y if shift is None else y + shift


class VectorField(nn.Module):
    """dx/dt = f(t, x) on tokens x of shape (B, N, D).

    Args:
        config: widths, kinds of attention and normalisation.
        blocks: distinct blocks over [0, horizon]; block i acts for t in [i, i + 1) * horizon / blocks.
        horizon: T.
        time_frequencies: M Fourier pairs sin, cos(2 pi m t / T) of a learned shift of the normalised tokens; 0 = autonomous.

    Attributes:
        compute_dtype: dtype of the matrix products (None: that of x); the state and what is added to it stay as x is.
        breaks: interior times at which the block changes.
    """

    def __init__(self, config: BackboneConfig, blocks: int = 1, horizon: float = 1.0, time_frequencies: int = 0):
        super().__init__()
        self.blocks = nn.ModuleList(Block(config) for _ in range(blocks))
        self.horizon = float(horizon)
        shape = (2 * time_frequencies, config.embed_dim)
        self.time_weight = nn.Parameter(torch.zeros(shape)) if time_frequencies else None
        self.compute_dtype: torch.dtype | None = None

    @property
    def breaks(self) -> tuple[float, ...]:
        """Interior times at which the field changes its block."""
        return tuple(self.horizon * i / len(self.blocks) for i in range(1, len(self.blocks)))

    @property
    def autonomous(self) -> bool:
        """True where f does not depend on t."""
        return self.time_weight is None and len(self.blocks) == 1

    def index_at(self, t) -> int:
        """Index of the block that acts at time t (at a break, the later one)."""
        if len(self.blocks) == 1:
            return 0
        i = math.floor(float(t) * len(self.blocks) / self.horizon + 1e-6)
        return min(max(i, 0), len(self.blocks) - 1)

    def block_at(self, t) -> Block:
        """The block that acts at time t."""
        return self.blocks[self.index_at(t)]  # type: ignore[return-value]

    def piece(self, t) -> "Piece":
        """The field of the block that acts at time t, smooth for all times."""
        return Piece(self, self.index_at(t))

    def shift(self, t) -> Tensor | None:
        """What is added to the normalised tokens at time t, shape (D,); None for an autonomous field."""
        if self.time_weight is None:
            return None
        m = torch.arange(1, len(self.time_weight) // 2 + 1, dtype=self.time_weight.dtype, device=self.time_weight.device)
        angle = 2 * math.pi / self.horizon * m * t
        return torch.cat([angle.sin(), angle.cos()]) @ self.time_weight

    def attention_part(self, x: Tensor, t=0.0) -> Tensor:
        """G at (t, x), shape (B, N, D)."""
        return self.piece(t).attention_part(x, t)

    def mlp_part(self, x: Tensor, t=0.0) -> Tensor:
        """F at (t, x), shape (B, N, D)."""
        return self.piece(t).mlp_part(x, t)

    def attention(self, t, x: Tensor) -> Tensor:
        """Attention maps P at (t, x), shape (B, H, N, N): row = query."""
        return self.piece(t).attention(t, x)

    def with_maps(self, t, x: Tensor) -> tuple[Tensor, Tensor]:
        """dx/dt and the attention maps (B, H, N, N) at (t, x), for the price of dx/dt."""
        return self.piece(t).with_maps(t, x)

    def forward(self, t, x: Tensor) -> Tensor:
        """dx/dt at (t, x), shape (B, N, D)."""
        return self.block_at(t)(x, self.shift(t), self.compute_dtype)


class Piece:
    """The field of one block, a smooth function of (t, x); what the flow integrates between breaks."""

    def __init__(self, field: VectorField, index: int):
        self.field, self.block = field, field.blocks[index]

    def __call__(self, t, x: Tensor) -> Tensor:
        """dx/dt at (t, x)."""
        return self.block(x, self.field.shift(t), self.field.compute_dtype)

    def with_maps(self, t, x: Tensor) -> tuple[Tensor, Tensor]:
        """dx/dt and the attention maps at (t, x)."""
        return self.block.with_maps(x, self.field.shift(t), self.field.compute_dtype)  # type: ignore[operator]

    def attention_part(self, x: Tensor, t=0.0) -> Tensor:
        """G at (t, x)."""
        return self.block.attention_part(x, self.field.shift(t), self.field.compute_dtype)  # type: ignore[operator]

    def mlp_part(self, x: Tensor, t=0.0) -> Tensor:
        """F at (t, x)."""
        return self.block.mlp_part(x, self.field.shift(t), self.field.compute_dtype)  # type: ignore[operator]

    def attention(self, t, x: Tensor) -> Tensor:
        """Attention maps at (t, x)."""
        return self.block.maps(x, self.field.shift(t))  # type: ignore[operator]

    def parameters(self):
        """Weights of the whole field, for diagnosis."""
        return self.field.parameters()
