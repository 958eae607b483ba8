"""ImageSet, the images of one split in memory, and the normalisation z = (pixel / 255 - mean) / std per channel."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..errors import UserError
from .splits import listed


@dataclass(frozen=True)
class ImageSet:
    """The images of one split, decoded, all of one size."""

    images: Tensor
    """uint8, shape (n, C, H, W)."""
    labels: Tensor
    """int64, shape (n,); an index into classes."""
    classes: tuple[str, ...]
    """Names of the classes in label order; the same for every split."""
    split: str
    """train, val or test."""
    source: str
    """The data.source it came from."""
    skipped: tuple[tuple[str, str], ...] = ()
    """(path, reason) of every file left out."""

    def __len__(self) -> int:
        return len(self.labels)

    def statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of each channel over all pixels of the set, in units of the full scale (0 to 1).

        A channel without any variation gets deviation 1, so that normalise stays defined.

        >>> pixels = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1)
        >>> ImageSet(pixels, torch.tensor([0, 1]), ("a", "b"), "train", "x").statistics()
        ((0.5,), (0.5,))
        """
        values = torch.arange(256, dtype=torch.float64, device=self.images.device) / 255
        mean, std = [], []
        for channel in self.images.unbind(1):
            # a histogram is exact and needs no float copy of the set; in parts, because bincount makes int64 of its input
            parts = [torch.bincount(part.flatten(), minlength=256) for part in channel.split(4096)]
            counts = torch.stack(parts).sum(0).double()
            mean.append(float(counts @ values / counts.sum()))
            std.append(float((counts @ (values - mean[-1]) ** 2 / counts.sum()).sqrt()) or 1.0)
        return tuple(mean), tuple(std)

    def subset(self, indices: Sequence[int] | Tensor) -> "ImageSet":
        """The same set with only the images at `indices`, in that order."""
        chosen = torch.as_tensor(indices, dtype=torch.int64)
        return replace(self, images=self.images[chosen], labels=self.labels[chosen])


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """(images / 255 - mean) / std per channel, on the images' device.

    Args:
        images: uint8, shape (B, C, H, W) or (C, H, W).
        mean, std: C numbers each, in units of the full scale (0 to 1).
    Returns: float32 of the same shape.
    Raises: UserError for images that are not uint8 or have another number of channels.
    """
    if images.dtype != torch.uint8:
        raise UserError(f"images: {images.dtype} instead of uint8; only raw pixels are normalised")
    if not images.shape[-3] == len(mean) == len(std):
        raise UserError(f"images: {images.shape[-3]} channels, but {len(mean)} means and {len(std)} deviations")
    scale = torch.tensor([1 / (255 * s) for s in std], device=images.device).view(-1, 1, 1)
    shift = torch.tensor([m / s for m, s in zip(mean, std)], device=images.device).view(-1, 1, 1)
    return images.to(torch.float32).mul_(scale).sub_(shift)


def describe(sets: dict[str, ImageSet]) -> str:
    """One line per split (images, classes, size, files left out) and one with the names of the classes."""
    lines = []
    for name, data in sets.items():
        channels, height, width = data.images.shape[1:]
        skipped = f", {len(data.skipped)} unreadable files left out" if data.skipped else ""
        size = f"{height} x {width} x {channels}"
        lines.append(f"{name:<5} {len(data):>6} images, {len(data.classes)} classes, {size}, from {data.source}{skipped}")
    names = next(iter(sets.values())).classes if sets else ()
    return "\n".join([*lines, f"classes: {listed(names)}"])
