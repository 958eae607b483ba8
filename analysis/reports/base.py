"""Report: what an analysis returns, NumPy arrays with named axes, units and provenance, and its exact round trip through files.

PATH.npz holds the arrays, PATH.json beside it everything else (kind, format, units, axes, provenance, numbers and words).
"""

import csv
import io
import json
import math
import os
import sys
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from odevit.errors import UserError
from odevit.revision import commit

FORMAT = 1  # raised when a file of this version cannot be read by the code before it


@cache
def _version() -> str:
    try:
        return f"odevit {metadata.version('odevit')}"
    except metadata.PackageNotFoundError:
        return "odevit"


@dataclass(frozen=True)
class Provenance:
    """Where a number comes from; '' or None where it is not known.

    Attributes:
        model: hash of the weights, or a name.   dtype, device: of the computation.   seed: of start vectors and samples.
        command: the command line.   commit: of this code, + where files were changed.   created_by: program and version.
        note: anything a reader must know to read the number right, one line.
    """

    model: str = ""
    dtype: str = ""
    device: str = ""
    seed: int | None = None
    command: str = field(default_factory=lambda: " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]) if sys.argv[0] else "")
    commit: str = field(default_factory=commit)
    created_by: str = field(default_factory=_version)
    note: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """Base of all reports. A subclass is a `@dataclass(frozen=True, kw_only=True, eq=False)` whose fields are NumPy arrays,
    numbers, words, None, or tuples and dicts (with text keys) of these; it names its axes and units in `axes` and `units`.

    An array with one axis more than `axes` says has the samples first, axis "batch"; give a number that may come per sample
    the axes (). The class name is the kind of the file.
    """

    provenance: Provenance = field(default_factory=Provenance)

    axes: ClassVar[dict[str, tuple[str, ...]]] = {}
    units: ClassVar[dict[str, str]] = {}
    kinds: ClassVar[dict[str, type["Report"]]] = {}

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        Report.kinds[cls.__name__] = cls

    def __post_init__(self):
        for f in fields(self):
            if f.name != "provenance":
                object.__setattr__(self, f.name, _plain(getattr(self, f.name), f"{self.kind}.{f.name}"))

    @property
    def kind(self) -> str:
        """Name of the class, as it stands in the file."""
        return type(self).__name__

    def values(self) -> dict[str, Any]:
        """All fields but the provenance, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "provenance"}

    def axes_of(self, name: str) -> tuple[str, ...]:
        """Names of the axes of the array under `name` ("parts.mlp" for an entry of a dict); the entry's or the field's own."""
        value: Any = self.values()
        for part in name.split("."):
            value = value[int(part)] if isinstance(value, tuple) else value[part]
        ndim, first = np.ndim(value), name.split(".")[0]
        named = self.axes.get(name, self.axes.get(first))
        if named is not None and ndim - len(named) in (0, 1):
            return ("batch",) * (ndim - len(named)) + named
        return tuple(f"{name}_{i}" for i in range(ndim))

    def save(self, path) -> Path:
        """Write PATH.npz and PATH.json, each under a temporary name first; returns the path of the .npz."""
        arrays: dict[str, np.ndarray] = {}
        body = {name: _encode(value, name, arrays) for name, value in self.values().items()}
        head = {"kind": self.kind, "format": FORMAT, "provenance": asdict(self.provenance)}
        head |= {"units": dict(self.units), "axes": {name: list(self.axes_of(name)) for name in arrays}, "fields": body}
        target = Path(path).with_suffix(".npz")
        target.parent.mkdir(parents=True, exist_ok=True)
        _write(target, lambda file: np.savez_compressed(file, **arrays))  # type: ignore[arg-type]
        text = json.dumps(head, indent=1, allow_nan=False)
        _write(target.with_suffix(".json"), lambda file: file.write(text.encode()))
        return target

    @classmethod
    def load(cls, path):
        """The report saved under PATH.npz, of its own kind.

        Raises UserError in one line for a missing or damaged file, a newer format, an unknown kind or another kind than `cls`.
        """
        target = Path(path).with_suffix(".npz")
        try:
            head = json.loads(target.with_suffix(".json").read_text())
            kind, version = head["kind"], head["format"]
            if version > FORMAT:
                raise UserError(f"{target}: format {version} was written by a newer version; this one reads up to {FORMAT}")
            found = Report.kinds.get(kind)
            if found is None or not issubclass(found, cls):
                raise UserError(f"{target}: holds a {kind}, not a {cls.__name__}")
            with np.load(target, allow_pickle=False) as arrays:
                values = {name: _decode(value, arrays) for name, value in head["fields"].items()}
            return found(provenance=Provenance(**head["provenance"]), **values)
        except FileNotFoundError as error:
            raise UserError(f"{error.filename}: no such report (a report is NAME.npz with NAME.json)") from None
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"{target}: damaged report ({type(error).__name__}: {str(error).splitlines()[0]})") from None

    def to_json(self, path) -> Path:
        """Write everything as readable JSON: arrays as lists, NaN and infinity as null, complex numbers as {"re", "im"}."""
        target = Path(path).with_suffix(".json")
        content = {"kind": self.kind, "format": FORMAT, "units": dict(self.units), "provenance": asdict(self.provenance)}
        text = json.dumps(content | {name: _readable(v) for name, v in self.values().items()}, indent=1, allow_nan=False)
        _write(target, lambda file: file.write(text.encode()))
        return target

    def to_csv(self, path) -> Path:
        """Write one tidy table, a row for each index: a column for each axis and each quantity, with its unit in the header.

        Quantities on the same axes share rows, other cells stay empty; complex numbers have columns re, im and abs.
        """
        target = Path(path).with_suffix(".csv")
        flat = dict(_flatten(self.values()))
        axes = {name: self.axes_of(name) for name in flat}
        columns = list(dict.fromkeys(axis for names in axes.values() for axis in names))
        header = [f"{axis}{self._unit(axis)}" for axis in columns]
        quantities = [name for name in flat if axes[name] != (name,)]  # an axis's own values stand in its column
        parts = {name: _parts(np.asarray(flat[name])) for name in quantities}
        header += [f"{name}{suffix}{self._unit(name)}" for name in quantities for suffix in parts[name]]
        table = io.StringIO()
        csv.writer(table, lineterminator="\n").writerows([header, *self._rows(flat, axes, columns, parts)])
        _write(target, lambda file: file.write(table.getvalue().encode()))
        return target

    def _unit(self, name: str) -> str:
        unit = self.units.get(name, self.units.get(name.split(".")[0], ""))
        return f" [{unit}]" if unit else ""

    def _rows(self, flat, axes, columns, parts):
        width = len(columns) + sum(len(p) for p in parts.values())
        starts, at = {}, len(columns)
        for name, part in parts.items():
            starts[name], at = at, at + len(part)
        for group in dict.fromkeys((axes[name], np.shape(flat[name])) for name in parts):
            names = [name for name in parts if (axes[name], np.shape(flat[name])) == group]
            for index in np.ndindex(*group[1]):
                row: list[Any] = [""] * width
                for axis, i in zip(group[0], index):
                    row[columns.index(axis)] = flat[axis][i] if axes.get(axis) == (axis,) and i < len(flat[axis]) else i
                for name in names:
                    row[starts[name] : starts[name] + len(parts[name])] = [p[index] for p in parts[name].values()]
                yield row


def _plain(value, where: str):
    """`value` with NumPy scalars as Python's; TypeError for what a report cannot hold."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value
    if isinstance(value, (tuple, list)):
        return tuple(_plain(v, f"{where}[{i}]") for i, v in enumerate(value))
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(v, f"{where}.{key}") for key, v in value.items()}
    raise TypeError(f"{where}: a report holds NumPy arrays, numbers and words, not {type(value).__name__}")


