"""Augmentation of a whole batch on its own device: crop and flip as one gather, erasing, mixup and CutMix.

Every draw is u = hash(seed, epoch, sample, column), see draws.py: it does not know batch, rank or device. Each option owns
fixed columns, so switching one on leaves the draws of the others as they were.

References: random erasing 1708.04896; mixup 1710.09412; CutMix 1905.04899.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.special import betaincinv
from torch import Tensor
from torch.nn.functional import one_hot

from ..config.training import DataConfig
from ..errors import UserError
from .draws import uniforms
from .image_sets import normalise

ERASED_AREA = (0.02, 1 / 3)  # share of the image, uniform
ERASED_ASPECT = (0.3, 1 / 0.3)  # height over width, log-uniform
QUANTILES = 4096  # of the Beta distribution, in a table: torch has no inverse of the incomplete Beta function


def _window(centre: Tensor, length: Tensor, size: int) -> Tensor:
    """Mask (B, size) of the interval of `length` pixels about `centre`, cut at the border."""
    start = (centre - length // 2)[:, None]
    position = torch.arange(size, device=centre.device)
    return (position >= start) & (position < start + length[:, None])


def _reflect(index: Tensor, size: int) -> Tensor:
    """Index of the pixel that reflection at both borders (without repeating the border pixel) puts at `index`."""
    return (size - 1) - ((size - 1) - index.abs()).abs()


class Augmenter:
    """Augments and normalises batches of uint8 images as DataConfig says.

    Crop: padding by reflection, offset uniform. Flip: horizontal, probability 1/2. Erasing: area and aspect as in the
    reference, filled with the mean (0 after normalisation). Mixup and CutMix: each sample draws its own weight (and, with both
    on, which of the two) from its id; the partner is the next image of the micro-batch, the only neighbour that every process
    has. So crop, flip and erasing are the same for any division into batches, and which image is mixed in (not how much of it)
    depends on the micro-batch.

    Args:
        config: crop (pixels), flip, erasing (probability), mixup and cutmix (Beta parameters; 0 = off).
        mean, std: per channel, in units of the full scale.
        num_classes: width C of soft targets.
        seed: seed of all draws.
    """

    def __init__(self, config: DataConfig, mean: Sequence[float], std: Sequence[float], num_classes: int, seed: int):
        self.config, self.mean, self.std, self.num_classes, self.seed = config, tuple(mean), tuple(std), num_classes, seed
        middles = (np.arange(QUANTILES) + 0.5) / QUANTILES
        self._quantiles = {a: torch.from_numpy(betaincinv(a, a, middles)) for a in (config.mixup, config.cutmix) if a}

    def __call__(self, images: Tensor, labels: Tensor, sample_ids: Tensor, epoch: int) -> tuple[Tensor, Tensor]:
        """The augmented, normalised batch and its targets.

        Args:
            images: uint8, shape (B, C, H, W).
            labels: int64, shape (B,).
            sample_ids: int64, shape (B,); the number of each image in its set.
            epoch: number of the pass.
        Returns: float32 images (B, C, H, W), and the labels, or float32 targets (B, num_classes) when mixup or cutmix is on.
        Raises: UserError for a crop as large as the image.
        """
        draw = uniforms(self.seed, epoch, sample_ids.to(images.device), 13)
        pixels = normalise(self._crop_and_flip(images, draw[:, 0:3]), self.mean, self.std)
        if self.config.erasing:
            pixels = pixels.masked_fill_(self._erased(draw[:, 3:8], pixels), 0.0)
        if not (self.config.mixup or self.config.cutmix):
            return pixels, labels
        return self._mixed(pixels, labels, draw[:, 8:13])

    def _crop_and_flip(self, images: Tensor, draw: Tensor) -> Tensor:
        height, width = images.shape[-2:]
        margin = self.config.crop
        if margin >= min(height, width):
            raise UserError(f"data.crop: {margin} must be below the image size {height} x {width}")
        if not margin and not self.config.flip:
            return images
        offset = (draw[:, :2] * (2 * margin + 1)).long() - margin
        rows = _reflect(offset[:, :1] + torch.arange(height, device=images.device), height)
        columns = _reflect(offset[:, 1:] + torch.arange(width, device=images.device), width)
        if self.config.flip:
            columns = torch.where(draw[:, 2:] < 0.5, columns.flip(1), columns)
        index = (rows[:, :, None] * width + columns[:, None, :]).flatten(1)  # (B, H W)
        index = index[:, None].expand(-1, images.shape[1], -1)
        return images.flatten(2).gather(2, index).view_as(images)

    def _erased(self, draw: Tensor, pixels: Tensor) -> Tensor:
        """Mask (B, 1, H, W) of the pixels to erase; the rectangle lies inside the image."""
        height, width = pixels.shape[-2:]
        low, high = ERASED_AREA
        area = (low + (high - low) * draw[:, 0]) * height * width
        log_low, log_high = map(math.log, ERASED_ASPECT)
        aspect = (log_low + (log_high - log_low) * draw[:, 1]).exp()
        sides = []
        for side, size, place in (((area * aspect).sqrt(), height, draw[:, 2]), ((area / aspect).sqrt(), width, draw[:, 3])):
            length = side.round().clamp(1, size).long()
            start = (place * (size - length + 1)).long()
            sides.append(_window(start + length // 2, length, size))
        hit = (draw[:, 4] < self.config.erasing)[:, None, None]
        return (sides[0][:, :, None] & sides[1][:, None, :] & hit)[:, None]

    def _beta(self, parameter: float, uniform: Tensor) -> Tensor:
        """Beta(a, a) numbers from uniform ones: one of 4096 equally likely quantiles."""
        return self._quantiles[parameter].to(uniform.device)[(uniform * QUANTILES).long()]

    def _mixed(self, pixels: Tensor, labels: Tensor, draw: Tensor) -> tuple[Tensor, Tensor]:
        """Images and soft targets mixed with the next image of the batch; `own` is the share of the image itself."""
        mixup, cutmix = self.config.mixup, self.config.cutmix
        own = self._beta(mixup, draw[:, 0]) if mixup else torch.ones_like(draw[:, 0])
        weight = own[:, None, None]  # (B, 1, 1)
        if cutmix:
            boxes = self._boxes(self._beta(cutmix, draw[:, 1]), draw[:, 2:4], *pixels.shape[-2:])
            cut = draw[:, 4] < (0.5 if mixup else 1.0)
            weight = torch.where(cut[:, None, None], 1.0 - boxes.double(), weight)
            own = torch.where(cut, weight.mean((1, 2)), own)
        weight = weight[:, None].float()  # (B, 1, H or 1, W or 1)
        pixels = torch.lerp(pixels.roll(-1, 0), pixels, weight)
        targets = one_hot(labels, self.num_classes).float()
        return pixels, torch.lerp(targets.roll(-1, 0), targets, own.float()[:, None])

    @staticmethod
    def _boxes(own: Tensor, centre: Tensor, height: int, width: int) -> Tensor:
        """Mask (B, H, W) of the rectangle that CutMix takes from the partner: sides sqrt(1 - own), cut at the border."""
        side = (1 - own).sqrt()
        rows = _window((centre[:, 0] * height).long(), (side * height).long(), height)
        columns = _window((centre[:, 1] * width).long(), (side * width).long(), width)
        return rows[:, :, None] & columns[:, None, :]
