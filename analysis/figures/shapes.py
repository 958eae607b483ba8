"""Boxes and arrows of diagrams, on axes without a frame whose unit is an inch."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from . import style
from .choices import bare

Point = tuple[float, float]
GREY, BLUE, ORANGE, GREEN = "0.3", *style.OKABE_ITO[:3]
SIZE = 7  # points, all text


def canvas(ax: Axes | None, wide: float, high: float) -> tuple[Figure, Axes]:
    """Axes from (0, 0) to (wide, high) inches, where they have a figure of their own."""
    made, ax = style.new_axes(ax, height=high / style.width(*style.page()))
    ax.set(xlim=(0, wide), ylim=(0, high), aspect="equal")
    bare(ax)
    ax.set_axis_off()
    return made, ax


def box(ax: Axes, corner: Point, wide: float, high: float, text: str, colour: str, fill: float = 0.15) -> None:
    """A rounded box of light colour with text in its middle."""
    for alpha, face, edge in ((fill, colour, "none"), (1.0, "none", colour)):
        look: dict[str, Any] = {"facecolor": face, "edgecolor": edge, "alpha": alpha, "linewidth": 0.8}
        ax.add_patch(FancyBboxPatch(corner, wide, high, "round,pad=0,rounding_size=0.05", **look))
    say(ax, (corner[0] + wide / 2, corner[1] + high / 2), text)


def say(ax: Axes, place: Point, text: str, **look) -> None:
    """Text around a point."""
    options: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SIZE, "linespacing": 1.2}
    ax.text(*place, text, **(options | look))


def arrow(ax: Axes, *points: Point, **look) -> None:
    """An arrow along a polygon, its head at the last point."""
    colour = look.pop("color", "0.25")
    if len(points) > 2:
        ax.plot(*zip(*points[:-1]), "-", color=colour, linewidth=look.get("linewidth", 0.7), solid_joinstyle="miter")
    options: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 6, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 0}
    ax.add_patch(FancyArrowPatch(points[-2], points[-1], color=colour, **(options | look)))


def plus(ax: Axes, place: Point) -> None:
    """A sum sign in a circle."""
    say(ax, place, "+", fontsize=9, zorder=5, bbox={"boxstyle": "circle,pad=0.1", "fc": "white", "lw": 0.6})


def chain(ax: Axes, left: float, middle: float, boxes: Sequence[tuple[str, str, float]], *, high: float, gap: float) -> float:
    """Boxes (text, colour, width) one after the other with arrows between; returns the right end of the last."""
    for i, (text, colour, wide) in enumerate(boxes):
        if i:
            arrow(ax, (left - gap, middle), (left, middle))
        box(ax, (left, middle - high / 2), wide, high, text, colour)
        left += wide + gap
    return left - gap
