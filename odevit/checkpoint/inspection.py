"""Say what any file or folder is, in a few lines; nothing in it is executed."""

import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from ..errors import UserError
from .conversion import read_torch, state_dict_of
from .diagnosis import diagnose, missing, safetensors_header, sniff
from .restoring import listing, read_config
from .states import MARK

_SHOWN = (
    "img_size", "patch_size", "embed_dim", "num_heads", "registers", "stem", "attention", "norm", "blocks", "depth",
    "num_classes",
)  # fmt: skip


def inspect(path) -> str:
    """What a file or folder is, in a few lines, the first of which begins with the path; also for broken and foreign ones.

    Raises UserError where there is no such path, with the nearest name.
    """
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path}: {missing(path)}")
    try:
        lines = _folder(path) if path.is_dir() else _file(path)
    except UserError as error:
        lines = [str(error).removeprefix(f"{path}: ")]
    except OSError as error:
        lines = [f"cannot be read ({error.strerror or error})"]
    return "\n  ".join([f"{path}: {lines[0]}", *lines[1:]])


def _file(path: Path) -> list[str]:
    broken = diagnose(path)
    if broken:
        return [broken]
    kind = sniff(path)
    readers = {
        "safetensors": _safetensors, "torch": _torch, "torch legacy": _torch, "npz": _npz, "json": _json, "image": _image,
    }  # fmt: skip
    if kind in readers:
        return readers[kind](path)
    named = {"npy": "a single NumPy array", "text": "a text file", "unknown": "a file of unknown kind"}
    return [f"{named.get(kind, f'a {kind} file')}, {path.stat().st_size:,} bytes"]


def _folder(path: Path) -> list[str]:
    names = {p.name for p in path.iterdir()}
    if "config.json" in names:
        config = _read_json(path / "config.json")
        if isinstance(config, dict) and "format" not in config:
            return _foreign_folder(config, names)
    if {"config.json", "model.safetensors"} & names:
        return _model_folder(path, names)
    reports = [name for name in sorted(names) if name.endswith(".npz") and f"{name[:-4]}.json" in names]
    if reports:
        return [f"a folder of {len(reports)} reports: {', '.join(name[:-4] for name in reports[:12])}"]
    nested = [p.name for p in sorted(path.iterdir()) if (p / "config.json").is_file()]
    if nested:
        return [f"a folder of {len(nested)} model folders: {', '.join(nested[:12])}"]
    return [f"no config.json; found: {listing(path)}" if names else "an empty folder"]


def _model_folder(path: Path, names: set[str]) -> list[str]:
    config = read_config(path)
    model, solver, data = (config.get(key, {}) for key in ("model", "solver", "data"))
    what = "discrete ViT" if config.get("kind") == "vit" else "ODE-ViT"
    lines = [f"a model folder (format {config['format']}): {what}"]
    lines.append("model: " + ", ".join(f"{key} {model[key]}" for key in _SHOWN if key in model))
    lines.append("solver: " + ", ".join(f"{key} {solver[key]}" for key in ("method", "horizon", "steps") if key in solver))
    lines.append(f"data: {data.get('source') or 'not recorded'}, {len(data.get('classes', []))} class names")
    facts = {k: v for k, v in config.get("training", {}).items() if isinstance(v, (int, float, str))}
    if facts:
        lines.append("training: " + ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in facts.items()))
    if "model.safetensors" in names:
        lines.append("weights: " + _file(path / "model.safetensors")[0])
    else:
        lines.append(f"weights: no model.safetensors; found: {listing(path)}")
    others = sorted(n for n in names if n not in ("config.json", "model.safetensors", "README.md") and not n.startswith("."))
    if others:
        lines.append(f"also there: {', '.join(others[:8])}")
    return lines


def _foreign_folder(config: dict[str, Any], names: set[str]) -> list[str]:
    weights = sorted(n for n in names if n.endswith((".safetensors", ".bin", ".pt", ".pth", ".index.json")))
    held = f"weights: {', '.join(weights[:6])}" if weights else "no weights beside it"
    if "model_type" in config:
        named = ", ".join(config.get("architectures") or [])
        return [f"a Hugging Face folder, model_type {config['model_type']}{f' ({named})' if named else ''}", held]
    if "architecture" in config:
        return [f"a timm folder, architecture {config['architecture']}, num_classes {config.get('num_classes', '?')}", held]
    return [f"a folder with a config.json of another tool (keys: {', '.join(list(config)[:8])})", held]


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error})") from None


