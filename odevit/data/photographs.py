"""Six pictures that are always there: squares cut from the two photographs that come with scikit-learn; no labels."""

from importlib import resources
from pathlib import Path

import torch
from PIL import Image

from .image_sets import ImageSet
from .pixels import to_pixels

NAMES = ("china.jpg", "flower.jpg")
CUTS = 3  # squares of each, from left to right


def photographs(image_shape: tuple[int, int], channels: int) -> ImageSet:
    """The pictures at a model's size, split "samples", labels -1 (unknown).

    Args:
        image_shape: (height, width) in pixels.   channels: 1 or 3.
    """
    found = []
    for name in NAMES:
        with Image.open(Path(str(resources.files("sklearn.datasets.images") / name))) as picture:
            side, free = picture.height, picture.width - picture.height
            lefts = [free * i // (CUTS - 1) for i in range(CUTS)]
            found += [to_pixels(picture.crop((left, 0, left + side, side)), image_shape, channels) for left in lefts]
    return ImageSet(torch.stack(found), torch.full((len(found),), -1), (), "samples", "photographs of scikit-learn")
