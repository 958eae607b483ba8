"""Write a model folder so that a kill at any moment leaves a loadable one.

Every file is written to a temporary name beside it, synced and renamed. The weights go first and carry a copy of the config:
a kill between the two renames leaves new weights with an old config.json, which their `save` marks tell (`read_config`).
"""

import contextlib
import hashlib
import json
import math
import os
import struct
from pathlib import Path, PurePath
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from ..backbone import Backbone
from ..config import ViTConfig, to_dict
from ..errors import UserError
from .cards import model_card

FORMAT = 1


def save_model(model: Backbone, path, *, card: str | None = None, extra: dict | None = None) -> None:
    """Write config.json, model.safetensors and README.md into a folder, which is made where it does not exist.

    Args:
        model: an ODEViT or a ViT; prefixes of torch.compile are left out of the names.
        card: text of README.md; a minimal honest one where none is given.
        extra: what is known of the training, plain data; stands in config.json under `training`.

    Raises:
        UserError: the disk is full or the folder cannot be written; the files that were there are intact.
    """
    folder = Path(path)
    make_folder(folder)
    config = describe(model) | {"training": plain(extra or {})}
    config["save"] = hashlib.sha256(json.dumps(config).encode()).hexdigest()[:12]
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    tensors = clean_state(model)
    card = card or model_card(name=folder.name, facts=config, parameters=sum(p.numel() for p in model.parameters()))
    write_atomically(folder / "model.safetensors", serialise(tensors, {"odevit": json.dumps(config)}))
    write_atomically(folder / "config.json", text.encode())
    write_atomically(folder / "README.md", card.encode())


def describe(model: Backbone) -> dict[str, Any]:
    """What the model is, as plain data: format, kind, model, solver, data."""
    return {
        "format": FORMAT,
        "kind": "vit" if isinstance(model.config, ViTConfig) else "odevit",
        "model": to_dict(model.config),
        "solver": to_dict(model.solver),
        "data": to_dict(model.inputs),
    }


def clean_state(model: torch.nn.Module) -> dict[str, Tensor]:
    """The model's weights and buffers on the CPU, contiguous, under the names of the uncompiled model."""
    return {k.replace("_orig_mod.", ""): v.detach().cpu().contiguous() for k, v in model.state_dict().items()}


def serialise(tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file. The library orders the metadata at random; here equal input gives equal bytes."""
    distinct: dict[int, str] = {}
    for name, tensor in tensors.items():  # the format refuses shared storage
        if distinct.setdefault(tensor.untyped_storage().data_ptr(), name) != name:
            tensors = tensors | {name: tensor.clone()}
    raw = safetensors.torch.save(tensors)
    (length,) = struct.unpack("<Q", raw[:8])
    header = {"__metadata__": {"format": "pt", **(metadata or {})}, **json.loads(raw[8 : 8 + length])}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + raw[8 + length :]


def write_atomically(path, data) -> None:
    """Replace a file by `data` (bytes) or leave it as it was; UserError with the path and the reason."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp")  # a fixed name, so that a killed save leaves at most one
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; UserError where that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({error.strerror or error})") from None


def sync_folder(folder: Path) -> None:
    """Make a rename in the folder last through a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def plain(value: Any) -> Any:
    """`value` as JSON-ready data: unknown objects become text, NumPy and 0-d values numbers, NaN and infinity null."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(v) for v in value]
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


def model_hash(model: Backbone) -> str:
    """Twelve hex digits over config (model, solver, data) and weights; the same on every device and in float32 and float64."""
    digest = hashlib.sha256(json.dumps(describe(model), sort_keys=True).encode())
    for name, tensor in sorted(clean_state(model).items()):
        exact = tensor.double() if tensor.is_floating_point() else tensor
        digest.update(f"{name} {tuple(tensor.shape)} ".encode())
        digest.update(exact.numpy().tobytes())
    return digest.hexdigest()[:12]


def file_hash(path) -> str:
    """Twelve hex digits of the file's SHA-256; UserError where it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:12]
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
