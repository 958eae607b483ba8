"""Reports for the pages: computed in parts with progress and a Stop button, kept on disk, never computed twice.

A report is known by the model's hash, the pixels and labels, the seed, its name and its settings. One computation runs at a
time for all visitors, who wait for their turn; it can be stopped wherever the field is evaluated, and a visitor who leaves or
stops keeps the parts that are finished.
"""

import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import streamlit as st
from torch import nn

from analysis.reports import FORMAT, Report
from analysis.running.jobs import JOBS
from analysis.running.merging import merge
from analysis.running.subject import Subject, subject
from odevit.backbone import Backbone
from odevit.checkpoint import write_atomically
from odevit.field import Block

from .loading import double
from .state import Visit

CACHE = "ODEVIT_APP_CACHE"  # folder of the reports; runs/app_cache unless set
LIMIT = 512_000_000  # bytes kept there; the longest unused go first
LOOK = 0.3  # seconds between two looks at the Stop button
_TURN = threading.Lock()

Part = tuple[str, Callable[[Subject], Report]]  # what it is, in words; its computation


class Stopped(Exception):
    """The visitor stopped a computation.   key: of the computation.   done, total: parts."""

    def __init__(self, key: str, done: int, total: int):
        super().__init__(f"{done} of {total} parts are finished, and kept")
        self.key = key


def why_not(visit: Visit, name: str) -> str:
    """Why a report of `analysis.running.JOBS` makes no sense for the model; '' where it does."""
    return _reason(_key(visit, name, "why not", 1), name, visit)


@st.cache_data(max_entries=256, show_spinner=False)
def _reason(key: str, name: str, _visit: Visit) -> str:
    return JOBS[name].unless(_subject(_visit, 1))


def reports(visit: Visit, name: str, images: int = 1) -> tuple[Any, ...]:
    """A report of `analysis.running.JOBS` on the first `images` of the visit, one for each of its files.

    Raises:
        Stopped: by the visitor. UserError, NonFiniteError: as the analysis does.
    """
    job = JOBS[name]
    key = _key(visit, name, job.settings, images)
    kept = _kept(key)
    if kept is not None:
        return kept
    who = _subject(visit, images)
    tasks = job.tasks(who)
    labels = [task.file if len(tasks) == 1 else f"{task.file}, part {i + 1}" for i, task in enumerate(tasks)]
    parts = [(label, lambda _, task=task: task.compute()) for label, task in zip(labels, tasks)]

    def joined(made: list[Report]) -> list[Report]:
        groups: dict[str, list[Report]] = {}
        for task, report in zip(tasks, made):
            groups.setdefault(task.file, []).append(report)
        return [merge(group) for group in groups.values()]

    return _compute(key, name, who, parts, joined)


def custom(visit: Visit, name: str, settings: str, parts: Sequence[Part], images: int = 1) -> tuple[Any, ...]:
    """Reports of a page's own, one for each part.

    Args:
        name: unique in the app.   settings: everything that changes the numbers beyond model, images and seed.
        parts: (what it is, subject -> Report), each of a second or two, since those that are finished are kept.
    """
    key = _key(visit, name, settings, images)
    kept = _kept(key)
    return kept if kept is not None else _compute(key, name, _subject(visit, images), parts, list)


def go_on(key: str) -> None:
    """Let a stopped computation run again."""
    st.session_state.get("stopped", set()).discard(key)


def _stop(key: str) -> None:
    st.session_state.setdefault("stopped", set()).add(key)


def _subject(visit: Visit, images: int) -> Subject:
    """The images in float64 on the model in float64; the model is shared, the images are few."""
    data = visit.some(images)
    labels = data.labels if int(data.labels.min()) >= 0 else None
    made = subject(double(visit.entry), data.images if labels is None else (data.images, labels), seed=visit.seed)
    indices = ", ".join(map(str, visit.indices(images)[:8])) + (" .." if images > 8 else "")
    return replace(made, name=visit.hash, source=f"{data.source}, {data.split}, index {indices}")


def _key(visit: Visit, name: str, settings: str, images: int) -> str:
    data = visit.some(images)
    digest = hashlib.sha256(data.images.numpy().tobytes() + data.labels.numpy().tobytes())
    facts = [visit.hash, digest.hexdigest(), visit.seed, name, settings, FORMAT]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:20]