def _json(path: Path) -> list[str]:
    try:
        content = _read_json(path)
    except UserError:
        if path.suffix == ".json":
            raise
        return [f"a text file, {path.stat().st_size:,} bytes"]
    if not isinstance(content, dict):
        return [f"a JSON file with a list of {len(content)}"]
    if "weight_map" in content:
        shards = sorted(set(content["weight_map"].values()))
        absent = [shard for shard in shards if not (path.parent / shard).exists()]
        there = f"missing: {', '.join(absent[:4])}" if absent else "all there"
        return [f"the index of a sharded checkpoint: {len(content['weight_map'])} tensors in {len(shards)} files ({there})"]
    if "provenance" in content and "kind" in content:
        return [f"the description of a report, kind {content['kind']}; its arrays are in {path.with_suffix('.npz').name}"]
    if "model_type" in content or "architecture" in content:
        return _foreign_folder(content, {p.name for p in path.parent.iterdir()})
    if isinstance(content.get("format"), int) and "kind" in content:
        return [f"the config of an odevit model (format {content['format']}, kind {content['kind']})"]
    return [f"a JSON file (keys: {', '.join(list(content)[:8])})"]


def _safetensors(path: Path) -> list[str]:
    header = safetensors_header(path) or {}
    metadata = header.pop("__metadata__", {})
    shapes = {name: (entry["dtype"], math.prod(entry["shape"])) for name, entry in header.items()}
    own = ", of odevit" if "odevit" in metadata else ""
    return [f"a safetensors file{own}: {_totals(shapes)}", f"names: {_prefixes(list(shapes))}"]


def _totals(shapes: dict[str, tuple[str, int]]) -> str:
    kinds = ", ".join(sorted({dtype for dtype, _ in shapes.values()})) or "none"
    return f"{len(shapes)} tensors, {sum(n for _, n in shapes.values()):,} numbers, dtype {kinds}"


def _prefixes(names: list[str]) -> str:
    counts: dict[str, int] = {}
    for name in names:
        start = name.partition(".")[0]
        counts[start] = counts.get(start, 0) + 1
    shown = [f"{start} ({n})" if n > 1 else start for start, n in list(counts.items())[:8]]
    wrapped = {"module": "DDP", "_orig_mod": "torch.compile"}
    notes = [f"; prefix of {tool}, stripped on load" for start, tool in wrapped.items() if start in counts]
    return ", ".join(shown) + (", .." if len(counts) > 8 else "") + "".join(notes)


def _torch(path: Path) -> list[str]:
    content = read_torch(path)
    if isinstance(content, dict) and MARK in content:
        state = content["state"]
        epoch = state.get("progress", {}).get("epoch") if isinstance(state.get("progress"), dict) else state.get("epoch")
        at = "" if epoch is None else f" after epoch {epoch}"
        return [f"an odevit training state{at} (format {content[MARK]}): {', '.join(map(str, state))}"]
    if isinstance(content, Tensor):
        return [f"a torch file: one tensor {tuple(content.shape)}, {content.dtype}"]
    if not isinstance(content, dict):
        return [f"a torch file that holds a {type(content).__name__}"]
    keys = f"keys: {', '.join(map(str, list(content)[:8]))}{', ..' if len(content) > 8 else ''}"
    try:
        tensors = state_dict_of(content, path)
    except UserError:
        return ["a torch file without named tensors", keys]
    shapes = {name: (str(t.dtype).removeprefix("torch."), t.numel()) for name, t in tensors.items()}
    return [f"a torch file (weights-only loadable): {_totals(shapes)}", keys, f"names: {_prefixes(list(shapes))}"]


def _npz(path: Path) -> list[str]:
    arrays = []
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist()[:12]:
            with archive.open(name) as file:
                version = np.lib.format.read_magic(file)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(file)
            arrays.append(f"{name.removesuffix('.npy')} {shape} {'object (refused)' if dtype.hasobject else dtype}")
        more = max(0, len(archive.namelist()) - 12)
    kind = "a .npz file"
    if any(a.startswith("train_images ") for a in arrays):
        kind = "a dataset with MedMNIST's array names (.npz)"
    described = path.with_suffix(".json")
    if described.is_file():
        head = _read_json(described)
        if isinstance(head, dict) and "provenance" in head:
            kind = f"the arrays of a report, kind {head.get('kind')}"
    return [f"{kind}: {'; '.join(arrays)}{f' and {more} more' if more else ''}"]


def _image(path: Path) -> list[str]:
    from PIL import Image

    try:
        with Image.open(path) as image:
            return [f"an image ({image.format}), {image.width} x {image.height} pixels, mode {image.mode}"]
    except Exception as error:  # Pillow's plugins raise many kinds for damaged files
        return [f"an image that cannot be read ({type(error).__name__}: {str(error).splitlines()[0][:100]})"]
