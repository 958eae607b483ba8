"""All figures of a list from many Reports: what each needs, what cannot be drawn and why, files and captions."""

import contextlib
import fnmatch
import inspect
import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from odevit.config import nearest
from odevit.errors import UserError

from ..reports import Report
from . import style
from .outputs import caption_of, save, write_bytes, write_sidecar

NARROWEST = 1.4  # inches of a panel next to another
Reports = Mapping[str, Sequence[Report]]  # by the names of analysis.running.JOBS, and those of reports.model_folders.of_folder


class Entry(NamedTuple):
    """A figure of the list: its function, and the reports that it draws in the order of its arguments.

    "name" is one report of `analysis.running.JOBS`, "name*" the list of all reports whose name matches; a trailing "?" says
    that the figure can do without. `options` are further arguments of the function.
    """

    function: Callable[..., Any]
    reports: tuple[str, ...]
    options: Mapping[str, Any] = {}

    def takes_axes(self) -> bool:
        """Whether the figure is one axes and can be drawn on given ones."""
        return "ax" in inspect.signature(self.function).parameters


@dataclass(frozen=True)
class Drawn:
    """What became of one figure: its files, or why there are none."""

    name: str
    title: str
    caption: str
    paths: tuple[Path, ...] = ()
    reason: str = ""


def chosen(figures: Mapping[str, Entry], names: Iterable[str]) -> dict[str, Entry]:
    """The entries of these names, all of them where none is given; UserError with the nearest name for an unknown one."""
    names = list(names)
    for name in names:
        if name not in figures:
            raise UserError(f"figure: unknown {name!r}{nearest(name, figures)} (known: {', '.join(figures)})")
    return {name: figures[name] for name in names} if names else dict(figures)


