"""`odevit figures`: every figure and table of a paper for one or several models; missing reports are computed first."""

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from odevit.errors import UserError

from .cli import parse
from .pair_sheets import pair_reports_of, teacher_scores

REPORTS = "reports"  # folder under --out, unless --reports names another
SEED = re.compile(r"[-_]?seed[-_]?\d+$")


@dataclass(frozen=True)
class FiguresOptions:
    """What `odevit figures` and `odevit compare` share."""

    out: Path
    """Folder of the figures, a folder for each model where there are several."""
    data: str | None = None
    """digits, cifar10, cifar100, .npz or folder; the training data unless given."""
    root: Path | None = None
    """Where torchvision keeps CIFAR."""
    split: Literal["val", "test"] = "val"
    """Split that the images come from."""
    images: int = 64
    """How many images the reports take, evenly spaced over the split; accuracies are over the whole split."""
    reports: Path | None = None
    """Folder of the reports, one for each model where there are several; OUT/reports unless given."""
    only: tuple[str, ...] = ()
    """Names of figures; all unless given (an unknown name lists them)."""
    venue: Literal["neurips", "icml", "cvpr", "ieee"] = "neurips"
    """Page that the widths fit."""
    columns: int = 1
    """Columns of that page that a figure spans."""
    font: str | None = None
    """Family of the text; a Times that comes with matplotlib unless given."""
    dpi: int = 300
    """Dots per inch of the PNGs."""
    seed: int = 0
    """Seed of start vectors."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Write into a folder that is not empty."""

    def __post_init__(self):
        from analysis.figures.style import width

        for name, least in (("images", 1), ("dpi", 50)):
            if getattr(self, name) < least:
                raise UserError(f"{name}: {getattr(self, name)} must be at least {least}")
        width(self.venue, self.columns)


@dataclass(frozen=True)
class FiguresCommand(FiguresOptions):
    """Figures (PDF, PNG, data, command) and tables (CSV, Markdown, LaTeX) of one or several models."""

    models: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Model folders; runs whose names differ in "-seed0" only are seeds of one model in the tables."""
    teacher: str | None = None
    """Folder or file of the discrete ViT that taught them: also draw the figures of the pair."""
    gallery: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Also write index.html with all figures."""


@dataclass(frozen=True)
class Sheet:
    """One model's reports, figures and scores."""

    name: str
    model: Path
    data: Any
    folder: Path
    reports: dict[str, tuple[Any, ...]]
    missing: dict[str, str]
    drawn: Sequence[Any]
    scores: dict[str, Any]


def figures(args: list[str]) -> None:
    """`odevit figures`."""
    c = parse(FiguresCommand, args, "figures")
    command = shlex.join(("odevit", "figures", *args))
    sheets = make_sheets(c, c.models, command, c.teacher)
    others = [teacher_scores(c.teacher, sheets[0].reports["config"][0].config, sheets[0].data)] if c.teacher else []
    results, paths = write_tables(sheets, c.out, others)
    paths += write_joint_curves(c, sheets, command)
    if c.gallery:
        title = "Figures of " + ", ".join(sheet.name for sheet in sheets)
        paths.append(write_page(title, [results], [(sheet.name, sheet.drawn) for sheet in sheets], c.out))
    say_written(paths)
    report_missing(sheets)


def make_sheets(c: FiguresOptions, models: Sequence[Path], command: str, teacher: str | None = None) -> list[Sheet]:
    """Compute what is missing of each model and draw its figures, and those of the pairs that they make with a teacher.

    Raises:
        UserError: no model, one that cannot be read, unknown figures, a folder that is not empty; before anything is written.
    """
    entries, names = _entries(c, teacher), model_names(models)
    pairs = [_open(c, path) for path in models]
    _same_data(names, [data for _, data in pairs])
    taught = [pair_reports_of(teacher, path, data, c.images) for path, (_, data) in zip(models, pairs)]
    claim(c.out, c.force)
    found = []
    for name, path, (model, data), known in zip(names, models, pairs, taught):
        inner = (name,) if len(models) > 1 else ()
        where = (c.reports or c.out / REPORTS).joinpath(*inner)
        found.append(_sheet(c, name, path, model, data, where, c.out.joinpath(*inner), entries, command, known))
    return found


