"""`odevit compare A B`: two models on the same images, figures in pairs with the same limits, and a table of differences."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from odevit.errors import UserError

from .cli import parse
from .figures_command import FiguresOptions, Sheet, make_sheets, report_missing, say_written, write_page


@dataclass(frozen=True)
class CompareCommand(FiguresOptions):
    """Two models side by side: the figures, and a table of differences."""

    models: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Two model folders."""

    def __post_init__(self):
        super().__post_init__()
        if len(self.models) != 2:
            raise UserError(f"models: {len(self.models)} given; compare takes two model folders")


def compare(args: list[str]) -> None:
    """`odevit compare`."""
    from analysis.figures.booktabs import difference_table, save_table

    c = parse(CompareCommand, args, "compare")
    command = shlex.join(("odevit", "compare", *args))
    sheets = make_sheets(c, c.models, command)
    pairs = draw_pairs(c, sheets, command)
    names = (sheets[0].name, sheets[1].name)
    table = difference_table(quantities(sheets[0]), quantities(sheets[1]), names)
    paths = save_table(table, c.out / "differences")
    drawn = [(" and ".join(names), pairs), *((sheet.name, sheet.drawn) for sheet in sheets)]
    say_written([*paths, write_page(f"{names[0]} and {names[1]}", [table], drawn, c.out)])
    print(f"\n{table.to_text()}")
    report_missing(sheets)


def draw_pairs(c: CompareCommand, sheets: Sequence[Sheet], command: str) -> list[Any]:
    """Every figure that is one axes and that both models have, in two panels, under OUT/pairs."""
    from analysis.figures import FIGURES, paper, save
    from analysis.figures.drawing import Drawn, arguments, flat, side_by_side
    from analysis.figures.style import FONT, caption_of

    made = []
    drawn = [{d.name for d in sheet.drawn if d.paths} for sheet in sheets]
    for name, entry in FIGURES.items():
        if not (entry.takes_axes() and entry.reports and all(name in names for names in drawn)):
            continue
        given = [arguments(entry, sheet.reports) for sheet in sheets]
        try:
            with paper(c.venue, c.columns, c.font or FONT):
                figure = side_by_side(entry, given, [sheet.name for sheet in sheets])
        except UserError:
            continue  # it takes axes of another kind
        used = [report for group in given for report in flat(group)]
        title, caption = caption_of(entry.function)
        paths = save(figure, c.out / "pairs" / name, reports=used, command=command, caption=caption, dpi=c.dpi)
        made.append(Drawn(name, title, caption, tuple(paths)))
    return made


def quantities(sheet: Sheet) -> dict[str, float]:
    """The numbers of one model, by name: size, cost, scores, and what its reports say in one number."""
    found = {key: float(sheet.scores[key]) for key in ("parameters", "macs", "nfe", "top1", "top5", "loss", "ece")}
    if "certificate" in sheet.reports:
        verdicts = sheet.reports["certificate"][0].verdicts
        found |= {f"certificate: {v.name} ({v.side}, {v.unit or '1'})": v.value for v in verdicts}
    picks = {
        "exponents": {"finite-time exponent, mean (1/t)": "mean", "AUC of the exponent for errors": "auc"},
        "token_paths": {"length of a token's path, mean (state)": "length", "straightness, mean": "straightness",
                        "turning, mean (rad)": "turning"},
        "lens": {"decision time, mean (t)": "decision_time"},
        "solver_swap": {"largest share of flips under another solver": "flip_rate"},
        "observed_order": {"observed order of the solver, mean": "observed"},
    }  # fmt: skip
    for report, fields in picks.items():
        for label, name in fields.items() if report in sheet.reports else ():
            values = np.asarray(getattr(sheet.reports[report][0], name), dtype=float)
            values = values[np.isfinite(values)]
            if values.size:
                found[label] = float(values.max() if label.startswith("largest") else values.mean())
    return {name: value for name, value in found.items() if np.isfinite(value)}
