"""Tables of a paper: results over seeds, certificate, solver sweep, differences of two models; as CSV, Markdown and LaTeX.

CSV holds the numbers as they are, mean and standard deviation in columns of their own; Markdown and LaTeX (booktabs) hold what
is printed, mean ± standard deviation. Standard deviations are of the sample (n - 1), and missing for a single run.
"""

import csv
import io
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from odevit.errors import UserError

from ..reports import CertificateReport, SwapReport
from .outputs import check_report, write_bytes

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    "±": r"$\pm$", "–": "--", "×": r"$\times$", "≤": r"$\leq$", "≥": r"$\geq$", "‖": r"$\Vert$", "λ": r"$\lambda$",
    "μ": r"$\mu$", "−": "$-$", "∞": r"$\infty$",
}  # fmt: skip


class Spread(NamedTuple):
    """Mean and standard deviation of n values; the deviation is NaN for one.

    >>> Spread.of([1.0, 3.0]).mean, Spread.of([1.0]).sd
    (2.0, nan)
    """

    mean: float
    sd: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of some values."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else math.nan, len(values))


@dataclass(frozen=True)
class Column:
    """A column: its head, how a value is printed, and whether it is a number (right-aligned)."""

    name: str
    show: Callable[[Any], str] = str
    numeric: bool = True


@dataclass(frozen=True)
class Table:
    """Rows of raw values under columns; None is an empty cell. The caption is what we would print above it."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    caption: str

    def to_csv(self) -> str:
        """The raw values; a Spread fills three columns: mean, sd and n."""
        spread = [any(isinstance(row[i], Spread) for row in self.rows) for i in range(len(self.columns))]
        head = [h for c, s in zip(self.columns, spread) for h in ([c.name, f"{c.name} sd", f"{c.name} n"] if s else [c.name])]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(head)
        for row in self.rows:
            writer.writerow([v for cell, s in zip(row, spread) for v in (_raw(cell) if s else [_bare(cell)])])
        return out.getvalue()

    def to_markdown(self) -> str:
        """The printed values under the caption."""
        marks = ["---:" if c.numeric else "---" for c in self.columns]
        head, *body = ([text.replace("|", "\\|") for text in row] for row in self.cells())
        lines = ["| " + " | ".join(line) + " |" for line in (head, marks, *body)]
        return "\n".join([self.caption, "", *lines]) + "\n"

    def to_latex(self) -> str:
        """A tabular for \\input, with booktabs rules; everything escaped."""
        heads, *printed = self.cells()
        long = [max((len(row[i]) for row in printed), default=0) > 60 for i in range(len(self.columns))]
        wide = f"p{{{0.6 / max(1, sum(long)):.2g}\\linewidth}}"
        kinds = "".join(wide if far else "r" if c.numeric else "l" for c, far in zip(self.columns, long))
        head, *body = (" & ".join(map(escape, line)) + r" \\" for line in (heads, *printed))
        top = [rf"% {self.caption}", r"% needs \usepackage{booktabs}", rf"\begin{{tabular}}{{@{{}}{kinds}@{{}}}}", r"\toprule"]
        return "\n".join([*top, head, r"\midrule", *body, r"\bottomrule", r"\end{tabular}", ""])

    def to_text(self) -> str:
        """Aligned columns for a terminal, under the caption."""
        cells = self.cells()
        widths = [max(len(row[i]) for row in cells) for i in range(len(self.columns))]
        pads = [str.rjust if c.numeric else str.ljust for c in self.columns]
        lines = ["  ".join(pad(text, w) for pad, text, w in zip(pads, row, widths)).rstrip() for row in cells]
        return "\n".join([self.caption, *lines])

    def cells(self) -> list[list[str]]:
        """The heads, then the printed values of every row."""
        printed = [[_shown(cell, column) for cell, column in zip(row, self.columns)] for row in self.rows]
        return [[c.name for c in self.columns], *printed]


def escape(text: str) -> str:
    """Text for LaTeX, without special characters.

    >>> escape("50 % of a_b & c")
    '50 \\\\% of a\\\\_b \\\\& c'
    """
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _bare(cell) -> Any:
    return "" if cell is None or (isinstance(cell, float) and math.isnan(cell)) else cell


def _raw(cell) -> list:
    return [_bare(part) for part in cell] if isinstance(cell, Spread) else [_bare(cell), "", ""]


def _shown(cell, column: Column) -> str:
    if isinstance(cell, Spread):
        return column.show(cell.mean) + ("" if math.isnan(cell.sd) else f" ± {column.show(cell.sd)}")
    return "–" if _bare(cell) == "" else column.show(cell)


def save_table(table: Table, stem) -> list[Path]:
    """Write STEM.csv, STEM.md and STEM.tex; returns their paths. UserError where the folder cannot be written."""
    stem = Path(stem)
    texts = {"csv": table.to_csv(), "md": table.to_markdown(), "tex": table.to_latex()}
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        return [write_bytes(stem.with_name(f"{stem.name}.{end}"), text.encode()) for end, text in texts.items()]
    except OSError as error:
        raise UserError(f"{error.filename or stem}: cannot be written ({error.strerror or error})") from None


def _millions(value: float) -> str:
    return f"{value / 1e6:.3g}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def results_table(runs: Iterable[dict[str, Any]]) -> Table:
    """Parameters, cost and accuracy of models; runs of one name are seeds of one model and become mean and deviation.

    Args:
        runs: with name, parameters, macs (an image), nfe, top1, n (images), split.

    Raises:
        UserError: no run; runs of one name that differ in size or cost, or were measured on different images.
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault(run["name"], []).append(run)
    if not groups:
        raise UserError("results: no model to put into the table")
    for name, members in groups.items():
        for key in ("parameters", "macs", "nfe", "n", "split"):
            if len({run[key] for run in members}) > 1:
                raise UserError(f"results: runs called {name!r} differ in {key}; give them names of their own")
    rows = [(name, r[0]["parameters"], r[0]["macs"], r[0]["nfe"], Spread.of([run["top1"] for run in r]), len(r), r[0]["n"])
            for name, r in groups.items()]  # fmt: skip
    columns = (
        Column("model", numeric=False), Column("parameters (M)", _millions), Column("MACs (M)", _millions), Column("NFE"),
        Column("accuracy (%)", _percent), Column("runs"), Column("images"),
    )  # fmt: skip
    splits = ", ".join(sorted({str(run["split"]) for r in groups.values() for run in r}))
    caption = f"Accuracy on {splits} (mean ± standard deviation over runs), parameters, MACs an image, NFE."
    return Table(columns, tuple(rows), caption)