def _entries(c: FiguresOptions, teacher: str | None) -> dict[str, Any]:
    """The figures asked for; those of a pair where there is a teacher."""
    from analysis.figures import ANIMATIONS, FIGURES, PAIR_FIGURES
    from analysis.figures.drawing import chosen

    for name in c.only:
        if name in PAIR_FIGURES and teacher is None:
            raise UserError(f"only: {name} shows a student beside its teacher; name the teacher with --teacher")
    return chosen({**FIGURES, **ANIMATIONS, **(PAIR_FIGURES if teacher else {})}, c.only)


def _same_data(names: Sequence[str], sets: Sequence[Any]) -> None:
    """UserError where models would be compared on different data."""
    first = sets[0]
    for name, data in zip(names, sets):
        if (data.source, data.classes) != (first.source, first.classes):
            here, there = (f"{d.source} ({len(d.classes)} classes)" for d in (data, first))
            raise UserError(f"data: {name} is measured on {here}, {names[0]} on {there}; name one data set for all with --data")


def _open(c: FiguresOptions, path: Path):
    """A model with a whole split of its data, checked."""
    from odevit.checkpoint import check_weights

    from .commands import load_pair

    model, data = load_pair(path, c.data, c.root, c.split, None)
    check_weights(model)
    return model, data


def _sheet(
    c: FiguresOptions, name: str, path: Path, model, data, where: Path, folder: Path, entries, command: str, taught
) -> Sheet:
    from analysis.figures import ANIMATIONS, draw, paper
    from analysis.figures.drawing import animate, needed, write_list
    from analysis.figures.style import FONT
    from analysis.reports.model_folders import of_folder
    from analysis.running import JOBS
    from odevit.evaluate import evaluate, macs, parameters
    from odevit.optimisation import pick_device

    device = pick_device(c.device)
    wanted = needed(entries, JOBS)
    reports, missing = {key: (report,) for key, report in of_folder(path).items()} | taught, {}
    if wanted:
        found = _computed(c, path, data, where, wanted, device)
        missing = {key: entry.text for key, entry in found.entries.items() if entry.status != "done"}
        reports |= found.reports
    scores = evaluate(model.to(device), data)
    with paper(c.venue, c.columns, c.font or FONT):
        still = {key: entry for key, entry in entries.items() if key not in ANIMATIONS}
        drawn = draw(still, reports, folder, command=command, dpi=c.dpi, missing=missing)
    moving = {key: entry for key, entry in entries.items() if key in ANIMATIONS}
    drawn += animate(moving, reports, folder, command=command, missing=missing)
    write_list(drawn, folder)
    print(f"wrote {sum(bool(d.paths) for d in drawn)} figures of {name} to {folder}")
    known = {"name": SEED.sub("", name) or name, "parameters": parameters(model), "macs": macs(model, scores.nfe)}
    return Sheet(name, path, data, folder, reports, missing, drawn, known | asdict(scores))


def _computed(c: FiguresOptions, path: Path, data, where: Path, wanted: list[str], device):
    """The reports, of which only missing ones are computed; --force replaces those of another run in OUT/reports, no others."""
    import analysis

    settings = {"reports": wanted, "images": c.images, "seed": c.seed, "device": device}
    try:
        return analysis.run(path, data, where, **settings)
    except UserError as error:
        if c.reports is None and c.force:
            return analysis.run(path, data, where, force=True, **settings)
        if c.reports is None:
            raise
        raise UserError(str(error).replace("out:", "reports:", 1).partition("; --force")[0]) from None


def model_names(models: Sequence[Path]) -> list[str]:
    """Names of model folders, with their parents' names where they would be the same; UserError where there is none."""
    if not models:
        raise UserError("models: none given; name one or several model folders")
    paths = [Path(path).resolve() for path in models]
    if len(set(paths)) < len(paths):
        raise UserError(f"models: {next(m for m, p in zip(models, paths) if paths.count(p) > 1)} is given twice")
    names = [path.name for path in paths]
    return [n if names.count(n) == 1 else f"{path.parent.name}-{n}" for n, path in zip(names, paths)]


