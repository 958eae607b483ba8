"""The look of all figures: venue widths, type, colours with a second cue, maps; nothing global changes on import.

    with paper("icml", columns=2):
        figure = jacobian_eigenvalues(reports)
        save(figure, "out/eigenvalues", reports=reports)

Colours: Okabe & Ito 2008; cividis: Nunez et al. 2018. Type is STIX, a Times that comes with matplotlib, as TrueType (42).
"""

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, TypeVar

import matplotlib
import matplotlib.style
import numpy as np
from cycler import cycler
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, Colormap
from matplotlib.figure import Figure

from odevit.errors import UserError

from .outputs import caption_of, check_report, check_reports, check_same_model, note, note_gaps, save

__all__ = [
    "DASHES", "MARKERS", "OKABE_ITO", "TIME", "VENUES", "caption_of", "check_report", "check_reports", "check_same_model",
    "class_colour", "class_marker", "curve", "diverging", "dots", "figure", "line", "new_axes", "new_figure", "note",
    "note_gaps", "outside_legend", "page", "panels", "paper", "save", "sequential", "width", "writing",
]  # fmt: skip

VENUES = {"neurips": (5.5,), "icml": (3.25, 6.75), "cvpr": (3.25, 6.875), "ieee": (3.5, 7.16)}  # inches by columns
FONT = "STIXGeneral"
FALLBACK = "DejaVu Sans"
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
CLASSES = (*OKABE_ITO[:7], "#7F7F7F")  # grey for black: the same class is also drawn on the dark page of a browser
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*", "d")  # 13: no common factor with 8 colours
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (7, 2)), (0, (3, 1, 1, 1, 1, 1)))
sequential = "cividis"
TIME = r"$t$ (layers)"  # label of every time axis

SPARE = 1.1  # axes grow by this when the margins are laid out

_page: ContextVar[tuple[str, int] | None] = ContextVar("page", default=None)
F = TypeVar("F", bound=Callable[..., Figure])

_RC: dict[str, Any] = {
    "font.size": 8, "axes.labelsize": 8, "axes.titlesize": 8, "figure.titlesize": 9, "legend.fontsize": 7,
    "legend.title_fontsize": 7, "xtick.labelsize": 7, "ytick.labelsize": 7, "mathtext.fontset": "stix",
    "pdf.fonttype": 42, "ps.fonttype": 42, "svg.hashsalt": "odevit", "savefig.dpi": 300, "figure.dpi": 150,
    "figure.constrained_layout.use": True, "figure.facecolor": "white", "savefig.facecolor": "white",
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6, "axes.axisbelow": True,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.minor.width": 0.4, "ytick.minor.width": 0.4,
    "xtick.major.size": 2.5, "ytick.major.size": 2.5, "xtick.minor.size": 1.5, "ytick.minor.size": 1.5,
    "lines.linewidth": 1.2, "lines.markersize": 3.5, "lines.markeredgewidth": 0.6, "patch.linewidth": 0.6,
    "legend.frameon": False, "legend.handlelength": 2.2, "legend.borderaxespad": 0.3, "legend.labelspacing": 0.3,
    "grid.linewidth": 0.4, "grid.color": "0.85", "image.cmap": sequential, "axes.formatter.use_mathtext": True,
    "axes.formatter.limits": (-5, 6), "axes.formatter.useoffset": False,
}  # fmt: skip


def width(venue: str = "neurips", columns: int = 1) -> float:
    """Width in inches of a figure over `columns` columns of a venue's page.

    >>> width("icml", 2)
    6.75
    """
    if venue not in VENUES:
        raise UserError(f"venue: unknown {venue!r} (known: {', '.join(VENUES)})")
    widths = VENUES[venue]
    if columns not in range(1, len(widths) + 1):
        raise UserError(f"columns: {columns}; a page of {venue} has {len(widths)}")
    return widths[columns - 1]


@contextmanager
def paper(venue: str = "neurips", columns: int = 1, font: str = FONT) -> Iterator[None]:
    """Inside it, figures have the width, type and colours of a paper; the settings of matplotlib are put back at its end.

    Args:
        venue: neurips, icml, cvpr or ieee.   columns: columns that a figure spans.
        font: family of the text; where it is not installed the fallback is named in a warning.
    """
    width(venue, columns)
    token = _page.set((venue, columns))
    try:
        with matplotlib.style.context(["default", _RC | {"font.family": _families(font)} | _cycle()]):
            yield
    finally:
        _page.reset(token)


def writing() -> AbstractContextManager[None]:
    """Context in which files are written with TrueType fonts, whatever matplotlib is set to."""
    return matplotlib.rc_context({name: _RC[name] for name in ("pdf.fonttype", "ps.fonttype", "svg.hashsalt")})


def _cycle() -> dict[str, Any]:
    count = len(OKABE_ITO)
    return {"axes.prop_cycle": cycler(color=OKABE_ITO) + cycler(linestyle=[DASHES[i % len(DASHES)] for i in range(count)])}


