"""A model and its images -> a folder of Reports (npz, csv, json), resumable, shared among the processes of torchrun.

The work is cut into tasks that do not depend on the number of processes; process r does tasks r, r + world, .., and process 0
joins their parts, which travel through files. Numbers are therefore the same for any number of processes.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from odevit.checkpoint import file_hash, write_atomically
from odevit.config import nearest
from odevit.errors import NonFiniteError, UserError
from odevit.processes import Processes

from ..reports import CertificateReport, Report
from .jobs import JOBS, Job, Task
from .ledger import Entry, Ledger
from .merging import merge
from .subject import Subject, subject

__all__ = ["JOBS", "Outcome", "run"]

POLL = 0.2  # seconds between two looks for the parts of other processes


@dataclass(frozen=True)
class Outcome:
    """What a run left behind.

    Attributes:
        reports: by name, in the order of their files; those that were there already are loaded.
        entries: what summary.json says of every report asked for.   paths: every file.   notes: of the subject.
        computed: names of the reports that were computed now.
    """

    reports: dict[str, tuple[Report, ...]]
    entries: dict[str, Entry]
    paths: tuple[Path, ...]
    notes: tuple[str, ...]
    computed: tuple[str, ...]


def run(
    model: Any,
    data: Any,
    out: Any,
    *,
    reports: Sequence[str] | None = None,
    images: int | None = None,
    seed: int = 0,
    device: Any = None,
    force: bool = False,
) -> Outcome:
    """Write every report of a model on some images into a folder; a finished one of the same run is not computed again.

    Args:
        model: an ODEViT or ViT, or the path of a model folder.   data: an ImageSet, images, or (images, labels).
        out: the folder.   reports: names, all of `JOBS` unless given.   images: at most this many, evenly spaced.
        seed: of start vectors.   device: where to compute.   force: write over another run.

    Returns:
        Outcome; without reports in the processes of torchrun other than the first.

    Raises:
        UserError: unknown report, a folder that holds something else, unfitting images. NonFiniteError: broken weights, pixels
        or trajectory; nothing is written then. A report that fails later is recorded as failed, and the others go on.
    """
    jobs = _chosen(reports)
    who = subject(model, data, images=images, seed=seed, device=device)
    processes, ledger = Processes(who.images.device), Ledger(Path(out), who)
    plan = processes.from_first(lambda: _plan(ledger, jobs, force))
    if isinstance(plan, str):
        raise UserError(plan)
    todo = {name: JOBS[name].tasks(who) for name in plan}
    missing = [task for name, tasks in todo.items() for task in tasks if (task.file, task.part) in plan[name]]
    with tqdm(missing[processes.rank :: processes.world], desc="analyze", unit="task", disable=None) as bar:
        for task in bar:
            bar.set_postfix_str(task.file)
            _do(ledger, task)
            if processes.rank == 0:
                _collect(ledger, todo)
    if processes.rank:
        return Outcome({}, {}, (), who.notes, ())
    while _collect(ledger, todo):
        time.sleep(POLL)
    ledger.sweep()
    return _outcome(ledger, jobs, tuple(plan))


def _chosen(reports: Sequence[str] | None) -> list[Job]:
    """The jobs of these names, in the order of JOBS."""
    if isinstance(reports, str) or (reports is not None and not reports):
        raise UserError(f"reports: {reports!r} is not a list of names (known: {', '.join(JOBS)})")
    for name in reports or ():
        if name not in JOBS:
            raise UserError(f"reports: unknown {name!r}{nearest(name, JOBS)} (known: {', '.join(JOBS)})")
    return [job for job in JOBS.values() if reports is None or job.name in reports]


def _plan(ledger: Ledger, jobs: Sequence[Job], force: bool) -> dict[str, list[tuple[str, int]]] | str:
    """(file, part) of what is missing for each report that is to be made; or what is wrong with the folder."""
    try:
        ledger.open(force)
        plan = {}
        for job in jobs:
            reason = job.unless(ledger.subject)
            if reason:
                ledger.record(job.name, Entry("skipped", reason, "", {}))
            elif not ledger.finished(job):
                tasks = job.tasks(ledger.subject)
                plan[job.name] = [(task.file, task.part) for task in tasks if not ledger.present(job, task)]
        return plan
    except UserError as error:
        return str(error)


def _do(ledger: Ledger, task: Task) -> None:
    """Compute a part and write it, or write why it cannot be computed."""
    job = JOBS[task.job]
    try:
        ledger.put(job, task, task.compute())
    except (UserError, NonFiniteError) as error:
        ledger.give_up(job, task, " ".join(str(error).split()))


def _collect(ledger: Ledger, todo: dict[str, list[Task]]) -> bool:
    """Write the reports whose parts are all there, take them off the list, and say whether any is left."""
    for name in [name for name, tasks in todo.items() if ledger.settled(JOBS[name], tasks)]:
        _finish(ledger, JOBS[name], todo.pop(name))
    return bool(todo)


def _finish(ledger: Ledger, job: Job, tasks: list[Task]) -> None:
    """Join the parts of a report, write its files and its entry."""
    reason = ledger.failure(job, tasks)
    if reason:
        ledger.record(job.name, Entry("failed", reason, "", {}))
        return
    parts: dict[str, list[Report]] = {}
    for task in tasks:
        path = ledger.part(job, task)
        parts.setdefault(task.file, []).append(Report.load(path.with_name(path.name + ".npz")))
    made = {file: merge(found) for file, found in parts.items()}
    files = [path for file, report in made.items() for path in _write(ledger.out / file, report)]
    entry = Entry(
        "done", job.headline(tuple(made.values())), ledger.subject.key(job.settings), {p.name: file_hash(p) for p in files}
    )
    ledger.record(job.name, entry)
    ledger.close(job)


def _write(path: Path, report: Report) -> list[Path]:
    """The files of one report: npz with json, csv, and the words of a certificate."""
    files = [report.save(path.with_name(path.name + ".npz"))]
    files += [files[0].with_suffix(".json"), report.to_csv(files[0].with_suffix(".csv"))]
    if isinstance(report, CertificateReport):
        files.append(files[0].with_suffix(".md"))
        write_atomically(files[-1], report.to_markdown().encode())
    return files


def _outcome(ledger: Ledger, jobs: Sequence[Job], computed: tuple[str, ...]) -> Outcome:
    entries = {job.name: ledger.entries[job.name] for job in jobs}
    summary = ledger.out / "summary.md"
    write_atomically(summary, _summary(ledger).encode())
    paths = [ledger.out / file for entry in entries.values() for file in entry.files]
    loaded = {
        name: tuple(Report.load(ledger.out / file) for file in entry.files if file.endswith(".npz"))
        for name, entry in entries.items()
        if entry.status == "done"
    }
    return Outcome(
        loaded, entries, (*paths, ledger.out / "summary.json", summary), ledger.subject.notes,
        tuple(name for name in computed if entries[name].status == "done"),
    )  # fmt: skip


def _summary(ledger: Ledger) -> str:
    """summary.md: every report of the folder in one line."""
    who: Subject = ledger.subject
    lines = [f"# Analyses of {who.name}", "", f"{who.source}, seed {who.seed}, float64 on {who.images.device}.", ""]
    lines += [*(f"- {note}" for note in who.notes), *([""] if who.notes else [])]
    lines += ["| report | result | files |", "|---|---|---|"]
    for name in [name for name in JOBS if name in ledger.entries]:
        entry = ledger.entries[name]
        text = entry.text if entry.status == "done" else f"{entry.status}: {entry.text}"
        files = ", ".join(f"[{f}]({f})" for f in entry.files)
        escaped = text.replace("|", "\\|")
        lines.append(f"| {name} | {escaped} | {files} |")
    return "\n".join(lines) + "\n"
