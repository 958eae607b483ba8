"""`odevit bench`: what the README says about speed, memory and the curvature penalty, measured again."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from odevit.tables import aligned, csv_text

from .cli import parse
from .commands import refuse_overwrite, write


@dataclass(frozen=True)
class BenchCommand:
    """Measure again what the README claims."""

    what: tyro.conf.Positional[Literal["training", "analysis", "curvature"]] = "training"
    """training: speed and memory against a plain twin; analysis: against dense linear algebra; curvature: digits study."""
    repeats: int = 5
    """Runs of which the median is taken; seeds of the curvature study."""
    threads: int = 2
    """CPU threads."""
    runs: Path = Path("runs/curvature")
    """Where the runs of the curvature study are kept; finished ones are not trained again."""
    out: Path | None = None
    """Write the table as CSV."""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Overwrite --out."""


def bench(args: list[str]) -> None:
    """`odevit bench`."""
    c = parse(BenchCommand, args, "bench")
    refuse_overwrite(c.out, c.force)
    rows = _rows(c)
    if c.out:
        write(c.out, csv_text(rows))


def _rows(c: BenchCommand) -> list[dict]:
    if c.what == "training":
        from odevit.bench import run

        return run(c.repeats, c.threads)
    if c.what == "analysis":
        from analysis.cost import run as measure

        return measure(c.repeats, c.threads)
    from odevit.study import curvature_study

    rows = curvature_study(c.runs, seeds=c.repeats)
    print(aligned(rows))
    return rows
