"""What a file is by its first bytes, and what is wrong with it in one line; nothing is unpickled here."""

import json
import pickletools
import struct
import zipfile
from pathlib import Path
from typing import Any

from ..config import nearest

_MAGIC = {
    b"\x89PNG\r\n": "image", b"\xff\xd8\xff": "image", b"GIF8": "image", b"BM": "image", b"II*\0": "image", b"MM\0*": "image",
    b"\x93NUMPY": "npy", b"\x1f\x8b": "gzip", b"\x89HDF": "hdf5", b"version https://git-lfs": "lfs",
    b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19": "torch legacy",
}  # fmt: skip
_MAX_HEADER = 100_000_000  # the limit of the safetensors library

TRUST = "if you trust where it comes from: odevit convert --trust {path}"


def sniff(path) -> str:
    """The kind of a file: safetensors, torch, torch legacy, torchscript, pickle, npz, npy, zip, json, image, hdf5, gzip, text,
    unknown, or what is broken: empty, html, lfs, truncated zip, truncated safetensors. OSError where it cannot be read."""
    path = Path(path)
    with path.open("rb") as file:
        head = file.read(1024)
    if not head:
        return "empty"
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image"
    if head[:2] == b"PK":
        return _kind_of_zip(path)
    size = safetensors_size(path)
    if size is not None:
        return "safetensors" if size <= path.stat().st_size else "truncated safetensors"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head")) or (start.startswith(b"<?xml") and b"<html" in start):
        return "html"
    if _is_pickle(path, head):
        return "pickle"
    return _kind_of_text(head, start)


def _kind_of_zip(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return "truncated zip"
    if any(name.endswith("/data.pkl") for name in names):
        return "torchscript" if any(name.endswith("/constants.pkl") for name in names) else "torch"
    return "npz" if names and all(name.endswith(".npy") for name in names) else "zip"


def safetensors_header(path: Path) -> dict[str, Any] | None:
    """The header of a safetensors file: dtype, shape and offsets by name, and "__metadata__"; None where none is whole."""
    with path.open("rb") as file:
        start = file.read(8)
        (length,) = struct.unpack("<Q", start) if len(start) == 8 else (0,)
        if not 2 <= length <= min(_MAX_HEADER, path.stat().st_size - 8):
            return None
        try:
            header = json.loads(file.read(length))
        except ValueError:
            return None
    return header if isinstance(header, dict) else None


def safetensors_size(path: Path) -> int | None:
    """Bytes that a safetensors file has at least, by its header; None where it does not start like one."""
    with path.open("rb") as file:
        start = file.read(10)
    if len(start) < 10 or start[8:] not in (b'{"', b"{}"):
        return None
    (length,) = struct.unpack("<Q", start[:8])
    if 8 + length > path.stat().st_size:
        return 8 + length if length <= _MAX_HEADER else None
    header = safetensors_header(path)
    try:
        ends = [entry["data_offsets"][1] for name, entry in (header or {}).items() if name != "__metadata__"]
        return None if header is None else 8 + length + max(ends, default=0)
    except (KeyError, TypeError, IndexError):
        return None


def _is_pickle(path: Path, head: bytes) -> bool:
    """Binary protocols by their mark; the text protocols 0 and 1 by walking through the operations, none of which is run."""
    if head[0] == 0x80 and len(head) > 1 and head[1] in (2, 3, 4, 5):
        return True
    if head[:1] not in b"(c}]":
        return False
    try:
        with path.open("rb") as file:
            return sum(1 for _ in pickletools.genops(file)) > 2
    except (ValueError, IndexError, UnicodeDecodeError):
        return False


def _kind_of_text(head: bytes, start: bytes) -> str:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:  # not merely a character that the 1024 bytes cut
            return "unknown"
    if b"\0" in head:
        return "unknown"
    return "json" if start[:1] in (b"{", b"[") else "text"


def missing(path) -> str:
    """The sentence for a path that does not exist, with the nearest name beside it."""
    path = Path(path)
    beside = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
    return f"no such file or folder{nearest(path.name, beside)}"


def diagnose(path) -> str | None:
    """What is wrong with a checkpoint file, in one line without its path; None where first bytes and length are in order.

    A torch file is in order here; whether it holds only tensors is seen when it is read (weights-only, always).
    """
    path = Path(path)
    if not path.exists():
        return missing(path)
    if path.is_dir():
        return "is a folder, not a file"
    try:
        kind = sniff(path)
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    if kind == "truncated safetensors":
        return f"truncated safetensors file: {path.stat().st_size} of {safetensors_size(path)} bytes or more are there"
    if kind == "lfs":
        return f"a Git LFS pointer, not the file itself{_lfs_size(path)}; fetch it with: git lfs pull"
    return {
        "empty": "empty file (0 bytes): a save or download that was cut off",
        "html": "an HTML page, not a checkpoint: the download was led to a web page",
        "truncated zip": "truncated zip file: a torch checkpoint (or other archive) whose end is missing",
        "pickle": f"a plain Python pickle, which can run code when read; {TRUST.format(path=path)}",
        "torchscript": "a TorchScript archive, which holds code; save its state_dict as safetensors where it was made",
    }.get(kind)


def _lfs_size(path: Path) -> str:
    sizes = [line.split()[1] for line in path.read_text(errors="replace").splitlines() if line.startswith("size ")]
    return f" ({sizes[0]} bytes)" if sizes else ""
