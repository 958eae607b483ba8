"""The controls of a perturbation: noise of a strength, a square of patches covered or painted; all of it in the URL."""

from dataclasses import dataclass

import streamlit as st
from torch import Tensor

from analysis.perturbations import covered, filled, noisy
from app import charts, panels
from app.state import Visit

KINDS = ("Noise", "Cover", "Paint")
FILLS = ("mean", "black", "white")


@dataclass(frozen=True)
class Disturbance:
    """A perturbed image.

    Attributes:
        pixels: uint8 (C, H, W).   said: what was done, everything that changes the numbers beside image and seed.
    """

    pixels: Tensor
    said: str


def choose(visit: Visit) -> Disturbance:
    """The controls: what is done, where, how strongly."""
    kind = st.segmented_control("Perturbation", KINDS, default=KINDS[0], key="disturb", bind="query-params", required=True)
    image = visit.data.images[visit.index]
    if kind == KINDS[0] or kind is None:
        strength = st.slider(
            "Strength (share of the range)", 0.0, 0.5, 0.1, 0.01, key="noise", bind="query-params",
            help="Standard deviation of Gaussian noise, rounded and cut to 0..255; the seed is that of the sidebar.",
        )  # fmt: skip
        return Disturbance(noisy(image, strength, visit.seed), f"noise {strength:g}")
    colour, said = _fill(visit) if kind == KINDS[1] else _colour()
    row, column, size = _square(visit)
    where = covered(visit.model.config.image_shape, visit.model.layout.grid, row, column, size)
    changed = filled(image, where, colour)
    _chooser(visit, changed, (row, column, size))
    return Disturbance(changed, f"{said}, row {row}, column {column}, size {size}")


def _fill(visit: Visit) -> tuple[list[float], str]:
    """What covers the square: the mean of the training data, which is 0 after normalisation, or an end of the range."""
    fill = st.segmented_control("Covered by", FILLS, default=FILLS[0], key="fill", bind="query-params", required=True)
    channels = visit.model.config.in_chans
    means = [255 * m for m in visit.model.inputs.mean]
    return {"black": [0.0] * channels, "white": [255.0] * channels}.get(fill or "", means), f"covered by {fill or FILLS[0]}"


def _colour() -> tuple[list[float], str]:
    help_text = "Its luma where the model sees one channel."
    chosen = st.color_picker("Colour", "#d55e00", key="colour", bind="query-params", help=help_text)
    return [int(chosen[i : i + 2], 16) for i in (1, 3, 5)], f"painted {chosen}"


def _square(visit: Visit) -> tuple[int, int, int]:
    """(row, column, size) of the square in patches."""
    rows, columns = visit.model.layout.grid
    row, column = _place("Row", "prow", rows), _place("Column", "pcol", columns)
    return row, column, _place("Size (patches)", "psize", min(rows, columns), first=1)


def _place(label: str, key: str, count: int, first: int = 0) -> int:
    last = first + count - 1
    if last == first:
        return first
    if not first <= int(st.session_state.get(key, first)) <= last:  # of a model with more patches
        del st.session_state[key]
    middle = first if first else (count - 1) // 2
    return int(st.slider(f"{label} of the square" if not first else label, first, last, middle, key=key, bind="query-params"))


def _chooser(visit: Visit, pixels: Tensor, square: tuple[int, int, int]) -> None:
    """The perturbed image with a point on each patch; a click moves the square."""
    row, column, size = square
    grid = visit.model.layout.grid
    rows, columns = ((first, min(first + size, count) - 1) for first, count in ((row, grid[0]), (column, grid[1])))
    figure = charts.patch_chooser(pixels.numpy(), grid, rows, columns)
    figure.update_layout(height=300)
    config = panels.CONFIG | {"displayModeBar": False}
    st.plotly_chart(figure, key="square", on_select=_moved, selection_mode="points", config=config)
    st.caption("Click a patch: the square begins there.")


def _moved() -> None:
    points = st.session_state["square"].selection.points
    if points:
        st.session_state["pcol"], st.session_state["prow"] = int(points[0]["x"]), int(points[0]["y"])
