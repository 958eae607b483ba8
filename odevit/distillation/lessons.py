"""Lessons: what a student is compared with, the teacher's states, attention of CLS and logits; asked for, or kept on disk.

One row of numbers an image. Kept only where the images of an epoch are always the same, that is without augmentation.
"""

import logging
import math
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..config import MatchConfig
from ..data import ImageSet, normalise
from ..layout import TokenLayout
from ..vit import ViT

log = logging.getLogger("odevit")
KEPT_BYTES = 8_000_000_000  # more than this is asked for again in every epoch


class Lesson(NamedTuple):
    """Of B images: states (K, B, N, D) at the control points, attention of CLS on the patches (A, B, H, P), logits (B, C)."""

    states: Tensor
    looks: Tensor
    logits: Tensor


def matched_tokens(layout: TokenLayout, tokens: str) -> slice:
    """Positions of the tokens that are matched: CLS, or CLS and patches; registers are each model's own."""
    return layout.cls if tokens == "cls" else slice(layout.cls.start, layout.patches.stop)


def looks_of_cls(maps: Tensor, layout: TokenLayout) -> Tensor:
    """What CLS attends to among the patches, (..., P), rows that sum to 1, of maps (..., N, N)."""
    rows = maps[..., layout.cls, layout.patches].squeeze(-2)
    return rows / rows.sum(-1, keepdim=True)


class Lessons:
    """What a teacher says of images.

    Args:
        teacher: in eval mode; its weights are frozen here.
        match: which layers, tokens and terms.
        basis: map (d, D) of its states for a student of width d; None leaves them.

    Attributes:
        points: hidden states that are compared, 1 .. L or L alone.
        looked: layers whose attention is compared, of 0 .. L - 1.
    """

    def __init__(self, teacher: ViT, match: MatchConfig, basis: Tensor | None = None):
        self.teacher, self.match = teacher.eval().requires_grad_(False), match
        depth = teacher.config.depth
        self.points = list(range(1, depth + 1)) if match.points == "all" else [depth]
        layers = list(range(depth)) if match.attention_points == "all" else [depth - 1]
        self.looked = layers if match.attention else []
        self.basis = None if basis is None else basis.to(teacher.head.weight)
        self._kept: np.ndarray | None = None

    @torch.no_grad()
    def ask(self, images: Tensor) -> Lesson:
        """The lesson on normalised images (B, C, H, W); one forward pass, and the maps of the layers looked at once more."""
        teacher = self.teacher
        solved = teacher.trajectory(images)
        states = solved.x[self.points][:, :, matched_tokens(teacher.layout, self.match.tokens)]
        if self.basis is not None:
            states = states @ self.basis.T
        looks = [looks_of_cls(teacher.field.attention(float(i), solved.x[i]), teacher.layout) for i in self.looked]
        empty = states.new_zeros(0, len(images), teacher.config.num_heads, teacher.layout.num_patches)
        return Lesson(states, torch.stack(looks) if looks else empty, teacher.readout(solved.x[-1]))

    def __call__(self, images: Tensor, ids: Tensor | None = None) -> Lesson:
        """The lesson on normalised images, whose numbers in the set that is kept are `ids`."""
        if self._kept is None or ids is None:
            return self.ask(images)
        return self._unpacked(torch.from_numpy(self._kept[ids.cpu().numpy()]).to(images))

    def _shapes(self) -> list[tuple[int, ...]]:
        c, layout = self.teacher.config, self.teacher.layout
        tokens, width = (1 if self.match.tokens == "cls" else 1 + layout.num_patches), c.embed_dim
        width = width if self.basis is None else len(self.basis)
        return [(len(self.points), tokens, width), (len(self.looked), c.num_heads, layout.num_patches), (1, c.num_classes)]

    def _unpacked(self, rows: Tensor) -> Lesson:
        shapes = self._shapes()
        parts = rows.split([math.prod(shape) for shape in shapes], 1)
        states, looks, logits = (part.reshape(len(rows), *shape).transpose(0, 1) for part, shape in zip(parts, shapes))
        return Lesson(states, looks, logits[0])

    @torch.no_grad()
    def keep(self, data: ImageSet, folder: Path, key: str, batch_size: int = 256) -> None:
        """Write the lessons on a set, as it is, to folder/lessons-KEY.npy, or take them from there; large ones are left out."""
        shape = (len(data), sum(math.prod(s) for s in self._shapes()))
        if 4 * math.prod(shape) > KEPT_BYTES:
            log.info("teacher: %.1f GB of states are too many to keep; asked for in every epoch", 4e-9 * math.prod(shape))
            return
        file = folder / f"lessons-{key}.npy"
        if not file.exists():
            folder.mkdir(parents=True, exist_ok=True)
            temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
            out = np.lib.format.open_memmap(temporary, "w+", np.float32, shape)
            for start in range(0, len(data), batch_size):
                out[start : start + batch_size] = self._rows(data.images[start : start + batch_size])
            out.flush()
            temporary.replace(file)
            log.info("teacher: kept its states on %d images in %s", len(data), file)
        self._kept = np.load(file, mmap_mode="r")

    def _rows(self, pixels: Tensor) -> np.ndarray:
        inputs = self.teacher.inputs
        lesson = self.ask(normalise(pixels.to(self.teacher.head.weight.device), inputs.mean, inputs.std))
        parts = (lesson.states, lesson.looks, lesson.logits[None])
        return torch.cat([part.transpose(0, 1).flatten(1) for part in parts], 1).float().cpu().numpy()
