"""Figures of CLS paths on principal axes, in two and three dimensions: by class, and teacher against student.

Coordinates are ((x - mean) . e_1, (x - mean) . e_2, ..) with the axes e_i of the report (see analysis.token_paths.bases).
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from odevit.errors import UserError

from ..reports import LensReport, PairReport, TokenPathReport
from . import style
from .choices import check_index, class_name, classes_of, side_legend

LEGEND_LIMIT = 20  # classes above which a legend is longer than the figure is high


@style.figure
def cls_trajectory(
    paths: TokenPathReport,
    lens: LensReport | None = None,
    *,
    labels: Sequence[int] | None = None,
    names: Sequence[str] = (),
    ax: Axes | None = None,
) -> Figure:
    """Paths of the CLS token on two principal axes.

    One line an image; dots are saved times, the open circle is t = 0 (the same state for all images), the large marker t = T.
    Colour and marker tell the class: the label where labels are given, else the model's prediction. The share of the variance
    that an axis explains is of the states that the axes were computed on.

    Args:
        paths: TokenPathReport.   lens: LensReport of the same images, for predicted classes.
        labels: class of each image.   names: of the classes.   ax: axes to draw on.
    """
    return _by_class(paths, lens, labels, names, ax, 2)


@style.figure
def cls_trajectory_3d(
    paths: TokenPathReport,
    lens: LensReport | None = None,
    *,
    labels: Sequence[int] | None = None,
    names: Sequence[str] = (),
    ax: Axes | None = None,
) -> Figure:
    """Paths of the CLS token on three principal axes.

    One line an image; dots are saved times, the open circle is t = 0 (the same state for all images), the large marker t = T.
    Colour and marker tell the class: the label where labels are given, else the model's prediction.

    Args:
        paths: TokenPathReport with at least 3 components.   lens: LensReport of the same images, for predicted classes.
        labels: class of each image.   names: of the classes.   ax: 3-D axes to draw on.
    """
    return _by_class(paths, lens, labels, names, ax, 3)


@style.figure
def teacher_student_trajectory(
    report: PairReport, components: int = 2, *, images: Sequence[int] = (0, 1, 2), ax: Axes | None = None
) -> Figure:
    """CLS paths of student and teacher on the same principal axes.

    Solid: the student x(t), dots are its saved times. Dashed with squares: the layers h_l of the teacher. Diamonds: the
    student at the control time of each layer, where it is asked to be at h_l; grey lines join the pairs.

    Args:
        report: PairReport.   components: axes drawn, 2 or 3.   images: which are drawn (those that exist).
        ax: axes to draw on, 3-D ones for three components.
    """
    style.check_report(report, PairReport, "student_cls", "teacher_cls")
    if components not in (2, 3):
        raise UserError(f"components: {components} cannot be drawn; 2 or 3")
    made, ax = _axes(report, ax, components)
    check_index("component", components - 1, report.student_cls.shape[-1])
    x = style.note_gaps(made, report.student_cls[..., :components], "student_cls")
    h = style.note_gaps(made, report.teacher_cls[..., :components], "teacher_cls")
    at = _student_at(report.time, x, report.control_times)
    for order, i in enumerate(i for i in images if 0 <= i < x.shape[1]):
        for pair in np.stack([at[:, i], h[:, i]], 1):
            ax.plot(*pair.T, "-", color="0.6", linewidth=0.5, label="_pair")
        named = (lambda text: text) if order == 0 else (lambda text: f"_{text}")
        blue, orange, green = style.OKABE_ITO[:3]
        ax.plot(*x[:, i].T, "-", color=blue, marker=".", label=named("student $x(t)$"))
        ax.plot(*h[:, i].T, linestyle=style.DASHES[1], color=orange, marker="s", label=named("teacher $h_l$"))
        ax.plot(*at[:, i].T, "D", color=green, markeredgecolor="black", markeredgewidth=0.3, label=named("control points"))
    side_legend(ax, 1.12 if components == 3 else 1.0)
    return made


def _by_class(paths, lens, labels, names, ax, components: int) -> Figure:
    made, ax, states = _start(paths, ax, components)
    if lens is not None:
        style.check_same_model([paths, style.check_report(lens, LensReport, "logits")])
    classes = classes_of(states.shape[1], lens, labels)
    seen: set[int] = set()
    for i, path in enumerate(states.swapaxes(0, 1)):
        index = 0 if classes is None else int(classes[i])
        colour, label = style.class_colour(index), None
        if classes is not None and index not in seen:
            label = class_name(index, names)
        seen.add(index)
        ax.plot(*path.T, "-", color=colour, linewidth=0.7, alpha=0.7, marker=".", markersize=2, label=f"_image {i}")
        look = style.dots(index) | {"markeredgecolor": "black", "markeredgewidth": 0.3}
        ax.plot(*path[-1:].T, label=label, **look)
    ax.plot(*states[0, :1].T, "o", color="black", markerfacecolor="white", markersize=5, label="$t = 0$")
    if len(seen) > LEGEND_LIMIT:
        style.note(made, f"{len(seen)} classes, no legend")
    else:
        side_legend(ax, 1.12 if components == 3 else 1.0, sort=True)
    return made


def _start(paths, ax: Axes | None, components: int) -> tuple[Figure, Axes, np.ndarray]:
    """Figure, labelled axes, and the CLS coordinates (K, B, components)."""
    style.check_report(paths, TokenPathReport, "coordinates")
    made, ax = _axes(paths, ax, components)
    check_index("component", components - 1, paths.coordinates.shape[-1])
    return made, ax, style.note_gaps(made, paths.coordinates[:, :, 0, :components], "coordinates")


def _axes(report, ax: Axes | None, components: int) -> tuple[Figure, Axes]:
    """Figure and axes, named after the principal axes of the report."""
    made, ax = style.new_axes(ax, height=0.55 if components == 2 else 0.7, projection="3d" if components == 3 else None)
    if components == 3 and ax.name != "3d":
        raise UserError('ax: three components need 3-D axes (projection="3d")')
    label_axes(ax, report, components)
    return made, ax


def label_axes(ax: Axes, paths: TokenPathReport | PairReport, components: int = 2) -> None:
    """Names of the principal axes, with the share of the variance that each explains; one scale on both in two dimensions."""
    total = paths.variances.sum()
    for i, name in zip(range(components), "xyz"):
        share = f", {paths.variances[i] / total:.0%}{' of variance' * (components == 2)}" if total > 0 else ""
        ax.set(**{f"{name}label": f"PC {i + 1} (state{share})"})
        if components == 3:
            axis = getattr(ax, f"{name}axis")
            axis.set_major_locator(MaxNLocator(4))
            axis.set_tick_params(pad=-2)
            axis.labelpad = -6
    if components == 2:
        ax.set_aspect("equal", adjustable="datalim")
    else:
        ax.set_box_aspect(None, zoom=0.86)  # type: ignore[call-arg]  # labels of 3-D axes reach outside their box


def _student_at(time: np.ndarray, x: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Coordinates (L, B, k) on the student's polygon at the wanted times."""
    order = np.argsort(time)
    flat = x[order].reshape(len(time), -1)
    return np.stack([np.interp(wanted, time[order], column) for column in flat.T], -1).reshape(len(wanted), *x.shape[1:])
