"""Folders of images: class folders, in one tree or under train, val and test; what is no image is named, never guessed.

Rules. A class is a folder; its images may lie in sub-folders; classes are numbered in the order of their names (Unicode NFC).
Names that begin with a dot and the leavings of other programs (IGNORED) are passed over, and so are files without the suffix of
an image and images outside class folders; one warning lists them. A class folder without images is dropped with a warning. A
folder that holds nothing but one folder of folders is entered. Symbolic links are followed. No val folder: val is a stratified
val_fraction of train. No train folder: one tree, cut into 1 - 2 val_fraction, val_fraction and val_fraction with split_seed,
before any file is read.
"""

import logging
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from ..config.training import DataConfig
from ..errors import UserError
from .pixels import read_pixels
from .sources import Arrays, held_out
from .splits import listed, relabel, stratified

logger = logging.getLogger("odevit")

IGNORED = {"__macosx", "@eadir", "lost+found", "thumbs.db", "desktop.ini"}
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".pbm"}
SPLIT_FOLDERS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


@dataclass(frozen=True)
class Listing:
    """The image files of one split and the class of each, not opened yet."""

    files: tuple[Path, ...]
    labels: np.ndarray
    names: tuple[str, ...]


@dataclass(frozen=True)
class BadFile:
    """An image file that cannot be read."""

    path: Path
    name: str
    """The class."""
    reason: str

    def __str__(self) -> str:
        return f"{self.path} (class {self.name}): {self.reason}"