def certificate_rows(report: CertificateReport) -> Table:
    """The verdicts of a certificate with their status, value and side."""
    check_report(report, CertificateReport, "name")
    rows = tuple((v.question, v.answer, v.status, _finite(v.value), v.unit, v.side) for v in report.verdicts)
    columns = (
        Column("question", numeric=False), Column("answer", numeric=False), Column("status", numeric=False),
        Column("value", lambda x: f"{x:.4g}"), Column("unit", numeric=False), Column("side", numeric=False),
    )  # fmt: skip
    return Table(columns, rows, f"Certificate of {report.subject}: {report.solve}. {report.grounds}.")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def sweep_table(reports: SwapReport | Sequence[SwapReport]) -> Table:
    """Accuracy, flips and largest change of a logit by solver and steps; several reports become mean and deviation.

    Raises:
        UserError: reports with other solvers or steps.
    """
    found = [check_report(r, SwapReport, "method") for r in ([reports] if isinstance(reports, SwapReport) else reports)]
    if not found:
        raise UserError("sweep: no report to put into the table")
    first = found[0]
    if any((r.method.tolist(), r.steps.tolist()) != (first.method.tolist(), first.steps.tolist()) for r in found):
        raise UserError("sweep: the reports were made with different solvers or steps")
    rows = []
    for i, (method, steps) in enumerate(zip(first.method.tolist(), first.steps.tolist())):
        cost, *spreads = (
            Spread.of([float(getattr(r, name)[i]) for r in found])
            for name in ("nfe", "accuracy", "flip_rate", "max_logit_change")
        )  # fmt: skip
        trained = " (trained)" if (method, steps) == (first.trained_method, first.trained_steps) else ""
        rows.append((method + trained, steps or None, cost if cost.sd > 0 else cost.mean, *spreads))
    columns = (
        Column("solver", numeric=False), Column("steps"), Column("NFE", lambda x: f"{x:.0f}"), Column("accuracy (%)", _percent),
        Column("flips (%)", _percent), Column("largest logit change", lambda x: f"{x:.2g}"),
    )  # fmt: skip
    return Table(columns, tuple(rows), f"One set of weights under other solvers, {first.images} images, {len(found)} run(s).")


def difference_table(first: dict[str, float], second: dict[str, float], names: tuple[str, str]) -> Table:
    """Two models side by side: every quantity that both have, and second minus first."""
    shared = [key for key in first if key in second]
    if not shared:
        raise UserError("compare: the two models have no quantity in common")
    rows = tuple((key, first[key], second[key], second[key] - first[key]) for key in shared)
    columns = (
        Column("quantity", numeric=False), Column(names[0], lambda x: f"{x:.5g}"), Column(names[1], lambda x: f"{x:.5g}"),
        Column("difference", lambda x: f"{x:+.3g}"),
    )  # fmt: skip
    return Table(columns, rows, f"{names[0]} and {names[1]} side by side; difference = second - first.")
