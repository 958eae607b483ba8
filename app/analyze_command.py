"""`odevit analyze`: every report on a model, a summary in the terminal, every path that was written."""

import shutil
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from odevit.errors import NonFiniteError, UserError

from .cli import parse


@dataclass(frozen=True)
class AnalyzeCommand:
    """Write reports on a model into a folder (npz, csv, json); what is finished there is not computed again."""

    model: tyro.conf.Positional[Path]
    """Model folder."""
    out: Path
    """Folder of the reports."""
    data: str | None = None
    """digits, cifar10, cifar100, .npz or folder; the training data unless given."""
    root: Path | None = None
    """Where torchvision keeps CIFAR."""
    split: Literal["val", "test"] = "val"
    """Split that the images come from."""
    images: int = 16
    """How many images, evenly spaced over the split; reports that cost much take the first few of them."""
    reports: str | None = None
    """Names of the reports, separated by commas; all unless given (an unknown name lists them)."""
    seed: int = 0
    """Seed of start vectors."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    force: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Write over another run in --out."""

    def __post_init__(self):
        if self.images < 1:
            raise UserError(f"images: {self.images} must be at least 1")
        if self.reports is not None and not self.names:
            raise UserError("reports: no name given")

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names in `reports`, None for all."""
        if self.reports is None:
            return None
        return tuple(name for name in self.reports.replace(",", " ").split())


def analyze(args: list[str]) -> None:
    """`odevit analyze`."""
    from odevit.checkpoint import check_weights
    from odevit.optimisation import pick_device
    from odevit.processes import leave

    c = parse(AnalyzeCommand, args, "analyze")
    import analysis

    from .commands import load_pair

    model, data = load_pair(c.model, c.data, c.root, c.split, c.images)
    check_weights(model)
    found = analysis.run(
        c.model, data, c.out, reports=c.names, images=c.images, seed=c.seed, device=pick_device(c.device), force=c.force
    )
    leave()
    if found.entries:
        _show(found, c)


def _show(found, c: AnalyzeCommand) -> None:
    """Paths, the certificate, and one line a report; NonFiniteError where one failed."""
    names = ["summary.json", "summary.md"] + [file for name in found.computed for file in found.entries[name].files]
    stems: dict[str, list[str]] = {}
    for name in names:
        stem, _, suffix = name.rpartition(".")
        stems.setdefault(stem, []).append(suffix)
    for stem, suffixes in stems.items():
        print(f"wrote {c.out / stem}.{{{','.join(suffixes)}}}")
    for note in (*found.notes, *(["test split: report it, do not select on it"] if c.split == "test" else [])):
        print(f"note: {note}")
    if "certificate" in found.reports:
        print(f"\n{found.reports['certificate'][0].to_text()}")
    print(f"\n{_table(found)}")
    failed = {name: entry.text for name, entry in found.entries.items() if entry.status == "failed"}
    if failed:
        first, reason = next(iter(failed.items()))
        raise NonFiniteError(f"{len(failed)} of {len(found.entries)} reports failed; {first}: {reason}")


def _table(found) -> str:
    """One line a report: its name, and its headline or why it is not there."""
    width, room = max(map(len, found.entries)), shutil.get_terminal_size((120, 24)).columns
    lines = []
    for name, entry in found.entries.items():
        kept = "" if name in found.computed or entry.status != "done" else " (was there already)"
        text = entry.text + kept if entry.status == "done" else f"{entry.status}: {entry.text}"
        lines += textwrap.wrap(f"{name:<{width}}  {text}", max(60, room), subsequent_indent=" " * (width + 2))
    return "\n".join(lines)
