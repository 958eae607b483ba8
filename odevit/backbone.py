"""What every model here is: a tokenizer, a vector field, a head on CLS.   image -> x0 -> trajectory -> logits."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from .config import BackboneConfig, InputConfig, SolverConfig
from .errors import UserError
from .field import VectorField
from .flow import find_method, integrate
from .tokens import Tokenizer
from .trajectory import TimeGrid, Trajectory


class Backbone(nn.Module):
    """A vision transformer as a flow: x0 = tokenizer(images), dx/dt = field(t, x), logits = head(x(T)[CLS]).

    Attributes:
        config, solver, inputs: what it is, how it is solved, what its images look like.
        tokenizer, field, norm, head: the parts; norm is the final LayerNorm of the readout or the identity.
        layout: names of the token positions.
    """

    def __init__(self, config: BackboneConfig, field: VectorField, solver: SolverConfig, inputs: InputConfig):
        super().__init__()
        find_method(solver.method)
        if len(inputs.mean) != config.in_chans:
            inputs = _fitted(inputs, config.in_chans)
        self.config, self.solver, self.inputs = config, solver, inputs
        self.tokenizer = Tokenizer(config)
        self.field = field
        self.norm = nn.LayerNorm(config.embed_dim, eps=config.norm_eps) if config.final_norm else nn.Identity()
        self.head = nn.Linear(config.embed_dim * (1 if config.pool == "cls" else 2), config.num_classes)
        nn.init.trunc_normal_(self.head.weight, std=0.02)
        nn.init.zeros_(self.head.bias)
        self.layout = self.tokenizer.layout

    @property
    def grid(self) -> TimeGrid:
        """The grid the model was trained with: [0, T] in `steps` steps, every step saved."""
        return TimeGrid(0.0, self.solver.horizon, self.solver.steps)

    def initial_state(self, images: Tensor) -> Tensor:
        """x0 of normalised images (B, C, H, W), shape (B, N, D), at least float32."""
        expected, weights = (self.config.in_chans, *self.config.image_shape), self.head.weight.dtype
        if images.ndim != 4 or tuple(images.shape[1:]) != expected:
            raise UserError(f"images: expected (B, {', '.join(map(str, expected))}), got {tuple(images.shape)}")
        if not images.is_floating_point():
            raise UserError(f"images: expected normalised floats, got {images.dtype}; model.preprocess makes them")
        if weights in (torch.float16, torch.bfloat16):
            raise UserError(f"weights: {weights} is too coarse for a solver; keep float32 and use compute_in({weights})")
        return self.tokenizer(images.to(weights))

    def trajectory(
        self, images: Tensor, grid: TimeGrid | None = None, *, method: str | None = None, segments: int = 0
    ) -> Trajectory:
        """The solution from the images' initial states.

        Args:
            images: normalised, (B, C, H, W).
            grid: times; the trained grid with every step saved unless given.
            method: solver; the trained one unless given.
            segments: activation checkpointing, see flow.integrate.

        Returns:
            Trajectory with x of shape (K, B, N, D).
        """
        x0 = self.initial_state(images)
        return self.flow(x0, grid, method=method, segments=segments)

    def flow(self, x0: Tensor, grid: TimeGrid | None = None, *, method: str | None = None, segments: int = 0) -> Trajectory:
        """The solution from a state x0 of shape (B, N, D); arguments as in `trajectory`."""
        solver, method = self.solver, method or self.solver.method
        dtype = self.field.compute_dtype
        if dtype is not None and find_method(method).kind == "adaptive":
            raise UserError(f"method: {method} takes the rounding of {dtype} for its error; use a fixed-step method or float32")
        solved = integrate(self.field, x0, grid or self.grid, method, rtol=solver.rtol, atol=solver.atol, segments=segments)
        return replace(solved, layout=self.layout)

    def readout(self, x: Tensor) -> Tensor:
        """Logits (..., C) of a state (..., N, D): the head on what it reads of the (normalised, where configured) tokens."""
        return self.head(self.readout_input(x))

    def readout_input(self, x: Tensor) -> Tensor:
        """What the head reads of a state (..., N, D): CLS after the final norm where there is one; see config.pool."""
        cls = self.norm(x[..., self.layout.cls, :]).squeeze(-2)
        if self.config.pool == "cls":
            return cls
        if self.config.pool == "cls_patches":
            return torch.cat([cls, self.norm(x[..., self.layout.patches, :]).mean(-2)], -1)
        return torch.cat([cls, self.norm(x[..., self.layout.registers, :][..., 0, :])], -1)

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, C) of normalised images (B, C, H, W)."""
        return self.readout(self.trajectory(images, self.grid.with_save(1)).x[-1])

    def preprocess(self, images) -> Tensor:
        """Normalised images (B, C, H, W), on the model's device, from a PIL image or a uint8 tensor (C, H, W), (B, C, H, W)."""
        from .data import normalise, to_pixels

        if not isinstance(images, Tensor):
            images = to_pixels(images, self.config.image_shape, self.config.in_chans)
        images = images if images.ndim == 4 else images[None]
        return normalise(images.to(self.head.weight.device), self.inputs.mean, self.inputs.std)

    def compute_in(self, dtype: torch.dtype | None) -> "Backbone":
        """Do the field's matrix products in `dtype` (None: as the state); the state stays as it is."""
        self.field.compute_dtype = dtype
        return self

    @classmethod
    def from_pretrained(cls, path, **overrides) -> "Backbone":
        """The model saved in a folder (config.json, model.safetensors); raises UserError with a one-line diagnosis.

        Overrides: device, img_size, and fields of the solver, as in `checkpoint.load_model`.
        """
        from .checkpoint import load_model

        model = load_model(path, **overrides)
        if not isinstance(model, cls):
            raise UserError(f"{path}: holds a {type(model).__name__}, not a {cls.__name__}")
        return model

    def save_pretrained(self, path, card: str | None = None) -> None:
        """Write config.json, model.safetensors and README.md (the model card) into a folder."""
        from .checkpoint import save_model

        save_model(self, path, card=card)


def _fitted(inputs: InputConfig, channels: int) -> InputConfig:
    """The default normalisation for another number of channels; one that was given must fit."""
    default = InputConfig()
    if (inputs.mean, inputs.std) != (default.mean, default.std):
        raise UserError(f"data.mean: {len(inputs.mean)} values, but the model has {channels} channel(s)")
    return replace(inputs, mean=default.mean[:1] * channels, std=default.std[:1] * channels)
