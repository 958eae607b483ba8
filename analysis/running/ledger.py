"""The folder of a run: what is finished, the parts of what is not, and summary.json, which says both.

A finished report counts while its key (model, images, seed, settings) and the hashes of its files are what summary.json says;
anything else is made again. Parts lie under .parts/NAME-KEY until all of them are there.
"""

import contextlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odevit.checkpoint import file_hash, write_atomically
from odevit.errors import UserError

from ..reports import Report
from .jobs import Job, Task
from .subject import Subject

FORMAT = 1


@dataclass(frozen=True)
class Entry:
    """What summary.json says of one report.

    status: done, skipped or failed.   text: its headline, or why not.   key: of what it was made.   files: hashes by name.
    """

    status: str
    text: str
    key: str
    files: dict[str, str]


class Ledger:
    """The folder of one run.

    Args:
        out: the folder.   subject: what is analysed.
    """

    def __init__(self, out: Path, subject: Subject):
        self.out, self.subject, self.entries = out, subject, self._read(out)[1]

    @staticmethod
    def _read(out: Path) -> tuple[dict[str, Any] | None, dict[str, Entry]]:
        """(identity of the subject, entries) of a summary.json; None where there is none that can be read."""
        try:
            content = json.loads((out / "summary.json").read_text())
            return content["subject"], {name: Entry(**entry) for name, entry in content["reports"].items()}
        except (OSError, ValueError, KeyError, TypeError):
            return None, {}

    def open(self, force: bool) -> None:
        """Make the folder, or go on in it; UserError where it holds anything but this run, unless forced."""
        identity = self._read(self.out)[0]
        summary = self.out / "summary.json"
        if self.out.exists() and not self.out.is_dir():
            raise UserError(f"out: {self.out} is a file")
        if force:
            for name in [name for entry in self.entries.values() for name in entry.files]:
                (self.out / name).unlink(missing_ok=True)
            self.entries = {}
            shutil.rmtree(self.out / ".parts", ignore_errors=True)
        elif identity is not None and identity != self.subject.identity:
            changed = next(k for k in self.subject.identity if identity.get(k) != self.subject.identity[k])
            was, now = identity.get(changed), self.subject.identity[changed]
            raise UserError(f"out: {self.out} holds another run ({changed} {was}, now {now}); --force writes over it")
        elif not summary.exists() and self.out.exists() and any(p for p in self.out.iterdir() if p.name != ".parts"):
            raise UserError(f"out: {self.out} holds other files and no run of this kind; --force writes into it")
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"out: {self.out} cannot be made ({error.strerror or error})") from None

    def finished(self, job: Job) -> bool:
        """Whether the report is there, whole, and made of the same things."""
        entry = self.entries.get(job.name)
        return bool(
            entry and entry.status == "done" and entry.key == self.subject.key(job.settings) and entry.files
            and all((self.out / n).exists() and file_hash(self.out / n) == h for n, h in entry.files.items())
        )  # fmt: skip

    def part(self, job: Job, task: Task) -> Path:
        """Where a part lies, without suffix."""
        return self.out / ".parts" / f"{job.name}-{self.subject.key(job.settings)}" / f"{task.file}-{task.part}"

    def present(self, job: Job, task: Task) -> bool:
        """Whether a part is there and whole."""
        path = self.part(job, task)
        path.with_name(path.name + ".failed").unlink(missing_ok=True)
        try:
            Report.load(_npz(path))
        except UserError:
            return False
        return True

    def settled(self, job: Job, tasks: Iterable[Task]) -> bool:
        """Whether every part was either written or given up."""
        paths = [self.part(job, task) for task in tasks]
        return all(_json(path).exists() or path.with_name(path.name + ".failed").exists() for path in paths)

    def give_up(self, job: Job, task: Task, message: str) -> None:
        """Say that a part cannot be made."""
        path = self.part(job, task)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path.with_name(path.name + ".failed"), message.encode())

    def put(self, job: Job, task: Task, report: Report) -> None:
        """Write a part."""
        self.subject.stamped(report).save(_npz(self.part(job, task)))

    def failure(self, job: Job, tasks: Iterable[Task]) -> str:
        """Why the report could not be made, '' where it could."""
        paths = [self.part(job, task) for task in tasks]
        failed = [p.with_name(p.name + ".failed") for p in paths]
        return next((path.read_text() for path in failed if path.exists()), "")

    def close(self, job: Job) -> None:
        """Remove the parts of a report that is written."""
        shutil.rmtree(self.out / ".parts" / f"{job.name}-{self.subject.key(job.settings)}", ignore_errors=True)

    def sweep(self) -> None:
        """Remove the folder of parts where nothing is left in it; no process may be writing parts."""
        with contextlib.suppress(OSError):
            (self.out / ".parts").rmdir()

    def record(self, name: str, entry: Entry) -> None:
        """Put an entry into summary.json."""
        self.entries[name] = entry
        content = {
            "format": FORMAT, "subject": self.subject.identity, "source": self.subject.source,
            "notes": list(self.subject.notes), "reports": {name: vars(entry) for name, entry in self.entries.items()},
        }  # fmt: skip
        write_atomically(self.out / "summary.json", (json.dumps(content, indent=1) + "\n").encode())


def _npz(path: Path) -> Path:
    return path.with_name(path.name + ".npz")


def _json(path: Path) -> Path:
    return path.with_name(path.name + ".json")
