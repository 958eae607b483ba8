"""`odevit bench`: what the README says about speed, memory, the app, the curvature penalty and teachers, measured again."""

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

    what: tyro.conf.Positional[Literal["training", "analysis", "app", "curvature", "distillation"]] = "training"
    """training: speed and memory against a plain twin; analysis: against dense linear algebra; app: the pages in a headless
    browser, and the server's memory; curvature and distillation: studies on digits, of the penalty and of a teacher."""
    folder: tyro.conf.Positional[Path] = Path("checkpoints/odevit_digits")
    """Of the app: a model folder, or a folder of them, whose first is opened."""
    repeats: int = 5
    """Runs of which the median is taken; seeds of a study."""
    threads: int = 2
    """CPU threads."""
    runs: Path | None = None
    """Where the runs of a study are kept, runs/NAME unless given; finished ones are not trained again."""
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
    if c.what == "app":
        from app.browser_bench import run as browse

        return browse(c.folder, c.repeats, c.threads)
    from odevit.study import curvature_study, teacher_study

    study = curvature_study if c.what == "curvature" else teacher_study
    rows = study(c.runs or Path("runs") / c.what, seeds=c.repeats)
    print(aligned(rows))
    return rows
