"""Figures of attention on the image grid: head by head, over time, teacher against student."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from odevit.errors import UserError

from ..reports import AttentionReport, PairReport
from . import style
from .choices import bare, check_index, layer_times, layout_of, narrow, spread, time_index


class Row(NamedTuple):
    """A row of maps on one scale from 0 to the largest of `scale` (its own maps unless given)."""

    label: str
    titles: Sequence[str]
    maps: Sequence[np.ndarray]
    scale: np.ndarray | None = None


@style.figure
def cls_attention(
    report: AttentionReport, image: int = 0, time: float | None = None, *, picture: np.ndarray | None = None
) -> Figure:
    """Attention of CLS to the patches, head by head.

    Share of CLS's attention that goes to each patch, at one time: every head, then their mean, all on one scale. Last row: the
    rollout up to saved times (Abnar and Zuidema 2020), how much of CLS is made of each patch. CLS and registers take the rest.

    Args:
        report: AttentionReport.   image: which.   time: a saved time; the last unless given.
        picture: the image itself, (rows, columns), (rows, columns, 3) or (channels, rows, columns).
    """
    maps = _checked(report, image)
    k = len(report.time) - 1 if time is None else time_index(report.time, time)
    shown = [*maps[k], maps[k].mean(0)]
    titles = [*(f"head {h}" for h in range(len(maps[k]))), "mean"]
    most = math.ceil(len(shown) / math.ceil(len(shown) / (4 if narrow() else 6)))
    cuts = [slice(first, first + most) for first in range(0, len(shown), most)]
    rows = [Row(f"$t = {report.time[k]:.3g}$", titles[cut], shown[cut], maps[k]) for cut in cuts]
    until = spread(min(k + 1, len(report.rollout_time)), most)
    titles = [f"to $t = {report.rollout_time[j]:.3g}$" for j in until]
    return strip([*rows, Row("rollout", titles, list(report.rollout_maps[until, image]))], picture)


@style.figure
def attention_over_time(
    report: AttentionReport, image: int = 0, *, heads: Sequence[int] = (), picture: np.ndarray | None = None
) -> Figure:
    """Attention of CLS to the patches over time.

    Mean over heads at saved times, and the rollout up to each time: how much of CLS is made of each patch by then. Every row
    has its own scale; CLS and registers take the rest.

    Args:
        report: AttentionReport.   image: which.   heads: that get a row of their own.
        picture: the image itself, (rows, columns), (rows, columns, 3) or (channels, rows, columns).
    """
    maps = _checked(report, image)
    most = 4 if narrow() else 6
    chosen = spread(len(report.time), most)
    titles = [f"$t = {report.time[k]:.3g}$" for k in chosen]
    rows = [Row("mean", titles, list(maps[chosen].mean(1)))]
    for head in heads:
        check_index("head", head, maps.shape[1])
        rows.append(Row(f"head {head}", titles, list(maps[chosen, head])))
    after = spread(len(report.rollout_time), len(chosen))
    titles = [f"$t = {report.rollout_time[k]:.3g}$" for k in after]
    rows.append(Row("rollout", titles, list(report.rollout_maps[after, image])))
    return strip(rows, picture)


@style.figure
def teacher_student_attention(
    student: AttentionReport,
    teacher: AttentionReport,
    control_times: Sequence[float] | PairReport | None = None,
    image: int = 0,
    *,
    picture: np.ndarray | None = None,
) -> Figure:
    """Attention of CLS in teacher and student.

    Mean over heads of the share of CLS's attention that goes to each patch: layers of the teacher above, the student below at
    the saved time nearest to the control time at which that layer begins. Each row has its own scale.

    Args:
        student, teacher: AttentionReports of the same images.
        control_times: t_1 .. t_L, one for each layer of the teacher, or the PairReport; spread evenly unless given.
        image: which.   picture: the image itself, (rows, columns), (rows, columns, 3) or (channels, rows, columns).
    """
    below, above = _checked(student, image), _checked(teacher, image)
    if student.cls_maps.shape[1] != teacher.cls_maps.shape[1]:
        raise UserError(f"teacher: {teacher.cls_maps.shape[1]} images, the student has {student.cls_maps.shape[1]}")
    span = (float(student.time[0]), float(max(student.time[-1], student.rollout_time[-1])))
    times = layer_times(control_times, len(teacher.time), span)
    layers = spread(len(teacher.time), 4 if narrow() else 6)
    nearest = [int(np.abs(student.time - times[l]).argmin()) for l in layers]
    return strip([
        Row("teacher", [f"layer {teacher.time[l]:g}" for l in layers], list(above[layers].mean(1))),
        Row("student", [f"$t = {student.time[k]:.3g}$" for k in nearest], list(below[nearest].mean(1))),
    ], picture)  # fmt: skip


def _checked(report: AttentionReport, image: int) -> np.ndarray:
    """CLS maps of one image, (K', H, rows, columns)."""
    style.check_report(report, AttentionReport, "cls_maps")
    layout_of(report)
    check_index("image", image, report.cls_maps.shape[1])
    return report.cls_maps[:, image]


def picture_of(picture) -> np.ndarray:
    """A picture as imshow takes it: (rows, columns) or (rows, columns, 3) in [0, 1]; UserError for another shape."""
    array = np.asarray(picture)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[-1] not in (1, 3):
        array = np.moveaxis(array, 0, -1)
    if array.ndim == 3 and array.shape[-1] == 1:
        array = array[..., 0]
    if array.ndim != 2 and not (array.ndim == 3 and array.shape[-1] == 3):
        raise UserError(f"picture: shape {np.shape(picture)} is not an image of 1 or 3 channels")
    low, high = array.min(), array.max()
    if array.dtype == np.uint8:
        low, high = 0, 255
    return (array - low) / ((high - low) or 1)


def strip(rows: Sequence[Row], picture=None) -> Figure:
    """A figure of rows of maps, each with its scale at its right end; the picture stands in front of the first row.

    Args:
        rows: rows of maps.   picture: see `picture_of`, or None.
    """
    first = 0 if picture is None else 1
    columns = first + max(len(row.maps) for row in rows)
    wide = style.width(*style.page())
    aspect = rows[0].maps[0].shape[0] / rows[0].maps[0].shape[1]
    cell = min(1.1, (wide - 1.05) / columns)
    made, _ = style.panels(1, 1, height=(len(rows) * (cell * aspect + 0.25) + 0.1) / wide)
    made.clear()
    grid = made.add_gridspec(len(rows), columns + 1, width_ratios=[1.0] * columns + [0.1])
    if picture is not None:
        ax = made.add_subplot(grid[0, 0])
        ax.imshow(picture_of(picture), cmap="gray", vmin=0, vmax=1)
        ax.set_title("image", fontsize=7, pad=2)
        bare(ax)
    for i, row in enumerate(rows):
        _draw(made, [grid[i, first + j] for j in range(len(row.maps))], grid[i, -1], row)
    return made


def _draw(made: Figure, cells, end, row: Row) -> None:
    maps = [style.note_gaps(made, values, row.label) for values in row.maps]
    top = float(np.nanmax(row.scale if row.scale is not None else maps, initial=0.0)) or 1.0
    cmap = matplotlib.colormaps[style.sequential].with_extremes(bad="0.8")
    axes = [made.add_subplot(cell) for cell in cells]
    for ax, title, values in zip(axes, row.titles, maps):
        drawn = ax.imshow(values, vmin=0.0, vmax=top, cmap=cmap)
        ax.set_title(title, fontsize=7, pad=2)
    axes[0].set_ylabel(row.label)
    bare(*axes)
    made.colorbar(drawn, cax=made.add_subplot(end)).set_label("share", fontsize=7)
