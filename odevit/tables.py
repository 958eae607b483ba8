"""Rows of measured numbers as text: CSV for machines, an aligned table for people."""

import csv
import io
from typing import Any


def csv_text(rows: list[dict[str, Any]]) -> str:
    """Rows as CSV, columns as in the first row.

    >>> csv_text([{"steps": 6, "top1": 0.5}])
    'steps,top1\\n6,0.5\\n'
    """
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as an aligned table under one line that says on how many images; a single row as one line per field."""
    if len(rows) == 1:
        width = max(map(len, rows[0]))
        return "\n".join(f"{name:<{width}}  {_cell(name, value)}" for name, value in rows[0].items())
    constant = ("split", "n")
    names = [name for name in rows[0] if name not in constant and any(row[name] not in (None, "") for row in rows)]
    cells = [names, *([_cell(name, row[name]) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    head = f"{rows[0]['n']} images of {rows[0]['split']}"
    return "\n".join([head, *("  ".join(c.rjust(w) for c, w in zip(line, widths)).rstrip() for line in cells)])


def aligned(rows: list[dict[str, Any]]) -> str:
    """Rows as a plain aligned table, numbers to four digits, columns as in the first row.

    >>> print(aligned([{"how": "euler", "value": 0.123456}, {"how": "rk4", "value": None}]))
    how    value
    euler  0.1235
    rk4    -
    """
    names = list(rows[0])
    cells = [names, *([_plain(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths)).rstrip() for line in cells)


def _plain(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "macs":
        return f"{value / 1e6:.3g} M"
    if isinstance(value, float):
        return f"{value:+.4f}" if name == "change" else f"{value:.0f}" if name == "images_per_second" else f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
