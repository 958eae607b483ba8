"""Training state: what a run needs to go on with the same bits; tensors and plain containers only, read weights-only."""

import io
from pathlib import Path
from typing import Any

import torch

from ..errors import UserError
from .conversion import read_torch
from .saving import make_folder, write_atomically

MARK = "odevit training state"
_PLAIN = (int, float, str, bool, bytes, type(None), torch.Tensor, torch.nn.Parameter, torch.Size, torch.dtype, torch.device)


def save_training_state(path, state: dict[str, Any]) -> None:
    """Write a dict of tensors and plain containers to one file, which is replaced as a whole or not at all.

    Raises UserError for an entry of another type, named by its dotted path, and where the disk is full.
    """
    _refuse_objects(state, "state")
    buffer = io.BytesIO()
    torch.save({MARK: 1, "state": state}, buffer)
    make_folder(Path(path).parent)
    write_atomically(path, buffer.getbuffer())


def _refuse_objects(value: Any, where: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_objects(item, f"{where}.{key}")
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            _refuse_objects(item, f"{where}.{i}")
    elif type(value) not in _PLAIN:
        raise UserError(f"training state: {where} is a {type(value).__name__}, not a tensor or a plain value")


def load_training_state(path) -> dict[str, Any]:
    """The dict that `save_training_state` wrote, on the CPU; UserError where the file is missing, broken or something else."""
    content = read_torch(path)
    if not isinstance(content, dict) or MARK not in content:
        raise UserError(f"{path}: not a training state of odevit")
    if content[MARK] != 1:
        raise UserError(f"{path}: training state written by a newer version (format {content[MARK]})")
    return content["state"]
