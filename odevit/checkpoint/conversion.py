"""Tensors of foreign files: safetensors, or torch files read weights-only; `convert(trust=True)` reads what they refuse."""

import dataclasses
import json
import logging
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from torch import Tensor

from ..errors import UserError
from .diagnosis import TRUST, diagnose, sniff
from .saving import make_folder, plain, serialise, write_atomically

log = logging.getLogger("odevit")

NESTS = ("state_dict", "model", "model_state_dict", "teacher", "model_ema", "state_dict_ema")


def load_tensors(path) -> dict[str, Tensor]:
    """The named tensors of a file, on the CPU; nothing in the file is executed.

    Args:
        path: a safetensors file, or a torch file (.pt, .pth, .bin) that weights-only loading accepts. A state dict inside
            "state_dict", "model", "teacher" or "model_ema" is found; what was taken and what was left is logged.

    Raises:
        UserError: a broken file (`diagnose`), a file with other objects than tensors (the class is named), no tensors.
    """
    if diagnose(path) is None and sniff(path) == "safetensors":
        return read_safetensors(path)[0]
    return state_dict_of(read_torch(path), path)


def read_safetensors(path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """(tensors, metadata) of a safetensors file; UserError with a one-line diagnosis where it is something else or broken."""
    problem = diagnose(path)
    if problem is None and sniff(path) != "safetensors":
        problem = f"not a safetensors file ({sniff(path)})"
    if problem:
        raise UserError(f"{path}: {problem}")
    try:
        with safetensors.safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path}: damaged safetensors file ({_first_line(error)})") from None


def read_torch(path) -> Any:
    """What a torch file holds, read weights-only to the CPU; UserError where that is refused, with the class named."""
    problem = diagnose(path)
    if problem is None and sniff(path) not in ("torch", "torch legacy"):
        problem = f"not a checkpoint ({sniff(path)} file)"
    if problem:
        raise UserError(f"{path}: {problem}")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file raises whatever the bytes lead to
        raise UserError(f"{path}: {_refusal(error, path)}") from None


def _refusal(error: Exception, path) -> str:
    """torch's several lines without its advice to switch the check off."""
    blocked = re.search(r"GLOBAL ([\w.]+)", str(error))
    if isinstance(error, pickle.UnpicklingError) and "nsupported" in str(error):
        needed = blocked[1] if blocked else "objects other than tensors"
        return f"needs {needed}, which weights-only loading refuses; {TRUST.format(path=path)}"
    return f"damaged torch file ({type(error).__name__}: {_first_line(error)})"


def _first_line(error: Exception) -> str:
    line = (str(error) or "no text").splitlines()[0].split(". ")[0]
    return line[:120]


def state_dict_of(content: Any, path) -> dict[str, Tensor]:
    """The named tensors inside what a torch file holds: the dict itself or one of the usual nests (`NESTS`), logged."""
    taken: list[str] = []
    while isinstance(content, dict):
        nest = next((key for key in NESTS if _has_tensors(content.get(key))), None)
        if nest is None:
            break
        others = [str(key) for key in content if key != nest]
        taken.append(nest)
        log.info("%s: took %r%s", path, ".".join(taken), f"; left {', '.join(others[:6])}" if others else "")
        content = content[nest]
    if not isinstance(content, dict):
        raise UserError(f"{path}: holds a {type(content).__name__}, not named tensors")
    tensors = {str(key): value for key, value in content.items() if isinstance(value, Tensor)}
    if not tensors:
        raise UserError(f"{path}: holds no named tensors; found: {', '.join(map(str, list(content)[:8])) or 'nothing'}")
    left = [str(key) for key in content if str(key) not in tensors]
    if left:
        log.info("%s: left what is not a tensor: %s", path, ", ".join(left[:6]))
    return {name: tensor.detach() for name, tensor in tensors.items()}


def _has_tensors(value: Any) -> bool:
    return isinstance(value, dict) and any(isinstance(v, Tensor) or _has_tensors(v) for v in value.values())


def convert(path, out, *, trust: bool = False) -> list[Path]:
    """Write the tensors of a foreign checkpoint as safetensors, and its plain hyperparameters as JSON beside it.

    Args:
        path: a safetensors, torch or pickle file.
        out: the safetensors file to write (".safetensors" is added where it is missing); replaced where it exists.
        trust: unpickle what weights-only loading refuses. THIS RUNS ANY CODE THAT THE FILE HOLDS.

    Returns:
        The files that were written.

    Raises:
        UserError: a broken file; without trust, a file that holds other objects than tensors and plain data.
    """
    content = _content(path, trust)
    tensors = state_dict_of(content, path)
    target = Path(out) if Path(out).suffix == ".safetensors" else Path(f"{out}.safetensors")
    try:
        data = serialise({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})
    except (ValueError, RuntimeError, safetensors.SafetensorError) as error:
        raise UserError(f"{path}: cannot be written as safetensors ({_first_line(error)})") from None
    make_folder(target.parent)
    write_atomically(target, data)
    others = {str(k): plain(v) for k, v in content.items() if not isinstance(v, Tensor) and not _has_tensors(v)}
    if not others:
        return [target]
    beside = target.with_suffix(".json")
    write_atomically(beside, (json.dumps(others, indent=2, ensure_ascii=False) + "\n").encode())
    return [target, beside]


def _content(path, trust: bool) -> Any:
    """What the file holds; code in it runs only where weights-only loading refused it and the caller trusts it."""
    kind = sniff(path) if Path(path).is_file() else None
    if kind == "safetensors":
        return read_safetensors(path)[0]
    try:
        return read_torch(path)
    except UserError:
        if not trust or kind not in ("torch", "torch legacy", "pickle"):
            raise
    return _opened(_unpickle(path))


def _unpickle(path) -> Any:
    """The one place where a file's own code may run."""
    log.warning("%s: unpickling a trusted file; code inside it runs now", path)
    try:
        if sniff(path) == "pickle":
            with Path(path).open("rb") as file:
                return pickle.load(file)
        return torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # whatever the file's code raises
        raise UserError(f"{path}: cannot be unpickled ({type(error).__name__}: {_first_line(error)})") from None


def _opened(value: Any) -> Any:
    """Modules as state dicts, namespaces and dataclasses as dicts, NumPy arrays of numbers as tensors, at any depth."""
    if isinstance(value, torch.nn.Module):
        return dict(value.state_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif type(value).__name__ in ("Namespace", "SimpleNamespace"):
        value = vars(value)
    if isinstance(value, Mapping):
        return {key: _opened(item) for key, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return torch.from_numpy(np.ascontiguousarray(value))
    return value
