"""Where the images of a visit come from: data on this machine, two photographs that come with scikit-learn, or an upload.

Nothing is downloaded unless the visitor asks for it; a path is only ever the one given when the app was started.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import IO

import streamlit as st
import torch

from odevit.backbone import Backbone
from odevit.config import DataConfig, from_dict
from odevit.data import ImageSet, load, photographs, read_pixels
from odevit.errors import UserError

from .loading import Entry
from .state import unlabelled

DATA = "ODEVIT_APP_DATA"  # a dataset given at start: .npz, a folder of images, or a name
KEPT_SETS = 4
CIFAR = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}
ROOT = DataConfig().root


def offered(model: Backbone, entry: Entry) -> dict[str, str]:
    """Sources that fit the model, by name in the URL, with what they are; the first is shown first."""
    trained = entry.source
    found = {}
    if given := os.environ.get(DATA):
        found["given"] = f"given at start: {Path(given).name}"
    if model.config.in_chans == 1 or trained == "digits":
        found["digits"] = "handwritten digits"
    if trained in CIFAR:
        here = (ROOT / CIFAR[trained]).is_dir()
        found |= {trained: trained.upper() if here else f"{trained.upper()} (download)"} if here else {}
    if model.config.in_chans == 3:
        found["samples"] = "two photographs"
    if trained in CIFAR and trained not in found:
        found[trained] = f"{trained.upper()} (download)"
    found["upload"] = "your own picture"
    if trained == "digits" and "given" in found:  # the data that a model was trained on come first
        found = {"digits": found["digits"], **found}
    return found


def needs_download(name: str) -> bool:
    """Whether a source is a download that nobody has asked for yet."""
    return name in CIFAR and not (ROOT / CIFAR[name]).is_dir() and not st.session_state.get(f"download {name}")


def images(name: str, split: str, model: Backbone, entry: Entry) -> ImageSet:
    """The images of a source (not an upload), decoded once for all visitors.

    Without labels where the model names no classes and has another number of them.

    Raises:
        UserError: data that cannot be read or have other classes than the model.
    """
    config = model.config
    if name == "samples":
        return photographs(config.image_shape, config.in_chans)
    given = os.environ.get(DATA, "") if name == "given" else name
    run = ((entry.config.get("training") or {}).get("run") or {}).get("data")
    settings = from_dict(DataConfig, run, "training.run.data") if run else DataConfig()
    settings = replace(settings, source=given, root=ROOT, download=name in CIFAR, bad_images="skip")
    found = _set(settings, split, config.image_shape, config.in_chans, model.inputs.classes or None, _stamp(given))
    if len(found.classes) == config.num_classes:
        return found
    return replace(found, labels=torch.full_like(found.labels, -1), classes=())  # labels mean nothing to this model


@st.cache_resource(max_entries=KEPT_SETS, show_spinner="Reading the images")
def _set(config: DataConfig, split: str, shape: tuple[int, int], channels: int, classes, stamp: str) -> ImageSet:
    return load(config, image_shape=shape, channels=channels, splits=(split,), classes=classes)[split]


def _stamp(source: str) -> str:
    """Changes with the file or folder of a source."""
    path = Path(source)
    return f"{path.stat().st_size} {path.stat().st_mtime_ns}" if path.exists() else ""


def uploaded(file: IO[bytes], name: str, model: Backbone) -> ImageSet:
    """A visitor's picture as the model sees it; UserError naming the file and what is wrong with it."""
    file.seek(0)
    try:
        pixels = read_pixels(file, model.config.image_shape, model.config.in_chans)
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    return unlabelled(pixels, model.inputs.classes, name)