class _Walk:
    """Lists a tree and remembers what it passed over."""

    def __init__(self):
        self.ignored: list[Path] = []

    def entries(self, folder: Path) -> list[Path]:
        """Entries of a folder by name, without the leavings of other programs."""
        try:
            found = sorted(folder.iterdir())
        except OSError as error:
            raise UserError(f"{folder}: cannot be listed ({error.strerror})") from error
        visible = [p for p in found if not (p.name.startswith(".") or p.name.lower() in IGNORED)]
        self.ignored += [p for p in found if p not in visible]
        return visible

    def folders(self, folder: Path) -> list[Path]:
        """Sub-folders of a folder; the files beside them are remembered as ignored."""
        entries = self.entries(folder)
        self.ignored += [p for p in entries if not p.is_dir()]
        return [p for p in entries if p.is_dir()]

    def images(self, folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
        """Image files anywhere below a class folder; a link to a folder above is ignored, since it would never end."""
        above = (*above, folder.resolve())
        for entry in self.entries(folder):
            if entry.is_dir() and not any(place.is_relative_to(entry.resolve()) for place in above):
                yield from self.images(entry, above)
            elif entry.suffix.lower() in SUFFIXES and not entry.is_dir():
                yield entry
            else:
                self.ignored.append(entry)

    def classes(self, folders: list[Path]) -> dict[str, list[Path]]:
        """Class name -> files, by name; folders without images are dropped with a warning."""
        found: dict[str, list[Path]] = {}
        for folder in folders:
            files = list(self.images(folder))
            if not files:
                logger.warning("%s: class folder without images, dropped", folder)
                continue
            found.setdefault(unicodedata.normalize("NFC", folder.name), []).extend(files)
        return dict(sorted(found.items()))


def _split_of(folder: Path) -> str | None:
    return SPLIT_FOLDERS.get(folder.name.lower())


def _inner_root(root: Path) -> Path:
    """The folder with the classes or splits: a lone folder of folders is entered (root/root of an archive)."""
    while True:
        inside = _Walk().entries(root)
        if len(inside) != 1 or not inside[0].is_dir() or _split_of(inside[0]):
            return root
        if not _Walk().folders(inside[0]):
            return root
        root = inside[0]


def _listing(classes: dict[str, list[Path]]) -> Listing:
    files = [(file, label) for label, members in enumerate(classes.values()) for file in members]
    return Listing(tuple(f for f, _ in files), np.array([label for _, label in files], dtype=np.int64), tuple(classes))


def _part(whole: Listing, indices: np.ndarray) -> Listing:
    return Listing(tuple(whole.files[i] for i in indices), whole.labels[indices], whole.names)


def scan(root: Path, config: DataConfig) -> dict[str, Listing]:
    """Files of each split under a folder, by the rules of this module; no file is opened.

    Returns: Listing by split, each with the names of its own classes.
    Raises: UserError for a folder without class folders or images.
    """
    root = _inner_root(root)
    walk = _Walk()
    folders = walk.folders(root)
    by_split = {split: p for p in folders if (split := _split_of(p))}
    is_split = bool(by_split) and (len(by_split) > 1 and "train" in by_split or len(by_split) == len(folders))
    if is_split:
        walk.ignored += [p for p in folders if p not in by_split.values()]
        found = {split: walk.classes(walk.folders(p)) for split, p in by_split.items()}
    else:
        found = {"tree": walk.classes(folders)}
    if walk.ignored:
        shown = tuple(str(p.relative_to(root)) for p in walk.ignored)
        logger.warning("%s: ignored %d entries that are no class or image: %s", root, len(shown), listed(shown))
    if not any(found.values()):
        loose = any(p.suffix.lower() in SUFFIXES for p in walk.ignored)
        reason = "has images but no class folders" if loose else "has no images"
        raise UserError(f"{root}: {reason}; expected one folder per class, in one tree or under train, val and test")
    listings = _listings(found, config)
    logger.info("%s: classes %s", root, listed(_names(listings)))
    return listings


def _names(listings: dict[str, Listing]) -> tuple[str, ...]:
    """The classes of train, or of all splits where there is no train."""
    known = [listings["train"]] if "train" in listings else list(listings.values())
    return tuple(sorted({name for listing in known for name in listing.names}))


def _listings(found: dict[str, dict[str, list[Path]]], config: DataConfig) -> dict[str, Listing]:
    """The splits as they are, and those that have to be drawn."""
    if "tree" in found:
        whole, fraction = _listing(found["tree"]), config.val_fraction
        parts = stratified(whole.labels, (max(1 - 2 * fraction, 0.0), fraction, fraction), config.split_seed)
        return {split: _part(whole, part) for split, part in zip(("train", "val", "test"), parts)}
    listings = {split: _listing(classes) for split, classes in found.items()}
    if "val" not in listings and "train" in listings:
        whole = listings["train"]
        listings |= {split: _part(whole, part) for split, part in zip(("train", "val"), held_out(whole.labels, config))}
    return listings


def _read(listing: Listing, image_shape: tuple[int, int], channels: int) -> Iterator[np.ndarray | BadFile]:
    for file, label in zip(tqdm(listing.files, desc="reading", unit="image", leave=False, disable=None), listing.labels):
        try:
            yield read_pixels(file, image_shape, channels).permute(1, 2, 0).numpy()
        except UserError as error:
            yield BadFile(file, listing.names[label], str(error))


def folder(
    root: Path,
    config: DataConfig,
    splits: tuple[str, ...],
    classes: tuple[str, ...] | None,
    image_shape: tuple[int, int],
    channels: int,
) -> dict[str, Arrays]:
    """The splits of a folder, decoded to the size asked for; unreadable files are treated as config.bad_images says.

    Returns: Arrays by split, all with the same names: the classes given, or those of train.
    Raises: UserError naming a class that is not among them; file, class and reason (stop); or the number of bad files after
        logging each (report).
    """
    listings = scan(root, config)
    names = classes or _names(listings)
    found, bad = {}, []
    for split in splits:
        if split not in listings:
            raise UserError(f"{root}: no folder {split} (found: {', '.join(listings)})")
        listing = listings[split]
        labels = relabel(listing.labels, listing.names, names, f"{root} ({split})")
        images, kept, skipped = [], [], []
        for i, image in enumerate(_read(listing, image_shape, channels)):
            if not isinstance(image, BadFile):
                images.append(image)
                kept.append(i)
                continue
            if config.bad_images == "stop":
                raise UserError(f"{image}; data.bad_images skip leaves such files out, report lists them all")
            logger.warning("unreadable: %s", image)
            skipped.append(image)
        bad += skipped
        pixels = np.stack(images) if images else np.zeros((0, *image_shape, channels), np.uint8)
        found[split] = Arrays(pixels, labels[kept], names, tuple((str(b.path), b.reason) for b in skipped))
    if bad and config.bad_images == "report":
        raise UserError(f"{root}: {len(bad)} image files cannot be read (each is in the log), the first: {bad[0]}")
    return found


def check_folder(root: Path) -> tuple[BadFile, ...]:
    """Every image file of all splits under a folder that cannot be read, with class and reason; decodes each once."""
    listings = scan(Path(root), DataConfig()).values()
    return tuple(image for listing in listings for image in _read(listing, (8, 8), 3) if isinstance(image, BadFile))