def folder() -> Path:
    """Where reports are kept; a temporary folder where the usual one cannot be written."""
    return _folder(os.environ.get(CACHE, "runs/app_cache"))


@cache
def _folder(name: str) -> Path:
    place = Path(name)
    try:
        place.mkdir(parents=True, exist_ok=True)
        write_atomically(place / ".writable", b"")
        return place
    except OSError:
        return Path(tempfile.mkdtemp(prefix="odevit-app-"))


def _kept(key: str) -> tuple[Report, ...] | None:
    """The finished reports of a computation, None where there are none."""
    place = folder() / key
    try:
        count = json.loads((place / "done.json").read_text())["reports"]
        found = tuple(Report.load(place / f"report{i}.npz") for i in range(count))
    except Exception:  # not there, or damaged: made again
        return None
    with suppress(OSError):
        os.utime(place)
    return found


def _compute(
    key: str, name: str, who: Subject, parts: Sequence[Part], joined: Callable[[list[Report]], list[Report]]
) -> tuple[Report, ...]:  # fmt: skip
    """The finished reports, computed part by part in this visitor's turn, with progress."""
    spot = st.empty()
    with spot.container(border=True):
        bar = st.progress(0.0, f"{name}: waiting for another visitor's computation")
        st.button("Stop", key=f"stop {key}", on_click=_stop, args=(key,), help="The parts that are finished are kept.")
    while not _TURN.acquire(timeout=0.2):
        bar.progress(0.0, f"{name}: waiting for another visitor's computation")
    try:
        kept = _kept(key)  # another visitor may have made them meanwhile
        if kept is None:
            kept = _finish(key, joined(_run(key, who, parts, bar)))
    finally:
        _TURN.release()
    spot.empty()
    return kept


def _run(key: str, who: Subject, parts: Sequence[Part], bar) -> list[Report]:
    """The parts in order; those that are on disk are taken from there."""
    found = []
    for i, (label, compute) in enumerate(parts):
        if key in st.session_state.get("stopped", ()):
            kept = sum((folder() / key / f"part{k}.npz").exists() for k in range(len(parts)))
            raise Stopped(key, kept, len(parts))
        share, text = i / len(parts), f"{label} ({i + 1} of {len(parts)})"
        bar.progress(share, text)
        with _evaluations(who.model, partial(_tell, bar, share, text)):
            found.append(_part(folder() / key / f"part{i}.npz", who, compute))
    return found


def _tell(bar: Any, share: float, text: str, count: int) -> None:
    bar.progress(share, f"{text}, NFE {count:,}")


@contextmanager
def _evaluations(model: Backbone, tell: Callable[[int], Any]) -> Iterator[None]:
    """Tell how often this thread has evaluated a block of the model so far, every LOOK seconds.

    Streamlit interrupts a script where it says something: so a click on Stop, or on another page, is seen within a long part.
    """
    mine, count, last = threading.get_ident(), 0, time.monotonic()

    def evaluated(module: nn.Module, _) -> None:
        nonlocal count, last
        if threading.get_ident() != mine:  # another visitor's page, on the same model
            return
        count += isinstance(module, Block)
        if time.monotonic() - last > LOOK:
            last = time.monotonic()
            tell(count)

    hooks = [module.register_forward_pre_hook(evaluated) for module in model.field.modules()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _part(path: Path, who: Subject, compute: Callable[[Subject], Report]) -> Report:
    if path.exists():
        with suppress(Exception):  # damaged: made again
            return Report.load(path)
    report = who.stamped(compute(who))
    report.save(path)
    return report


def _finish(key: str, made: list[Report]) -> tuple[Report, ...]:
    place = folder() / key
    for i, report in enumerate(made):
        report.save(place / f"report{i}.npz")
    write_atomically(place / "done.json", json.dumps({"reports": len(made)}).encode())
    for part in place.glob("part*"):
        part.unlink(missing_ok=True)
    _evict()
    return tuple(made)


def _evict() -> None:
    """Remove the longest unused reports while there are more bytes than LIMIT."""
    places = sorted((p for p in folder().iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime, reverse=True)
    total = 0
    for i, place in enumerate(places):
        total += sum(file.stat().st_size for file in place.glob("*"))
        if total > LIMIT and i:
            shutil.rmtree(place, ignore_errors=True)
