"""What is analysed: a float64 model, normalised images with labels, a seed; checked before anything is written."""

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from odevit.backbone import Backbone
from odevit.checkpoint import load_model, model_hash
from odevit.checkpoint.diagnosis import safetensors_header
from odevit.data import ImageSet
from odevit.errors import UserError
from odevit.trajectory import TimeGrid, Trajectory

from ..operators import as_float64, check_finite, explicit_attention
from ..reports import Report

HALF = {"F16", "BF16"}


@dataclass(frozen=True)
class Subject:
    """A model and the images on which it is analysed.

    Attributes:
        model: float64, in eval(), on its device.   name: kind and hash, such as "ODEViT 0123456789ab".
        images: normalised float64 (M, C, H, W) on the model's device.   labels: (M,), or None.
        seed: of start vectors.   source: where the images come from, in words.   notes: what a reader must know.
    """

    model: Backbone
    name: str
    images: Tensor
    labels: Tensor | None
    seed: int
    source: str
    notes: tuple[str, ...]

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for a finished report to be taken as it is: model, images, labels, seed."""
        digest = hashlib.sha256(self.images.cpu().numpy().tobytes())
        digest.update(b"" if self.labels is None else self.labels.cpu().numpy().tobytes())
        return {"model": self.name, "images": len(self.images), "pixels": digest.hexdigest()[:12], "seed": self.seed}

    def key(self, settings: str) -> str:
        """Twelve hex digits of the identity and the settings of a report."""
        return hashlib.sha256(json.dumps([self.identity, settings]).encode()).hexdigest()[:12]

    def trajectory(self, images: Tensor, grid: TimeGrid | None = None) -> Trajectory:
        """The model's own solve of some of the images, every step saved; on another grid where one is given."""
        with torch.no_grad(), explicit_attention():
            solved = self.model.trajectory(images, grid)
        check_finite("trajectory", solved.x)
        return solved

    def stamped(self, report: Report) -> Report:
        """The report with this subject's name, seed and images in its provenance."""
        origin = replace(report.provenance, model=self.name, seed=self.seed, note=report.provenance.note or self.source)
        return replace(report, provenance=origin)


def subject(model: Any, data: Any, *, images: int | None = None, seed: int = 0, device: Any = None) -> Subject:
    """The subject of an analysis, checked.

    Args:
        model: an ODEViT or ViT, or the path of a model folder.
        data: an ImageSet; images alone; or (images, labels). uint8 is normalised as the model wants it, floats are taken as
            they are.
        images: at most this many, evenly spaced.   device: where to compute; where the model is unless given.

    Raises:
        UserError: no model there, no or unfitting images. NonFiniteError: NaN or infinite weights, pixels, or a broken solve.
    """
    notes: list[str] = []
    if isinstance(model, (str, Path)):
        notes += _stored(Path(model))
        model = load_model(model)
    if not isinstance(model, Backbone):
        raise UserError(f"model: a {type(model).__name__} is neither an ODEViT, a ViT nor the path of one")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        double = as_float64(model).to(device or model.head.weight.device)
    notes += [str(w.message).removeprefix("analysis: ") for w in said]
    pixels, labels, source = _unpacked(data)
    chosen = torch.arange(len(pixels))
    if images is not None:
        if isinstance(images, bool) or int(images) != images or images < 1:
            raise UserError(f"images: {images} is not a positive number of images")
        chosen = torch.arange(min(images, len(pixels))) * len(pixels) // min(images, len(pixels))
    pixels = pixels[chosen]
    pixels = double.preprocess(pixels) if pixels.dtype == torch.uint8 else pixels
    check_finite("images", pixels)
    made = Subject(
        double, f"{type(model).__name__} {model_hash(model)}", pixels.to(double.head.weight),
        None if labels is None else labels[chosen], int(seed), f"{len(pixels)} images of {source}", tuple(notes),
    )  # fmt: skip
    made.trajectory(made.images[:1])
    return made


def _unpacked(data: Any) -> tuple[Tensor, Tensor | None, str]:
    """(images, labels or None, where they come from)."""
    if isinstance(data, ImageSet):
        images, labels, source = data.images, data.labels, f"{data.source}, {data.split}"
    elif isinstance(data, Tensor):
        images, labels, source = data, None, "a tensor"
    elif isinstance(data, Sequence) and len(data) == 2 and all(isinstance(part, Tensor) for part in data):
        (images, labels), source = data, "a tensor"
    else:
        raise UserError(f"data: {type(data).__name__}; give an ImageSet, images (M, C, H, W), or (images, labels)")
    if images.ndim != 4 or len(images) == 0:
        raise UserError(f"images: shape {tuple(images.shape)}; at least one image (M, C, H, W) is needed")
    if labels is not None and tuple(labels.shape) != (len(images),):
        raise UserError(f"labels: shape {tuple(labels.shape)} for {len(images)} images")
    return images, labels, source


def _stored(folder: Path) -> list[str]:
    """A note where the weights are stored in half precision."""
    try:
        header = safetensors_header(folder / "model.safetensors") or {}
    except OSError:
        return []
    half = sorted({entry["dtype"] for entry in header.values() if isinstance(entry, dict) and entry.get("dtype") in HALF})
    return [f"weights stored as {', '.join(half)} were cast to float64; they keep their rounding"] if half else []
