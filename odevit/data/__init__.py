"""Images in memory: sources -> ImageSet per split, normalisation, augmentation."""

from pathlib import Path

import numpy as np
import torch

from ..config.reading import nearest, one_of
from ..config.training import DataConfig
from ..errors import UserError
from .augmentation import Augmenter
from .folders import check_folder, folder
from .image_sets import ImageSet, describe, normalise
from .photographs import photographs
from .pixels import fit_pixels, read_pixels, to_pixels
from .sources import Arrays, cifar, digits, npz
from .splits import listed, relabel

__all__ = ["Augmenter", "ImageSet", "check_folder", "describe", "load", "normalise", "photographs", "read_pixels", "to_pixels"]

SPLITS = ("train", "val", "test")
NAMED = {"digits": digits, "cifar10": cifar, "cifar100": cifar}


def load(
    config: DataConfig,
    *,
    image_shape: tuple[int, int],
    channels: int,
    splits: tuple[str, ...] = ("train", "val"),
    classes: tuple[str, ...] | None = None,
) -> dict[str, ImageSet]:
    """The splits asked for, decoded to the model's size; nothing else is decoded, so training never touches test.

    Args:
        config: source, root, download, split_seed, val_fraction, bad_images.
        image_shape: (height, width) in pixels.
        channels: 1 or 3.
        splits: some of train, val, test.
        classes: names in label order, from a checkpoint; labels are numbered by these names. None: as the source has them.
    Returns: ImageSet by split, in the order of `splits`, all with the same classes.
    Raises: UserError naming the file, class, array or field.
    """
    for split in splits:
        one_of("split", split, SPLITS)
    arrays = _arrays(config, splits, classes, image_shape, channels)
    sets = {}
    for split in splits:
        part = arrays[split]
        _check(part, split, config, classes)
        images = fit_pixels(part.images, image_shape, channels)
        known = classes or part.names
        labels = torch.from_numpy(relabel(part.labels, part.names, known, f"{config.source} ({split})"))
        sets[split] = ImageSet(images, labels, known, split, config.source, part.skipped)
    return sets


def _arrays(
    config: DataConfig, splits: tuple[str, ...], classes: tuple[str, ...] | None, image_shape: tuple[int, int], channels: int
) -> dict[str, Arrays]:
    path = Path(config.source).expanduser()
    if config.source in NAMED:
        return NAMED[config.source](config, splits)
    if path.suffix.lower() == ".npz" and path.is_file():
        return npz(path, config, splits, classes)
    if path.is_dir():
        return folder(path, config, splits, classes, image_shape, channels)
    if path.is_file():
        hint = "unpack it and give the folder" if path.suffix.lower() == ".zip" else "give a folder of images or an .npz file"
        raise UserError(f"data.source: {path} is a {path.suffix or 'plain'} file; {hint}")
    known = ", ".join(NAMED)
    hint = nearest(config.source, NAMED)
    raise UserError(f"data.source: {config.source!r} is neither {known} nor an .npz file or folder that exists{hint}")


def _check(part: Arrays, split: str, config: DataConfig, classes: tuple[str, ...] | None) -> None:
    if not len(part.labels):
        raise UserError(f"data.source: {config.source} has no images in split {split} (val_fraction {config.val_fraction})")
    present = np.unique(part.labels)
    if classes is None and split == "train" and len(present) < 2:
        only = listed(tuple(part.names[i] for i in present))
        raise UserError(f"data.source: {config.source} has only one class ({only}); a classifier needs at least two")