def _families(font: str) -> list[str]:
    """Families to look a glyph up in, and a warning where the first is missing."""
    try:
        font_manager.findfont(font, fallback_to_default=False)
        return [font, FALLBACK] if font != FALLBACK else [font]
    except ValueError:
        logging.getLogger("odevit.figures").warning("font: %r is not installed, %s is used", font, FALLBACK)
        return [FALLBACK]


def figure(function: F) -> F:
    """Decorator of every figure: in the style of the paper in force, or of NeurIPS where there is none, or that of `ax`.

    The layout is done here, so that a figure comes back finished: what is measured on it is what will be on paper.
    """

    @functools.wraps(function)
    def draw(*args, **kwargs) -> Figure:
        if kwargs.get("ax") is not None:
            return function(*args, **kwargs)
        style: AbstractContextManager[None] = nullcontext() if _page.get() else paper()
        with style:
            made = function(*args, **kwargs)
            made.draw_without_rendering()
        return made

    return draw  # type: ignore[return-value]


def new_axes(ax: Axes | None = None, *, height: float = 0.62, projection: str | None = None) -> tuple[Figure, Axes]:
    """`ax` with its figure, or a new one of the page's width.

    Args:
        ax: axes to draw on, or None.   height: of a new figure, as a share of its width.   projection: "3d" and the like.
    """
    if ax is not None:
        root = ax.get_figure(root=True)
        assert root is not None
        return root, ax
    made = new_figure(height)
    return made, made.add_subplot(projection=projection)


def panels(rows: int, columns: int, *, height: float = 0.62, **options) -> tuple[Figure, np.ndarray]:
    """A new figure of the page's width with rows x columns axes, an array of that shape.

    Args:
        height: of the whole figure, as a share of its width.   options: of `Figure.subplots` (sharex, width_ratios).
    """
    made = new_figure(height)
    return made, made.subplots(rows, columns, squeeze=False, **options)


def page() -> tuple[str, int]:
    """Venue and columns of the paper in force."""
    return _page.get() or ("neurips", 1)


def new_figure(height: float) -> Figure:
    """An empty figure of the page's width, `height` times as high."""
    wide = width(*page())
    return Figure(figsize=(wide, height * wide))


def class_colour(index: int) -> str:
    """Colour of a class, the same in every figure; with `class_marker` it tells 104 classes apart."""
    return CLASSES[index % len(CLASSES)]


def class_marker(index: int) -> str:
    """Marker of a class, the second cue beside its colour."""
    return MARKERS[index % len(MARKERS)]


def diverging(values) -> tuple[CenteredNorm, Colormap]:
    """(norm, map) for signed values: white at 0, both sides on one scale; NaN grey.

    >>> norm, _ = diverging([-1.0, 3.0])
    >>> float(norm(0.0)), float(norm(3.0))
    (0.5, 1.0)
    """
    finite = np.abs(np.asarray(values, dtype=float))
    finite = finite[np.isfinite(finite)]
    reach = float(finite.max()) if finite.size else 0.0
    return CenteredNorm(0.0, reach or 1.0), matplotlib.colormaps["RdBu_r"].with_extremes(bad="0.8")


def outside_legend(ax: Axes, *, columns: int = 4, **options) -> None:
    """The legend of `ax` above it, outside the data, in as many columns (`columns` at most) as its width holds."""
    handles, labels = ax.get_legend_handles_labels()
    for count in range(min(columns, max(1, len(labels))), 0, -1):
        legend = ax.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=count, **options)
        if legend.get_window_extent().width <= SPARE * ax.get_window_extent().width:
            break


def line(index: int) -> dict[str, Any]:
    """Colour and dash of the line number `index`, for `Axes.plot`."""
    return {"color": OKABE_ITO[index % len(OKABE_ITO)], "linestyle": DASHES[index % len(DASHES)]}


def dots(index: int, marker: str = "") -> dict[str, Any]:
    """Colour and marker of the points number `index`, without a line, for `Axes.plot`."""
    colour = OKABE_ITO[index % len(OKABE_ITO)]
    return {"color": colour, "linestyle": "none", "marker": marker or MARKERS[index % len(MARKERS)]}


def curve(ax: Axes, x, values, label: str, index: int, **options) -> None:
    """A quantity over x, in the colour, dash and marker of `index`: the line of one sample, or median and 10 % to 90 % of many.

    Args:
        x: shape (K,).   values: (K,), or (B, K) with the samples first; what is not finite is a gap, and this is said.
    """
    rows = np.atleast_2d(note_gaps(ax.get_figure(root=True), values, label))  # type: ignore[arg-type]
    drawn = ~np.isnan(rows).all(0)
    low, middle, high = np.full((3, rows.shape[1]), np.nan)
    if drawn.any():
        low[drawn], middle[drawn], high[drawn] = np.nanquantile(rows[:, drawn], (0.1, 0.5, 0.9), axis=0)
    ax.plot(x, middle, label=label, **({"marker": MARKERS[index % len(MARKERS)]} | line(index) | options))
    if len(rows) > 1:
        ax.fill_between(x, low, high, color=OKABE_ITO[index % len(OKABE_ITO)], alpha=0.15, linewidth=0)
