"""Where a teacher lies: a folder with config.json, a folder of the Hugging Face cache, or a bare file; no network."""

import json
import logging
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from ..checkpoint import diagnose, load_tensors
from ..checkpoint.diagnosis import missing
from ..checkpoint.restoring import listing
from ..errors import UserError

log = logging.getLogger("odevit")

WEIGHTS = (
    "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json",
    "pytorch_model.pth", "model.pth",
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """A teacher on disk.

    Attributes:
        where: folder or file, for messages.
        weights: the file that holds the weights, or the index of its shards.
        config: config.json; empty for a bare file.
        preprocessing: preprocessor_config.json; empty where there is none.
    """

    where: Path
    weights: Path
    config: dict[str, Any] = field(default_factory=dict)
    preprocessing: dict[str, Any] = field(default_factory=dict)

    def tensors(self) -> dict[str, Tensor]:
        """The named tensors of the file, or of all shards."""
        return _shards(self.weights) if self.weights.name.endswith(".index.json") else load_tensors(self.weights)


def locate(path) -> Found:
    """The teacher at a path, `local-dir:` path, cache folder (models--x--y, one snapshot of it, or the cache itself), or the
    name "x/y" of a model that lies in the cache.

    Raises:
        UserError: nothing there, or a folder without config or weights; says what was looked for and what was found.
    """
    place = _snapshot(_existing(path))
    if place.is_file() and place.name in WEIGHTS and (place.parent / "config.json").is_file():
        place = place.parent
    if place.is_file():
        return Found(place, place)
    config = place / "config.json"
    if not config.is_file():
        raise UserError(f"{place}: no config.json; found: {listing(place)} (a bare weights file is given by its own path)")
    weights = next((place / name for name in WEIGHTS if (place / name).exists()), None)
    if weights is None:
        raise UserError(f"{place}: no weights; looked for: {', '.join(WEIGHTS)}; found: {listing(place)}")
    beside = place / "preprocessor_config.json"
    return Found(place, weights, read_json(config), read_json(beside) if beside.is_file() else {})


def read_json(file: Path) -> dict[str, Any]:
    """The object in a JSON file; UserError where it is broken or something else."""
    problem = diagnose(file)
    if problem:
        raise UserError(f"{file}: {problem}")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read ({error})") from None
    if not isinstance(content, dict):
        raise UserError(f"{file}: expected an object, got {type(content).__name__}")
    return content


def _existing(path) -> Path:
    name = str(path).removeprefix("local-dir:")
    place = Path(name).expanduser()
    if place.exists():
        return place
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        cached = _cache() / f"models--{name.replace('/', '--')}"
        if cached.is_dir():
            log.info("%s: taken from the Hugging Face cache", name)
            return cached
        raise UserError(f"{name}: no such file or folder, and not in the cache {_cache()}; nothing is downloaded")
    raise UserError(f"{place}: {missing(place)}")


def _cache() -> Path:
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()


def _snapshot(place: Path) -> Path:
    """The snapshot that a cache folder points to; any other place as it is."""
    if not place.is_dir() or (place / "config.json").exists():
        return place
    models = sorted(p for p in place.glob("models--*") if p.is_dir())
    if models:
        if len(models) > 1:
            raise UserError(f"{place}: holds several models; give one of them: {', '.join(p.name for p in models[:8])}")
        return _snapshot(models[0])
    if not (place / "snapshots").is_dir():
        return place
    there = sorted(p for p in (place / "snapshots").iterdir() if p.is_dir())
    main = place / "refs" / "main"
    chosen = [p for p in there if main.is_file() and p.name == main.read_text().strip()] or there
    if len(chosen) != 1:
        found = ", ".join(p.name for p in there[:4]) or "nothing"
        raise UserError(f"{place}: no refs/main that says which snapshot to take; give one of snapshots/: {found}")
    return chosen[0]


def _shards(index: Path) -> dict[str, Tensor]:
    """The tensors that an index lists, from the files that it names, all in its own folder."""
    listed = read_json(index).get("weight_map")
    if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
        raise UserError(f"{index}: has no weight_map of tensor names to files")
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(listed.values())):
        if Path(name).name != name:
            raise UserError(f"{index}: names a file outside its folder ({name})")
        if not (index.parent / name).exists():
            raise UserError(f"{index.parent}: shard {name} is missing; found: {listing(index.parent)}")
        tensors |= load_tensors(index.parent / name)
    lost = [name for name in listed if name not in tensors]
    if lost:
        raise UserError(f"{index}: {len(lost)} tensors are in none of its files ({', '.join(lost[:3])})")
    return tensors