def claim(out: Path, force: bool) -> None:
    """Make the folder `out`; UserError where it is a file, cannot be written, or holds more than reports and is not forced."""
    try:
        if out.exists() and not out.is_dir():
            raise UserError(f"out: {out} is a file")
        out.mkdir(parents=True, exist_ok=True)
        if not force and any(path.name != REPORTS for path in out.iterdir()):
            raise UserError(f"out: {out} is not empty; --force writes into it")
        probe = out / ".probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UserError(f"out: {out} cannot be written ({error.strerror or error})") from None


def write_tables(sheets: Sequence[Sheet], out: Path, others: Sequence[dict[str, Any]] = ()) -> tuple[Any, list[Path]]:
    """results, certificate (one for each model) and solver_sweep (one for each name) as CSV, Markdown and LaTeX.

    Args:
        sheets: of the models.   out: folder.   others: scores of further models for the table of results.

    Returns the table of results and the paths of all.
    """
    from analysis.figures.booktabs import certificate_rows, results_table, save_table, sweep_table

    results = results_table([*others, *(sheet.scores for sheet in sheets)])
    paths = save_table(results, out / "results")
    for sheet in sheets:
        if "certificate" in sheet.reports:
            paths += save_table(certificate_rows(sheet.reports["certificate"][0]), sheet.folder / "certificate")
    groups: dict[str, list[Sheet]] = {}
    for sheet in sheets:
        if "solver_swap" in sheet.reports:
            groups.setdefault(sheet.scores["name"], []).append(sheet)
    for name, members in groups.items():
        stem = out / ("solver_sweep" if len(groups) == 1 else f"solver_sweep_{name}")
        paths += save_table(sweep_table([sheet.reports["solver_swap"][0] for sheet in members]), stem)
    return results, paths


def write_joint_curves(c: FiguresOptions, sheets: Sequence[Sheet], command: str) -> list[Path]:
    """Training curves of all models in one figure, seeds of one name as a band; nothing for a single model."""
    from analysis.figures import paper, save, training_curves
    from analysis.figures.style import FONT, caption_of
    from analysis.reports.model_folders import history

    logged = [sheet for sheet in sheets if "history" in sheet.reports]
    if len(logged) < 2 or (c.only and "training_curves" not in c.only):
        return []
    names = dict.fromkeys(sheet.scores["name"] for sheet in logged)
    found = [history([sheet.model for sheet in logged if sheet.scores["name"] == name], name) for name in names]
    caption = caption_of(training_curves)[1]
    with paper(c.venue, c.columns, c.font or FONT):
        made = training_curves(found)
    return save(made, c.out / "training_curves", reports=found, command=command, caption=caption, dpi=c.dpi)


def write_page(title: str, tables: Sequence[Any], drawn: Sequence[tuple[str, Sequence[Any]]], out: Path) -> Path:
    """index.html: tables, then figures under the names that they come with."""
    from odevit.checkpoint import write_atomically

    from .gallery import page, section

    text = page(title, tables, [section(name, figures, out) for name, figures in drawn])
    write_atomically(out / "index.html", text.encode())
    return out / "index.html"


def say_written(paths: Sequence[Path]) -> None:
    """One line for each file, the endings of one stem together."""
    stems: dict[Path, list[str]] = {}
    for path in paths:
        stems.setdefault(path.with_suffix(""), []).append(path.suffix[1:])
    for stem, endings in stems.items():
        print(f"wrote {stem}.{endings[0] if len(endings) == 1 else '{' + ','.join(endings) + '}'}")


def report_missing(sheets: Sequence[Sheet]) -> None:
    """Say which figures could not be drawn, and why."""
    for sheet in sheets:
        for figure in sheet.drawn:
            if not figure.paths:
                print(f"{sheet.name}: no {figure.name}: {figure.reason}", file=sys.stderr)
