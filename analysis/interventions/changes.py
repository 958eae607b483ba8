"""What can be changed at a moment: tokens knocked out, patched in from another image or perturbed, a head silenced.

Knock-out and patching as in causal tracing (Meng et al. 2022, 2202.05262), with the layer replaced by time t.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from odevit.errors import UserError

from ..token_paths.regions import Tokens, token_indices
from .restart import Moment


@dataclass(frozen=True, eq=False)
class Change:
    """What is done at a moment; by itself, nothing."""

    def state(self, moment: Moment) -> Tensor:
        """The state (B, N, D) after the change."""
        return moment.x

    def field(self, moment: Moment) -> Callable | None:
        """The field from then on; None = the model's own."""

    def at(self, region) -> "Change":
        """The same change elsewhere: at these tokens (or this head)."""
        return replace(self, tokens=region)  # type: ignore[call-arg]

    def describe(self) -> str:
        """One line for the report."""
        return type(self).__name__


def _indices(tokens: Tokens, moment: Moment) -> list[int]:
    return token_indices(tokens, moment.model.layout)


@dataclass(frozen=True, eq=False)
class KnockOut(Change):
    """Replace tokens.

    Args:
        tokens: positions, see `token_indices`.
        mode: "zero", the zero state (the token still takes part in attention, as a zero token does); or "mean", the mean
            state of that token at that time over the images given (at least two).
    """

    tokens: Tokens = "all"
    mode: Literal["zero", "mean"] = "zero"

    def __post_init__(self):
        if self.mode not in ("zero", "mean"):
            raise UserError(f"mode: {self.mode!r} is unknown (known: zero, mean)")

    def state(self, moment: Moment) -> Tensor:
        """The state with the tokens replaced."""
        where, x = _indices(self.tokens, moment), moment.x.clone()
        if self.mode == "mean" and len(x) < 2:
            raise UserError("mode: 'mean' is the mean over images and needs at least 2 of them")
        x[:, where] = 0.0 if self.mode == "zero" else moment.x[:, where].mean(0)
        return x

    def describe(self) -> str:
        """One line for the report."""
        return f"tokens {self.tokens} to {self.mode}"


@dataclass(frozen=True, eq=False)
class KnockOutHead(Change):
    """Silence an attention head from the moment on: its columns of the output projection are 0, in every block.

    The projection's bias belongs to no head and stays.
    """

    head: int = 0

    def field(self, moment: Moment) -> Callable:
        """A copy of the field without the head."""
        field = copy.deepcopy(moment.model.field)
        blocks: Any = field.blocks
        for block in blocks:
            heads, d = block.attn.num_heads, block.attn.head_dim
            if not 0 <= self.head < heads:
                raise UserError(f"head: {self.head} is outside 0 to {heads - 1}")
            block.attn.proj.weight[:, self.head * d : (self.head + 1) * d] = 0.0
        return field

    def at(self, region) -> "KnockOutHead":
        """The same for another head."""
        return replace(self, head=region)

    def describe(self) -> str:
        """One line for the report."""
        return f"head {self.head} silenced"


@dataclass(frozen=True, eq=False)
class Patch(Change):
    """Put in the states of tokens from other images at the same time.

    Args:
        source_images: normalised, (B, C, H, W), one for each image or one for all.
        tokens: positions, see `token_indices`.
    """

    source_images: Tensor
    tokens: Tokens = "all"

    def state(self, moment: Moment) -> Tensor:
        """The state with the tokens of the source put in."""
        images = self.source_images.to(moment.x)
        if len(images) not in (1, len(moment.x)):
            raise UserError(f"source_images: {len(images)} for {len(moment.x)} images; give one for each, or one for all")
        model, grid = moment.model, moment.model.grid
        source = model.trajectory(images).x[grid.times.index(moment.t)]
        where, x = _indices(self.tokens, moment), moment.x.clone()
        x[:, where] = source[:, where]
        return x

    def describe(self) -> str:
        """One line for the report."""
        return f"tokens {self.tokens} from {len(self.source_images)} other image(s)"


@dataclass(frozen=True, eq=False)
class Perturb(Change):
    """Add a vector of norm `size` to the tokens (jointly, in each image).

    Args:
        size: Euclidean norm of what is added, in units of the state.
        direction: a tensor (N, D) or (B, N, D), of which the part at the tokens is normalised; "random", Gaussian; or
            "most_sensitive", minus the gradient of the margin between the two first classes with respect to the state: of all
            directions the one that shrinks the margin fastest, to first order. Where that gradient is 0 nothing is added.
        tokens: positions, see `token_indices`.
        seed: of the random direction; the same on every device.
    """

    size: float
    direction: Tensor | Literal["random", "most_sensitive"] = "random"
    tokens: Tokens = "all"
    seed: int = 0

    def __post_init__(self):
        if isinstance(self.direction, str) and self.direction not in ("random", "most_sensitive"):
            raise UserError(f"direction: {self.direction!r} is unknown (known: random, most_sensitive, or a tensor)")
        if not 0 <= self.size < float("inf"):
            raise UserError(f"size: {self.size} is not a norm (0 or more, finite)")

    def state(self, moment: Moment) -> Tensor:
        """The state plus the perturbation."""
        where = _indices(self.tokens, moment)
        added = torch.zeros_like(moment.x)
        added[:, where] = self._raw(moment).expand_as(moment.x)[:, where]
        norm = added.flatten(1).norm(dim=1)[:, None, None]
        if isinstance(self.direction, Tensor) and not bool((norm > 0).all()):
            raise UserError(f"direction: it is 0 (or not finite) at the tokens {self.tokens}")
        return moment.x + self.size * added / norm.where(norm > 0, 1.0)

    def _raw(self, moment: Moment) -> Tensor:
        if isinstance(self.direction, Tensor):
            if self.direction.shape not in (moment.x.shape, moment.x.shape[1:]):
                raise UserError(f"direction: shape {tuple(self.direction.shape)} does not fit states {tuple(moment.x.shape)}")
            return self.direction.to(moment.x)
        if self.direction == "most_sensitive":
            return -moment.margin_gradient
        generator = torch.Generator().manual_seed(self.seed)
        return torch.randn(moment.x.shape, generator=generator, dtype=torch.float64).to(moment.x)

    def describe(self) -> str:
        """One line for the report."""
        name = self.direction if isinstance(self.direction, str) else "given"
        return f"tokens {self.tokens} moved by {self.size:g} in the {name} direction" + (
            f" (seed {self.seed})" if name == "random" else ""
        )