def needed(figures: Mapping[str, Entry], known: Iterable[str]) -> list[str]:
    """Names of the reports that figures are drawn from, of those that are known."""
    patterns = {pattern.rstrip("?") for entry in figures.values() for pattern in entry.reports}
    return [name for name in known if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


def arguments(entry: Entry, reports: Reports) -> list[Any]:
    """The arguments of a figure from the reports at hand; UserError that names a report that is missing."""
    found: list[Any] = []
    for pattern in entry.reports:
        name, optional = pattern.rstrip("?"), pattern.endswith("?")
        matching = [report for key in fnmatch.filter(reports, name) for report in reports[key]]
        if not matching and not optional:
            raise UserError(f"needs the report {name.rstrip('*')!r}")
        found.append(matching if name.endswith("*") else matching[0] if matching else None)
    return found


def draw(
    figures: Mapping[str, Entry], reports: Reports, out, *, command: str = "", dpi: int = 300, missing: Mapping[str, str] = {}
) -> list[Drawn]:  # fmt: skip
    """Draw figures in the style of the paper in force and save each with its data; one that cannot be drawn stops no other.

    Args:
        figures: entries by name.   reports: by name.   out: folder.   command: how to make them again.   dpi: of the PNG.
        missing: why reports are missing, by name.

    Returns:
        Drawn for each figure, in order.

    Raises:
        UserError: the folder cannot be written, or reports of different models.
    """
    style.check_same_model(report for group in reports.values() for report in group)

    def files(name: str, entry: Entry, given: list[Any]) -> list[Path]:
        made, caption = entry.function(*given, **entry.options), caption_of(entry.function)[1]
        return save(made, Path(out) / name, reports=flat(given), command=command, caption=caption, dpi=dpi)

    return [_attempt(name, entry, reports, missing, files) for name, entry in figures.items()]


def animate(
    animations: Mapping[str, Entry], reports: Reports, out, *, command: str = "", missing: Mapping[str, str] = {}
) -> list[Drawn]:  # fmt: skip
    """Write animations, functions of reports and a path, as GIFs with a sidecar; arguments and failures as in `draw`."""

    def files(name: str, entry: Entry, given: list[Any]) -> list[Path]:
        path = Path(out) / f"{name}.gif"
        path.parent.mkdir(parents=True, exist_ok=True)
        written, caption = entry.function(*given, path, **entry.options), caption_of(entry.function)[1]
        return [written, write_sidecar(path, flat(given), figure=name, caption=caption, command=command)]

    return [_attempt(name, entry, reports, missing, files) for name, entry in animations.items()]


def flat(given: Iterable[Any]) -> list[Report]:
    """The reports among the arguments of a figure."""
    return [r for part in given for r in (part if isinstance(part, list) else [part]) if r is not None]


def _attempt(
    name: str, entry: Entry, reports: Reports, missing: Mapping[str, str],
    files: Callable[[str, Entry, list[Any]], list[Path]],
) -> Drawn:  # fmt: skip
    """The files of a figure, or the reason why it cannot be drawn."""
    title, caption = caption_of(entry.function)
    try:
        return Drawn(name, title, caption, tuple(files(name, entry, arguments(entry, reports))))
    except UserError as error:
        patterns = [pattern.rstrip("?") for pattern in entry.reports]
        why = [f"{key}: {text}" for key, text in missing.items() if any(fnmatch.fnmatchcase(key, p) for p in patterns)]
        return Drawn(name, title, caption, reason="; ".join([str(error), *why]))


def write_list(drawn: Sequence[Drawn], out) -> Path:
    """figures.yaml: every figure with its title, files and, where it could not be drawn, the reason."""
    lines = []
    for figure in drawn:
        lines += [f"- figure: {figure.name}", f"  title: {json.dumps(figure.title)}"]
        files = [str(path.relative_to(out)) for path in figure.paths]
        lines += [f"  files: {json.dumps(files)}"] if files else [f"  not drawn: {json.dumps(figure.reason)}"]
    return write_bytes(Path(out) / "figures.yaml", ("\n".join(lines) + "\n").encode())


@style.figure
def side_by_side(entry: Entry, groups: Sequence[Sequence[Any]], names: Sequence[str]) -> Figure:
    """One figure for each model, in panels with the same limits, under each other where they would be too narrow.

    Args:
        entry: a figure that takes `ax`.   groups: its arguments for each model.   names: of the models, over the panels.
    """
    count = len(groups)
    made, axes = _panels_of(entry, groups, names, (1, count), 0.62)
    if min(ax.get_window_extent().width for ax in axes) < NARROWEST * made.dpi or not all(ax.axison for ax in axes):
        made, axes = _panels_of(entry, groups, names, (count, 1), 0.62 * count)
    return made


def _panels_of(
    entry: Entry, groups: Sequence[Sequence[Any]], names: Sequence[str], shape: tuple[int, int], height: float
) -> tuple[Figure, list[Axes]]:
    made, axes = style.new_figure(height), []
    for part, given, name in zip(made.subfigures(*shape, squeeze=False).flat, groups, names):
        axes.append(part.add_subplot())
        part.suptitle(name, fontweight="bold")
        entry.function(*given, ax=axes[-1], **entry.options)
    _share_limits(axes)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="constrained_layout not applied")  # they are too narrow, which is asked next
        made.draw_without_rendering()
    return made, axes


def _share_limits(axes: Sequence[Axes]) -> None:
    """The same limits on all axes, where they hold no image, have one kind of scale and are free to take them."""
    if any(ax.images for ax in axes) or len({(ax.get_xscale(), ax.get_yscale()) for ax in axes}) > 1:
        return
    if any(ax.get_aspect() != "auto" and ax.get_adjustable() == "datalim" for ax in axes):
        return
    for limits, put in (("get_xlim", "set_xlim"), ("get_ylim", "set_ylim")):
        found = np.array([getattr(ax, limits)() for ax in axes])
        if (np.diff(found, axis=1) > 0).all():
            for ax in axes:
                with contextlib.suppress(ValueError):
                    getattr(ax, put)(found[:, 0].min(), found[:, 1].max())
