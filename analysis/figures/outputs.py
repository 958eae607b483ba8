"""What goes into a figure and what comes out: checks of Reports, and PDF + PNG + data + sidecar with the same bytes every time.

STEM.pdf and STEM.png are the figure, STEM.csv what it was drawn from (of large reports KIND-HASH.npz, a Report to load again),
STEM.json the caption, the command and where the numbers come from.
"""

import csv
import hashlib
import inspect
import io
import json
import os
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from matplotlib.figure import Figure

from odevit.errors import UserError

from ..reports import Report

R = TypeVar("R", bound=Report)
CSV_NUMBERS = 20_000  # numbers in a report above which its data are written as NPZ
LETTERS = 23.0  # of the remark, to an inch
TIMELESS = {"pdf": {"CreationDate": None}, "png": {"Software": None}}


def check_report(report, kind: type[R], *fields: str) -> R:
    """`report` itself, after checking what it is.

    Args:
        report: what a figure was given.   kind: the class it needs.   fields: arrays that must not be empty.

    Raises:
        UserError: not a report, of another kind, or empty, in one line.
    """
    if not isinstance(report, kind):
        raise UserError(f"report: this figure draws a {kind.__name__}, not a {type(report).__name__}")
    for name in fields:
        if np.size(getattr(report, name)) == 0:
            raise UserError(f"report: {kind.__name__}.{name} is empty, there is nothing to draw")
    return report


def check_reports(reports, kind: type[R], *fields: str) -> list[R]:
    """A report or several of one kind and one model as a list, each checked by `check_report`.

    Raises:
        UserError: none at all, or reports of different models.
    """
    found = [check_report(r, kind, *fields) for r in ([reports] if isinstance(reports, Report) else list(reports))]
    if not found:
        raise UserError(f"reports: none given; this figure draws one {kind.__name__} or several")
    check_same_model(found)
    return found


def check_same_model(reports: Iterable[Report]) -> None:
    """UserError where reports that are drawn together belong to different models; unknown models are let through.

    A whole model and its field have hashes of their own ("ODEViT 1a..", "VectorField 2b.."), so like is compared with like.
    """
    models: dict[str, set[str]] = {}
    for name in {r.provenance.model for r in reports} - {""}:
        models.setdefault(name.split()[0] if " " in name else "", set()).add(name)
    for found in models.values():
        if len(found) > 1:
            raise UserError(f"reports: of different models mixed ({', '.join(sorted(found))}); draw each model by itself")


def note(figure: Figure, text: str) -> None:
    """Add a remark to the line under a figure, such as what could not be drawn."""
    said = [part for part in remark(figure).split("; ") if part]
    if text not in said:
        lines = textwrap.fill("; ".join([*said, text]), int(LETTERS * figure.get_size_inches()[0]))
        figure.supxlabel(lines, x=0.99, ha="right", fontsize=6.5, color="0.35")


def remark(figure: Figure) -> str:
    """What `note` has said under a figure, on one line."""
    return figure.get_supxlabel().replace("\n", " ")


def note_gaps(figure: Figure, values, name: str) -> np.ndarray:
    """`values` as floats with NaN for all that is not finite, so that it is drawn as a gap, and this said under the figure.

    >>> from matplotlib.figure import Figure
    >>> figure = Figure()
    >>> note_gaps(figure, [1.0, float("inf")], "error").tolist(), figure.get_supxlabel()
    ([1.0, nan], 'error: 1 of 2 not finite, left out')
    """
    array = np.asarray(values)
    array = array.astype(complex if np.iscomplexobj(array) else float)
    missing = ~np.isfinite(array)
    if missing.any():
        note(figure, f"{name}: {int(missing.sum())} of {missing.size} not finite, left out")
    return np.where(missing, np.nan, array)


def caption_of(function: Callable) -> tuple[str, str]:
    """(title, caption) of a figure: the first line of its docstring, and the whole of it up to the arguments, on one line."""
    text = (inspect.getdoc(function) or "").partition("\n\nArgs:")[0]
    return text.partition("\n")[0].strip(), " ".join(text.split())


def save(
    figure: Figure, stem, *, reports: Report | Iterable[Report] = (), command: str = "", caption: str = "", dpi: int = 300
) -> list[Path]:
    """Write a figure with the data and the command behind it.

    Args:
        figure: as the functions of this package return it; its size is kept to the point.
        stem: path without ending; folders are made.
        reports: what it was drawn from.   command: how to make it again.   caption: text under it.
        dpi: dots per inch of the PNG.

    Returns:
        The paths written, PDF first. The bytes depend on figure, reports and installation only.

    Raises:
        UserError: the folder cannot be written.
    """
    from .style import writing

    stem, drawn = Path(stem), [reports] if isinstance(reports, Report) else list(reports)
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        written = []
        with writing():
            for ending in TIMELESS:
                content = io.BytesIO()
                figure.savefig(content, format=ending, dpi=dpi, metadata=TIMELESS[ending])
                written.append(write_bytes(stem.with_name(f"{stem.name}.{ending}"), content.getvalue()))
        data = [_data(report, stem, f"-{i}" if len(drawn) > 1 else "") for i, report in enumerate(drawn)]
        data = data or [write_bytes(stem.with_name(f"{stem.name}.csv"), _lines(figure).encode())]
        said = {
            "figure": stem.name, "caption": caption, "command": command, "remark": remark(figure),
            "size_in": [round(float(x), 4) for x in figure.get_size_inches()], "data": [path.name for path in data],
        }  # fmt: skip
        return [*written, *dict.fromkeys(data), write_sidecar(stem.with_name(f"{stem.name}.pdf"), drawn, **said)]
    except OSError as error:
        raise UserError(f"{error.filename or stem}: cannot be written ({error.strerror or error})") from None


def write_sidecar(path: Path, reports: Iterable[Report], **said: Any) -> Path:
    """The JSON beside a picture: what is `said`, and the kind and provenance of every report that it was drawn from."""
    content = said | {"reports": [{"kind": r.kind, **asdict(r.provenance)} for r in reports]}
    return write_bytes(path.with_suffix(".json"), (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def _lines(figure: Figure) -> str:
    """The lines of a figure that was drawn from no report, as CSV."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["axes", "line", "x", "y"])
    for i, ax in enumerate(figure.axes):
        for line in ax.get_lines():
            writer.writerows([i, line.get_label(), x, y] for x, y in np.asarray(line.get_xydata()).tolist())
    return out.getvalue()


def _data(report: Report, stem: Path, suffix: str) -> Path:
    """The file with the numbers of a report: a CSV, or, of a large one, the report itself, once for all figures of a folder."""
    arrays = [np.asarray(value) for value in report.values().values()]
    if sum(array.size for array in arrays) <= CSV_NUMBERS:
        return report.to_csv(stem.with_name(f"{stem.name}{suffix}.csv"))
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays if array.dtype != object))
    path = stem.with_name(f"{report.kind}-{digest.hexdigest()[:8]}.npz")
    return path if path.exists() else report.save(path)


def write_bytes(path: Path, content: bytes) -> Path:
    """Write a file under a temporary name and rename it; returns its path."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)
    return path
