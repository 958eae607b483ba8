"""What a figure shows of a Report: which tokens are what, which images, which saved times, which class each image has."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from odevit.errors import UserError
from odevit.layout import TokenLayout

from ..reports import AttentionReport, LensReport, PairReport, TokenPathReport
from . import style


def token_kinds(report: TokenPathReport | AttentionReport) -> dict[str, slice]:
    """Slices of the token axis by name: CLS, patches and registers (those that exist), or all tokens where none is named."""
    if not report.patch_grid:
        return {"tokens": slice(None)}
    layout = layout_of(report)
    found = {"CLS": layout.cls, "patches": layout.patches, "registers": layout.registers}
    return {name: where for name, where in found.items() if where.stop > where.start}


def layout_of(report: TokenPathReport | AttentionReport) -> TokenLayout:
    """The layout of the report's tokens; UserError where it has none."""
    if not report.patch_grid:
        raise UserError(f"report: this {report.kind} has no patch grid, its trajectory had no token layout")
    rows, columns = report.patch_grid
    return TokenLayout(report.registers, (rows, columns))


def check_index(name: str, index: int, count: int) -> int:
    """`index` if it is one of 0 .. count - 1, else UserError."""
    if not 0 <= index < count:
        raise UserError(f"{name}: {index} is outside 0 to {count - 1}")
    return index


def spread(count: int, most: int) -> np.ndarray:
    """Indices of at most `most` of `count` saved times, evenly spread, first and last among them.

    >>> spread(7, 4).tolist(), spread(3, 4).tolist()
    ([0, 2, 4, 6], [0, 1, 2])
    """
    return np.linspace(0, count - 1, min(count, most)).round().astype(int)


def time_index(times: np.ndarray, t: float) -> int:
    """Index of the saved time t; UserError with the nearest one where it was not saved."""
    k = int(np.abs(times - t).argmin())
    if not abs(times[k] - t) <= 1e-9 * max(1.0, float(np.abs(times).max())):
        raise UserError(f"time: {t:g} was not saved; the nearest is {times[k]:g}")
    return k


def classes_of(images: int, lens: LensReport | None, labels: Sequence[int] | np.ndarray | None) -> np.ndarray | None:
    """Class of each of the first images: its label, or else the lens's prediction at T, or None where neither is given.

    Raises UserError for labels or a lens of fewer images.
    """
    if labels is None and lens is None:
        return None
    found = np.asarray(labels if labels is not None else lens.prediction[-1])  # type: ignore[union-attr]
    if len(found) < images:
        raise UserError(f"{'labels' if labels is not None else 'lens'}: {len(found)} images, the paths have {images}")
    return found[:images].astype(int)


def layer_times(times: Sequence[float] | PairReport | None, layers: int, span: tuple[float, float]) -> np.ndarray:
    """Times (L + 1,) at which a student shall be at h_0 .. h_L: its start, then the control times t_1 .. t_L.

    Args:
        times: t_1 .. t_L, or the report that has them; spread evenly unless given.   layers: L.
        span: (start, end) of the student.

    Raises UserError for another number of times, or times outside the student's.

    >>> layer_times(None, 2, (0.0, 6.0)).tolist(), layer_times((1.0, 6.0), 2, (0.0, 6.0)).tolist()
    ([0.0, 3.0, 6.0], [0.0, 1.0, 6.0])
    """
    if times is None:
        return np.linspace(*span, layers + 1)
    given: Sequence[float] = times.control_times[1:].tolist() if isinstance(times, PairReport) else times
    found = np.array([span[0], *given], dtype=float)
    if len(found) != layers + 1:
        raise UserError(f"control_times: {len(found) - 1} times for the {layers} layers of the teacher")
    slack = 1e-9 * abs(span[1] - span[0])
    if not ((found >= min(span) - slack) & (found <= max(span) + slack)).all():
        raise UserError(f"control_times: {found.min():g} to {found.max():g}, outside the student's {span[0]:g} to {span[1]:g}")
    return found


def class_name(index: int, names: Sequence[str] = ()) -> str:
    """Name of a class, or "class 3" where it has none."""
    return names[index] if index < len(names) else f"class {index}"


def narrow() -> bool:
    """Whether the page in force is a single column of two, on which panels need more height."""
    return style.width(*style.page()) < 4


def bare(*axes: Axes) -> None:
    """Take the ticks off the axes of pictures."""
    for ax in axes:
        ax.xaxis.set_major_locator(NullLocator())
        ax.yaxis.set_major_locator(NullLocator())


def side_legend(ax: Axes, at: float = 1.0, *, sort: bool = False) -> None:
    """The legend of `ax` right of it, `at` widths from its left side; sorted by name, or in the order drawn."""
    handles, labels = ax.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda i: labels[i]) if sort else range(len(labels))
    ax.legend([handles[i] for i in order], [labels[i] for i in order], loc="upper left", bbox_to_anchor=(at, 1.0))


def top_legend(figure: Figure, ax: Axes, columns: int = 4) -> None:
    """The legend of `ax`, one of several panels with the same lines, above the figure."""
    figure.legend(*ax.get_legend_handles_labels(), loc="outside upper left", ncols=columns)
