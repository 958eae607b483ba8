"""Bytes of downloads: tables, arrays, figures and one archive of everything that a visitor has seen."""

import csv
import io
import json
import tempfile
import threading
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis.figures.style import paper as paper_style
from analysis.figures.style import writing
from analysis.reports import Report

PNG_DPI = 300
_DRAWING = threading.Lock()  # matplotlib's settings are those of the whole process, and every download has its own thread


@dataclass(frozen=True)
class Made:
    """A plot that a visitor has seen.

    Attributes:
        stem: of its file names.   title: of the plot.   reports: what it shows.   paper: -> matplotlib Figure, or None.
        link: query of the URL.   command: how to compute it without a browser.
    """

    stem: str
    title: str
    reports: tuple[Report, ...]
    paper: Callable[[], Any] | None
    link: str
    command: str

    @property
    def size(self) -> int:
        """Bytes of the arrays of the reports."""
        return sum(v.nbytes for r in self.reports for v in r.values().values() if isinstance(v, np.ndarray))


def table(reports: Sequence[Report]) -> bytes:
    """One CSV with units in the header; of several reports one below the other, told apart by the first column."""
    rows: list[dict[str, str]] = []
    names: dict[str, None] = {}
    with tempfile.TemporaryDirectory() as place:
        for i, report in enumerate(reports):
            path = report.to_csv(Path(place) / "report.csv")
            if len(reports) == 1:
                return path.read_bytes()
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    rows.append({"report": f"{i} {report.kind}", **row})
                    names |= dict.fromkeys(rows[-1])
    text = io.StringIO()
    writer = csv.DictWriter(text, list(names), lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def arrays(reports: Sequence[Report]) -> bytes:
    """One .npz: every array under its name (after "0.", "1." .. where there are several), the rest as JSON text in "json"."""
    found: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as place:
        for i, report in enumerate(reports):
            prefix = f"{i}." if len(reports) > 1 else ""
            path = report.save(Path(place) / "report.npz")
            with np.load(path) as file:
                found |= {f"{prefix}{name}": file[name] for name in file.files}
            found[f"{prefix}json"] = np.array(path.with_suffix(".json").read_text())
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **found)  # type: ignore[arg-type]
    return buffer.getvalue()


def drawing(paper: Callable[[], Any], kind: str) -> bytes:
    """A figure for a paper as pdf or png."""
    buffer = io.BytesIO()
    with _DRAWING, paper_style(), writing():
        dates = {"CreationDate": None} if kind == "pdf" else {}
        paper().savefig(buffer, format=kind, dpi=PNG_DPI, metadata=dates)
    return buffer.getvalue()


def archive(made: Sequence[Made]) -> bytes:
    """A zip with table, arrays, PDF and PNG of every plot, and provenance.json: links, commands, origin of the numbers."""
    buffer = io.BytesIO()
    facts, problems = [], []
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for plot in made:
            file.writestr(f"{plot.stem}.csv", table(plot.reports))
            file.writestr(f"{plot.stem}.npz", arrays(plot.reports))
            for kind in ("pdf", "png") if plot.paper else ():
                try:
                    file.writestr(f"{plot.stem}.{kind}", drawing(plot.paper, kind))  # type: ignore[arg-type]
                except Exception as error:  # one figure that cannot be drawn stops no other
                    problems.append(f"{plot.stem}.{kind}: {' '.join(str(error).split())}")
            origin = [asdict(report.provenance) for report in plot.reports]
            words = {"plot": plot.stem, "title": plot.title, "link": plot.link, "command": plot.command}
            facts.append(words | {"reports": origin})
        content = {"plots": facts, "not drawn": problems}
        file.writestr("provenance.json", json.dumps(content, indent=1))
        file.writestr("commands.sh", "".join(f"{line}\n" for line in dict.fromkeys(p.command for p in made if p.command)))
    return buffer.getvalue()
