"""Sources that are arrays: digits, CIFAR-10/100 through torchvision, .npz files with MedMNIST's names (2110.14795)."""

import socket
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..config.training import DataConfig
from ..errors import UserError
from .splits import listed, stratified

DIGITS_SHARES = {"train": 0.6, "val": 0.2, "test": 0.2}


@dataclass(frozen=True)
class Arrays:
    """Images of one split as they come: uint8 (n, H, W) or (n, H, W, 3), labels (n,), names of the classes, files left out."""

    images: np.ndarray
    labels: np.ndarray
    names: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...] = ()


def digits(config: DataConfig, splits: tuple[str, ...]) -> dict[str, Arrays]:
    """scikit-learn's handwritten digits, 8 x 8 grey, 0..16 scaled to 0..255; stratified 60/20/20 split by split_seed."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    labels = bunch.target.astype(np.int64)
    parts = dict(zip(DIGITS_SHARES, stratified(labels, tuple(DIGITS_SHARES.values()), config.split_seed)))
    names = tuple(map(str, bunch.target_names))
    return {split: Arrays(images[parts[split]], labels[parts[split]], names) for split in splits}


def _torchvision(config: DataConfig, train: bool):
    from torchvision.datasets import CIFAR10, CIFAR100

    dataset = {"cifar10": CIFAR10, "cifar100": CIFAR100}[config.source]
    name = dataset.base_folder
    ways = f"put torchvision's folder {name} under data.root {config.root}, or give an .npz file as data.source"
    timeout = socket.getdefaulttimeout()
    try:
        return dataset(str(config.root), train=train)
    except RuntimeError as error:
        if not config.download:
            raise UserError(f"data.source: {config.source} is not under {config.root} and download is off; {ways}") from error
    try:
        socket.setdefaulttimeout(30)  # without a network the download would otherwise wait for ever on some machines
        return dataset(str(config.root), train=train, download=True)
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"data.source: {config.source} could not be downloaded ({reason}); {ways}") from error
    finally:
        socket.setdefaulttimeout(timeout)


def cifar(config: DataConfig, splits: tuple[str, ...]) -> dict[str, Arrays]:
    """CIFAR-10 or CIFAR-100; val is a stratified val_fraction of the training images drawn with split_seed.

    Raises: UserError with the two ways out when the files are neither there nor to be had.
    """
    found: dict[str, Arrays] = {}
    for train in (True, False):
        wanted = [split for split in splits if (split == "test") != train]
        if wanted:
            data = _torchvision(config, train)
            labels = np.asarray(data.targets, dtype=np.int64)
            parts = dict(zip(("train", "val"), held_out(labels, config))) if train else {"test": np.arange(len(labels))}
            found |= {s: Arrays(data.data[parts[s]], labels[parts[s]], tuple(data.classes)) for s in wanted}
    return found


def held_out(labels: np.ndarray, config: DataConfig) -> list[np.ndarray]:
    """Indices (train, val): val is a stratified val_fraction of all."""
    return stratified(labels, (1 - config.val_fraction, config.val_fraction), config.split_seed)


class ArrayFile:
    """An .npz file of which only the arrays asked for are read; pickles are never loaded."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self._file = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise UserError(f"{path}: not an .npz file ({' '.join(str(error).split())[:120]})") from error
        if not isinstance(self._file, np.lib.npyio.NpzFile):
            raise UserError(f"{path}: a single array, not an .npz file of named arrays")

    def __contains__(self, split: str) -> bool:
        return f"{split}_images" in self._file or f"{split}_labels" in self._file

    def array(self, name: str) -> np.ndarray:
        """The array `name`, or UserError when it is missing, an object array or broken."""
        if name not in self._file:
            raise UserError(f"{self.path}: no array {name} (found: {listed(tuple(self._file.files)) or 'none'})")
        try:
            return self._file[name]
        except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            if "allow_pickle" in str(error):
                raise UserError(f"{self.path}: {name} is an object array, that is, a pickle; save a plain dtype") from None
            raise UserError(f"{self.path}: {name} is damaged ({' '.join(str(error).split())})") from error

    def images(self, split: str) -> np.ndarray:
        """{split}_images, uint8 (n, H, W) or (n, H, W, 3)."""
        name = f"{split}_images"
        images = self.array(name)
        if images.dtype != np.uint8:
            raise UserError(f"{self.path}: {name} is {images.dtype}, not uint8")
        if not (images.ndim == 3 or (images.ndim == 4 and images.shape[-1] == 3)):
            raise UserError(f"{self.path}: {name} has shape {images.shape}, not (n, H, W) or (n, H, W, 3)")
        return images

    def labels(self, split: str) -> np.ndarray:
        """{split}_labels as int64 (n,)."""
        name = f"{split}_labels"
        labels = self.array(name)
        if labels.dtype.kind not in "iu":
            raise UserError(f"{self.path}: {name} is {labels.dtype}, not an integer type")
        if not (labels.ndim == 1 or (labels.ndim == 2 and labels.shape[1] == 1)):
            raise UserError(f"{self.path}: {name} has shape {labels.shape}, not (n,) or (n, 1): one label per image")
        return labels.reshape(-1).astype(np.int64)

    def names(self, classes: tuple[str, ...] | None) -> tuple[str, ...]:
        """class_names; without them the names given, or 0, 1, ... up to the largest training label."""
        if "class_names" in self._file:
            return tuple(str(name) for name in self.array("class_names").reshape(-1))
        return classes or tuple(map(str, range(int(self.labels("train").max(initial=-1)) + 1)))


def npz(path: Path, config: DataConfig, splits: tuple[str, ...], classes: tuple[str, ...] | None) -> dict[str, Arrays]:
    """An .npz file with {train,val,test}_images and {train,val,test}_labels, and class_names if it likes.

    Without val arrays, val is a stratified val_fraction of train. Without class_names the labels number the classes.
    Raises: UserError naming the array that is missing, an object array, of a wrong type or shape, or has a label out of range.
    """
    file = ArrayFile(path)
    names = file.names(classes)
    drawn = "val" not in file
    whole = {}
    for split in {"train" if drawn and s == "val" else s for s in splits}:
        images, labels = file.images(split), file.labels(split)
        if len(images) != len(labels):
            raise UserError(f"{path}: {len(images)} {split}_images, but {len(labels)} {split}_labels")
        wrong = labels[(labels < 0) | (labels >= len(names))]
        if len(wrong):
            top = len(names) - 1
            raise UserError(f"{path}: {split}_labels has {wrong[0]}, out of range for {len(names)} classes (0 to {top})")
        whole[split] = Arrays(images, labels, names)
    if not drawn or "train" not in whole:
        return whole
    train = whole.pop("train")
    parts = dict(zip(("train", "val"), held_out(train.labels, config)))
    drawn_sets = {s: Arrays(train.images[parts[s]], train.labels[parts[s]], names) for s in splits if s in parts}
    return whole | drawn_sets
