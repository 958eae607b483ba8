"""What a model folder says of itself: its config, and the log of its training, of one run or of several seeds."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from odevit.errors import UserError

from .base import Report


@dataclass(frozen=True, kw_only=True, eq=False)
class ConfigReport(Report):
    """What a model is.

    Attributes:
        config: the entries of config.json: kind, model, solver, data, training.
    """

    config: dict[str, Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class HistoryReport(Report):
    """What was logged in training, for runs that differ in their seed only.

    Attributes:
        label: what the runs are.   runs: names (R,).   epoch: (E,), of the longest run.
        columns: quantity -> values (R, E); NaN where a run has no such epoch or entry.
    """

    label: str
    runs: tuple[str, ...]
    epoch: np.ndarray
    columns: dict[str, np.ndarray]

    axes: ClassVar[dict[str, tuple[str, ...]]] = {"epoch": ("epoch",), "columns": ("run", "epoch")}


def of_folder(folder) -> dict[str, Report]:
    """The reports "config" and "history" of a model folder, those whose files it has.

    Raises UserError for a damaged file.
    """
    found: dict[str, Report] = {}
    path = Path(folder) / "config.json"
    if path.exists():
        try:
            config = json.loads(path.read_text())
        except ValueError:
            raise UserError(f"{path}: damaged, not JSON") from None
        found["config"] = ConfigReport(config=tuples(config))
    if (Path(folder) / "log.csv").exists():
        found["history"] = history([folder])
    return found


def tuples(value):
    """What JSON holds, with tuples for lists, as a report holds it."""
    if isinstance(value, dict):
        return {key: tuples(v) for key, v in value.items()}
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def history(logs: Sequence[Any], label: str = "") -> HistoryReport:
    """The report of several logs of one setting.

    Args:
        logs: one for each run: the path of a log.csv or of the folder that has it, or rows with an `epoch`, as
            {"epoch": 1, "loss": 2.3}. Of an epoch written twice (a run that was resumed) the last row counts.
        label: what the runs are; the name of the first folder unless given.

    Raises UserError for no log, a log without rows or epochs, and an entry that is not a number.
    """
    if not logs:
        raise UserError("logs: none given")
    names = [_name(log, i) for i, log in enumerate(logs)]
    runs = [{int(row["epoch"]): row for row in _rows(log, name)} for log, name in zip(logs, names)]
    epochs = sorted(set().union(*runs))
    keys = dict.fromkeys(key for run in runs for row in run.values() for key in row if key != "epoch")
    table = {key: np.array([[run.get(e, {}).get(key, np.nan) for e in epochs] for run in runs], dtype=float) for key in keys}
    return HistoryReport(label=label or names[0], runs=tuple(names), epoch=np.array(epochs, dtype=float), columns=table)


def _name(log, index: int) -> str:
    if not isinstance(log, (str, Path)):
        return f"run {index}"
    path = Path(log)
    return path.parent.name if path.suffix == ".csv" else path.name


def _rows(log, name: str) -> list[dict[str, float]]:
    """Rows of one log as numbers; an empty cell is no entry."""
    rows: list[Mapping[str, Any]] = list(_read(Path(log))) if isinstance(log, (str, Path)) else list(log)
    if not rows:
        raise UserError(f"{name}: the log has no rows yet")
    return [{key: _number(name, key, value) for key, value in row.items() if value not in (None, "")} for row in rows]


def _read(path: Path) -> list[dict[str, str]]:
    path = path / "log.csv" if path.is_dir() else path
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a CSV log of a training run") from None
    if any("epoch" not in row or None in row for row in rows):
        raise UserError(f"{path}: not a CSV log of a training run (a column epoch, and as many cells as columns)")
    return rows


def _number(name: str, key: str, value) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UserError(f"{name}: {key} is {value!r}, not a number") from None
