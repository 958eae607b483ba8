"""dict <-> config: unknown keys, wrong types and bad values are refused with their dotted name and the nearest known one."""

import difflib
import numbers
import types
import typing
from dataclasses import fields, is_dataclass
from pathlib import Path, PurePath
from typing import Any, Literal, TypeVar, Union

from ..errors import UserError

Config = TypeVar("Config")


def nearest(name: str, known) -> str:
    """A hint for a misspelt name: ', did you mean X?' or '' where nothing is near.

    >>> nearest("eular", ["euler", "rk4"])
    ', did you mean euler?'
    """
    close = difflib.get_close_matches(str(name).lower(), [str(k) for k in known], n=1, cutoff=0.5)
    return f", did you mean {close[0]}?" if close else ""


def one_of(field_name: str, value: str, known) -> None:
    """Raise UserError unless `value` is one of `known`, naming the nearest."""
    if value not in known:
        raise UserError(f"{field_name}: unknown {value!r}{nearest(value, known)} (known: {', '.join(map(str, known))})")


def to_dict(config) -> dict[str, Any]:
    """A config as JSON-ready plain data; nested configs become nested dicts, tuples lists."""

    def plain(value):
        if is_dataclass(value):
            return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
        if isinstance(value, PurePath):
            return str(value)
        return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value

    return plain(config)


def from_dict(cls: type[Config], data: dict[str, Any], where: str = "config") -> Config:
    """Build `cls` from plain data; unknown keys, wrong types and bad values raise UserError with their dotted name."""
    if not isinstance(data, dict):
        raise UserError(f"{where}: expected an object, got {type(data).__name__}")
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    for key in data:
        if key not in known:
            raise UserError(f"{where}: unknown key {key!r}{nearest(key, known)}")
    hints = typing.get_type_hints(cls)
    return cls(**{key: _read(hints[key], value, f"{where}.{key}") for key, value in data.items()})


def _read(hint, value, where: str):
    """`value` as the type `hint` asks for; UserError where it is not."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _read_one_of(args, value, where)
    if origin is Literal:
        one_of(where, value, args)
        return value
    if origin is tuple and isinstance(value, (list, tuple)):
        kinds = [args[0]] * len(value) if args[-1] is Ellipsis else list(args)
        if len(kinds) == len(value):
            return tuple(_read(kind, v, where) for kind, v in zip(kinds, value))
    if is_dataclass(hint) and isinstance(value, dict):
        return from_dict(typing.cast(type, hint), value, where)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if hint in (int, float) and isinstance(value, numbers.Integral if hint is int else numbers.Real):
        if not isinstance(value, bool):
            return hint(value)  # an int for a float, NumPy's numbers
    elif isinstance(hint, type) and isinstance(value, hint):
        return value
    raise UserError(f"{where}: {value!r} is not {getattr(hint, '__name__', hint)}")


def _read_one_of(options, value, where: str):
    """`value` as the first type that takes it; otherwise the complaint of the one that knows most of its keys."""

    def strangers(option) -> int:
        return len(set(value) - {f.name for f in fields(option)}) if isinstance(value, dict) and is_dataclass(option) else 0

    errors = []
    for option in sorted(options, key=strangers):
        try:
            return _read(option, value, where)
        except UserError as error:
            errors.append(error)
    raise errors[0]