def _encode(value, name: str, arrays: dict[str, np.ndarray]):
    """JSON that `_decode` turns back into exactly `value`; arrays go to `arrays` under their dotted name."""
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, dict):
        return {"dict": {key: _encode(v, f"{name}.{key}", arrays) for key, v in value.items()}}
    if isinstance(value, tuple):
        return [_encode(v, f"{name}.{i}", arrays) for i, v in enumerate(value)]
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    return {"float": repr(value)} if isinstance(value, float) and not math.isfinite(value) else value


def _decode(value, arrays):
    if isinstance(value, list):
        return tuple(_decode(v, arrays) for v in value)
    if not isinstance(value, dict):
        return value
    (tag, content), = value.items()  # fmt: skip
    if tag == "array":
        return arrays[content]
    if tag == "dict":
        return {key: _decode(v, arrays) for key, v in content.items()}
    return float(content) if tag == "float" else complex(*map(float, content))


def _readable(value):
    if isinstance(value, np.ndarray):
        return _readable(value.tolist())
    if isinstance(value, dict):
        return {key: _readable(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_readable(v) for v in value]
    if isinstance(value, complex):
        return {"re": _readable(value.real), "im": _readable(value.imag)}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _flatten(values: dict[str, Any], prefix: str = ""):
    """(dotted name, array or scalar) of all that is inside; None is left out."""
    for key, value in values.items():
        if isinstance(value, (dict, tuple)):
            inner = value if isinstance(value, dict) else {str(i): v for i, v in enumerate(value)}
            yield from _flatten(inner, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value


def _parts(value: np.ndarray) -> dict[str, np.ndarray]:
    return {" re": value.real, " im": value.imag, " abs": np.abs(value)} if np.iscomplexobj(value) else {"": value}


def _write(target: Path, content) -> None:
    """Write a file under a temporary name and rename it, so that a half-written one is never read."""
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        content(file)
    temporary.replace(target)
