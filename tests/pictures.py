"""Small image files and folders for the tests of the data room, and the one line with which loading refuses."""

import numpy as np
import pytest
from PIL import Image

from odevit.config.training import DataConfig
from odevit.data import load
from odevit.errors import UserError

RNG = np.random.default_rng(0)


def noise(size: int = 12, channels: int = 3) -> np.ndarray:
    """A random image, uint8 (size, size, channels)."""
    return RNG.integers(0, 256, (size, size, channels), dtype=np.uint8)


def save(path, array=None, **options):
    """Write an image (random unless given), making its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(noise() if array is None else array).save(path, **options)
    return path


def tree(root, classes=("a", "b"), n=8):
    """Class folders with n random images each."""
    for name in classes:
        for i in range(n):
            save(root / name / f"{i}.png")
    return root


def small(source, splits=("train", "val", "test"), classes=None, **options):
    """The splits of a source at 8 x 8 RGB, a quarter for each split that has to be drawn."""
    options = {"val_fraction": 0.25} | options
    return load(DataConfig(source=str(source), **options), image_shape=(8, 8), channels=3, splits=splits, classes=classes)


def message(*args, **options) -> str:
    """The one line with which `small` refuses."""
    with pytest.raises(UserError) as caught:
        small(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)
