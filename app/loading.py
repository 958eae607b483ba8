"""Models for the browser: found in the folders given at start, read once, bounded in number, broken ones with the reason.

Only what lies in those folders is ever opened; a name that comes by URL is looked up in the list, never joined to a path.
"""

import json
import os
import shlex
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import streamlit as st

from analysis import as_float64
from odevit import teachers
from odevit.backbone import Backbone
from odevit.checkpoint import check_weights, diagnose, load_model, model_hash, read_config, sniff
from odevit.checkpoint.restoring import parse_config
from odevit.errors import NonFiniteError, UserError

FOLDERS = "ODEVIT_APP_FOLDERS"  # folders of models, separated as in PATH; checkpoints/ of the working folder unless set
KEPT_MODELS = 3  # in float32, of all visitors together; as many in float64
FILES = ("config.json", "model.safetensors")
MOST = {"steps": 2_000, "tokens": 5_000, "classes": 25_000}  # of a model that is opened here; a config can claim anything


@dataclass(frozen=True)
class Entry:
    """A model in the list.

    Attributes:
        name: unique in the list.   path: its folder.   kind: odevit, vit, foreign, or broken.   reason: why it is broken.
        stamp: changes with its files.   config: config.json.
    """

    name: str
    path: Path
    kind: str
    stamp: str
    reason: str = ""
    config: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def argument(self) -> str:
        """The folder as a shell takes it."""
        return shlex.quote(str(self.path))

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        return {"odevit": "ODE-ViT", "vit": "discrete ViT", "foreign": "discrete ViT of another tool"}.get(self.kind, "broken")

    @property
    def accuracy(self) -> float | None:
        """Validation accuracy that its config tells."""
        value = (self.config.get("training") or {}).get("val_accuracy")
        return float(value) if isinstance(value, (int, float)) else None

    @property
    def source(self) -> str:
        """Name of the data it was trained on, '' where it does not say."""
        return str((self.config.get("data") or {}).get("source") or "")


def folders() -> list[Path]:
    """The folders whose models are listed: those given at start, and what this visitor uploaded."""
    given = [Path(part) for part in os.environ.get(FOLDERS, "checkpoints").split(os.pathsep) if part]
    uploaded = st.session_state.get("uploaded_models")
    return [*given, *([Path(uploaded)] if uploaded else [])]


def models() -> tuple[Entry, ...]:
    """Every model of the folders by name, broken ones too; a changed file is noticed."""
    found: dict[str, Entry] = {}
    for root in folders():
        for path in _candidates(root):
            name = path.name if path.name not in found else f"{path.name} ({path.parent.name})"
            if name not in found:
                found[name] = _entry(name, str(path), _stamp(path))
    return tuple(found[name] for name in sorted(found))


def _candidates(root: Path) -> list[Path]:
    """Folders that hold a model or what is left of one; links out of the root are left out."""
    if not root.is_dir():
        return []
    inside = [p for p in sorted(root.iterdir()) if p.is_dir() and p.resolve().is_relative_to(root.resolve())]
    return [p for p in (root, *inside) if any((p / name).exists() for name in FILES)]


def _stamp(path: Path) -> str:
    """Sizes and times of the files of a model."""
    found = []
    for file in sorted(path.glob("*")):
        if file.suffix in (".json", ".safetensors"):
            with suppress(OSError):  # a link to nothing, or a file that has just gone
                facts = file.stat()
                found.append((file.name, facts.st_size, facts.st_mtime_ns))
    return repr(found)


@st.cache_data(max_entries=256, show_spinner=False)
def _entry(name: str, path: str, stamp: str) -> Entry:
    folder = Path(path)
    try:
        for file in FILES:
            if not (folder / file).exists():
                raise UserError(f"no {file}")
            if reason := diagnose(folder / file):
                raise UserError(f"{file}: {reason}")
        if sniff(folder / FILES[1]) != "safetensors":
            raise UserError(f"{FILES[1]}: not a safetensors file; nothing else is read here")
        config, kind = _described(folder)
    except Exception as error:  # whatever the bytes lead to: one model must not hide the others
        said = str(error) if isinstance(error, (UserError, NonFiniteError, OSError, ValueError)) else type(error).__name__
        return Entry(name, folder, "broken", stamp, _without(folder, name, said))
    return Entry(name, folder, kind, stamp, config=config)


def _without(folder: Path, name: str, said: str) -> str:
    """An error in one line that tells no visitor where the folder lies."""
    return " ".join(said.split()).replace(f"{folder}/", "").replace(str(folder), name)


def _described(folder: Path) -> tuple[dict[str, Any], str]:
    """config.json and the kind of a model; a folder of Hugging Face or timm is a teacher's."""
    try:
        raw = json.loads((folder / FILES[0]).read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{FILES[0]}: not valid JSON ({error})") from None
    if not isinstance(raw, dict):
        raise UserError("config.json: not a JSON object")
    if "format" not in raw and ("model_type" in raw or "architecture" in raw):
        return {}, "foreign"
    config = read_config(folder)
    _check_size(config, folder)
    training = config.get("training") or {}
    if not isinstance(training, dict) or not isinstance(training.get("run") or {}, dict):
        raise UserError("config.json: training, and run in it, must be JSON objects")
    return config, "vit" if config.get("kind") == "vit" else "odevit"


def _check_size(config: dict[str, Any], folder: Path) -> None:
    """Raise UserError for a config that is none, or claims more than this server will work for."""
    model, solver, _ = parse_config(config, folder)
    rows, columns = model.grid
    claimed = {"steps": getattr(model, "depth", solver.steps), "tokens": 1 + model.registers + rows * columns}
    for name, count in (claimed | {"classes": model.num_classes}).items():
        if count > MOST[name]:
            raise UserError(f"config.json: {count:,} {name}; at most {MOST[name]:,} are opened here")


@dataclass(frozen=True)
class Loaded:
    """A model in memory, shared by all visitors and never changed.   hash: kind, and hash of config and weights."""

    model: Backbone
    hash: str


def open_model(entry: Entry) -> Loaded:
    """The model of an entry, read once for all visitors.

    Raises:
        UserError: broken or unfitting files. NonFiniteError: NaN or infinite weights.
    """
    if entry.kind == "broken":
        raise UserError(f"{entry.name}: {entry.reason}")
    try:
        return _open(str(entry.path), entry.stamp, entry.kind)
    except (UserError, NonFiniteError) as error:
        reason = _without(entry.path, entry.name, str(error))
        raise type(error)(reason if entry.name in reason else f"{entry.name}: {reason}") from error
    except Exception as error:  # files of other tools raise whatever their sizes and names lead to
        raise UserError(f"{entry.name}: it cannot be read ({type(error).__name__})") from error


@st.cache_resource(max_entries=KEPT_MODELS, show_spinner=False)
def _open(path: str, stamp: str, kind: str) -> Loaded:
    model: Backbone = teachers.load(path) if kind == "foreign" else load_model(path)
    check_weights(model)
    model.eval().requires_grad_(False)
    return Loaded(model, f"{type(model).__name__} {model_hash(model)}")


def double(entry: Entry) -> Backbone:
    """The model in float64, for analyses."""
    return _double(str(entry.path), entry.stamp, entry.kind)


@st.cache_resource(max_entries=KEPT_MODELS, show_spinner=False)
def _double(path: str, stamp: str, kind: str) -> Backbone:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of weights stored in half precision; the page of the model says it
        return as_float64(_open(path, stamp, kind).model)
