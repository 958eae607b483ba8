"""Diagrams of what a model is and how it is taught, from the entries of its config.json; no model is needed."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from odevit.errors import UserError
from odevit.flow import find_method

from ..reports import ConfigReport, PairReport
from . import style
from .choices import layer_times, narrow
from .shapes import BLUE, GREEN, GREY, ORANGE, Point, arrow, box, canvas, chain, plus, say

ATTENTION = {"dot": "dot product", "l2": "tied L2", "cosine": "scaled cosine"}
NORM = {"center": "Center-\nNorm", "layer": "Layer-\nNorm", "none": "identity"}
POOL = {"cls": "of CLS", "cls_patches": "CLS, patches", "cls_register": "CLS, register"}
BLOCK = (2.05, 1.3)  # inches
GAP = 0.13  # inches, between boxes
Config = Mapping[str, Any] | ConfigReport


@style.figure
def architecture(config: Config, *, ax: Axes | None = None) -> Figure:
    """Architecture of the model.

    The image is cut into patches; with CLS and registers they are the initial state x(0). An ODE-ViT integrates one vector
    field, attention plus MLP of the same state, over time; a discrete ViT has a layer of its own for each step. The readout
    sees the end.

    Args:
        config: `kind`, `model` and `solver` as they stand in config.json, or its ConfigReport.   ax: axes to draw on.
    """
    model = _entry(config, "model")
    small = narrow() and ax is None
    wide, high = (3.25, 3.3) if small else (5.5, 2.0)
    made, ax = canvas(ax, wide, high)
    middle = high - 0.4 if small else 1.1
    rows, columns = _sides(model)
    patch = model["patch_size"]
    stem = "convolutions" if _entry(model, "stem") == "conv" else "linear"
    front = [
        (f"image\n{_entry(model, 'in_chans')} × {rows * patch} × {columns * patch}", GREY, 0.62),
        (f"stem\n{stem}\n{patch} × {patch} patches", GREEN, 0.74),
        (_tokens(model, rows * columns), ORANGE, 0.84),
    ]
    end = chain(ax, 0.03, middle, front, high=0.7, gap=GAP)
    corner = (0.3, 0.45) if small else (end + GAP, 0.45)
    entrance = (corner[0], corner[1] + BLOCK[1] / 2)
    if small:
        below = middle - 0.6
        arrow(ax, (end - 0.42, middle - 0.35), (end - 0.42, below), (0.12, below), (0.12, entrance[1]), entrance)
    else:
        arrow(ax, (end, middle), entrance)
    _block(ax, corner, config)
    leave = (corner[0] + BLOCK[0], entrance[1])
    norm = "LayerNorm,\n" if model.get("final_norm") else ""
    arrow(ax, leave, (leave[0] + GAP, leave[1]))
    readout = f"head\n{norm}{POOL.get(model.get('pool', 'cls'), model.get('pool'))}\n{_entry(model, 'num_classes')} classes"
    box(ax, (leave[0] + GAP, leave[1] - 0.35), 0.62, 0.7, readout, GREEN)
    return made


def _tokens(model: Config, patches: int) -> str:
    registers = _entry(model, "registers")
    held = f"CLS, {patches} patches" + (f",\n{registers} registers" if registers else "")
    return f"$x(0)$: {1 + patches + registers} × {_entry(model, 'embed_dim')}\n{held}"


def _block(ax: Axes, corner: Point, config: Config) -> None:
    """The field with the loop of its solver, or one of the layers."""
    model, solver = _entry(config, "model"), _entry(config, "solver")
    (x, y), (wide, high) = corner, BLOCK
    box(ax, corner, wide, high, "", BLUE, 0.06)
    scores = ATTENTION.get(_entry(model, "attention"), model["attention"])
    attention = f"attention\n{_entry(model, 'num_heads')} heads\n{scores}"
    parts = (NORM.get(_entry(model, "norm"), model["norm"]), attention, f"MLP\n{_entry(model, 'mlp_ratio'):g} × width")
    ode = _entry(config, "kind") == "odevit"
    if ode or model.get("block") == "parallel":
        _parallel(ax, corner, *parts)
    else:
        _sequential(ax, corner, *parts)
    centre = x + wide / 2
    arrow(ax, (x + wide - 0.2, y), (x + wide - 0.2, y - 0.12), (x + 0.2, y - 0.12), (x + 0.2, y))
    if ode:
        pieces = f", {model['blocks']} blocks in turn" if model.get("blocks", 1) > 1 else ""
        state = "t, x" if model.get("time_frequencies") else "x"
        say(ax, (centre, y + high + 0.09), f"vector field $dx/dt = G({state}) + F({state})${pieces}")
        say(ax, (centre, y - 0.24), _solve(solver))
    else:
        say(ax, (centre, y + high + 0.09), "layer $h_{l} \\to h_{l+1}$")
        say(ax, (centre, y - 0.24), f"{_entry(model, 'depth')} layers, each with weights of its own")


def _parallel(ax: Axes, corner: Point, norm: str, attention: str, mlp: str) -> None:
    """Two branches from the same state, and their sum."""
    x, middle = corner[0], corner[1] + BLOCK[1] / 2
    for place, text in ((middle + 0.31, attention), (middle - 0.31, mlp)):
        box(ax, (x + 0.22, place - 0.24), 0.5, 0.48, norm, GREY)
        box(ax, (x + 0.84, place - 0.24), 0.72, 0.48, text, BLUE)
        arrow(ax, (x, middle), (x + 0.1, middle), (x + 0.1, place), (x + 0.22, place))
        arrow(ax, (x + 0.72, place), (x + 0.84, place))
        arrow(ax, (x + 1.56, place), (x + 1.8, place), (x + 1.8, middle + 0.09 * np.sign(place - middle)))
    plus(ax, (x + 1.8, middle))
    ax.plot([x + 1.88, x + BLOCK[0]], [middle, middle], "-", color="0.25", linewidth=0.7)


def _sequential(ax: Axes, corner: Point, norm: str, attention: str, mlp: str) -> None:
    """Two branches one after the other, each added to the state that it reads."""
    x, stream = corner[0], corner[1] + BLOCK[1] / 2
    ax.plot([x, x + BLOCK[0]], [stream, stream], "-", color="0.25", linewidth=0.7)
    for left, right, side, text in ((x + 0.08, x + 0.98, 1, attention), (x + 1.08, x + 1.94, -1, mlp)):
        place = stream + 0.36 * side
        box(ax, (left + 0.08, place - 0.22), 0.34, 0.44, norm, GREY)
        box(ax, (left + 0.45, place - 0.22), right - left - 0.38, 0.44, text, BLUE)
        arrow(ax, (left, stream), (left, place), (left + 0.08, place))
        arrow(ax, (right, place - 0.22 * side), (right, stream + 0.09 * side))
        plus(ax, (right, stream))


@style.figure
def teacher_student(
    student: Config,
    teacher: Config,
    control_times: Sequence[float] | PairReport | None = None,
    *,
    ax: Axes | None = None,
) -> Figure:
    """How a discrete teacher teaches an ODE student.

    The hidden states h_l of the teacher are samples of the path that the student's flow shall take: each layer has a control
    point, a time at which x(t) is drawn to h_l. Ticks on the student's axis: its steps. Stem, CLS, positions and head come from
    the teacher; the one block of the student is trained.

    Args:
        student, teacher: `kind`, `model` and `solver` as they stand in config.json, or the ConfigReports.
        control_times: t_1 .. t_L, or the PairReport; those of the student's training where they are known, else spread evenly.
        ax: axes to draw on.
    """
    solver, depth = _entry(student, "solver"), _entry(_entry(teacher, "model"), "depth")
    horizon, training = _entry(solver, "horizon"), _known(student, "training")
    times = layer_times(training.get("control_points") if control_times is None else control_times, depth, (0.0, horizon))
    head = "new\nhead" if _known(training, "run").get("head") == "new" else "head\nof the\nteacher"
    small = narrow() and ax is None
    wide, side = (3.25, 0.52) if small else (5.5, 0.78)
    made, ax = canvas(ax, wide, 2.15)
    left, right = side + 0.28, wide - side - 0.3
    upper, lower = 1.55, 0.75
    box(ax, (0.03, 0.5), side, 1.3, "stem,\nCLS,\npositions\nof the\nteacher", GREEN)
    box(ax, (wide - side - 0.03, 0.5), side, 1.3, head, GREEN)
    _rails(ax, (left, right), (upper, lower), times / horizon, _entry(solver, "steps"))
    every = max(1, -(-(depth + 1) // (7 if small else 13)))
    for l in range(0, depth + 1, every):
        say(ax, (left + (right - left) * l / depth, upper + 0.14), f"$h_{{{l}}}$")
    for t in (0, horizon):
        say(ax, (left + (right - left) * t / horizon, lower - 0.16), f"$t = {t:g}$")
    middle = (left + right) / 2
    say(ax, (middle, upper + 0.36), f"teacher: {depth} layers, each with its own weights", color=ORANGE)
    say(ax, (middle, lower - 0.34), f"student: {_blocks(student)}, {_solve(solver)}", color=BLUE)
    if "losses" in training:
        say(ax, (middle, 0.12), textwrap.fill(f"loss: {training['losses']}", 60 if small else 110))
    return made


def _rails(ax: Axes, across: Point, rails: Point, shares: np.ndarray, steps: int) -> None:
    """The states of the teacher on the upper rail, the steps and control points of the student on the lower, and the pairs."""
    (left, right), (upper, lower) = across, rails
    place = lambda share: left + (right - left) * np.asarray(share)  # noqa: E731
    layers, points, ticks = place(np.linspace(0, 1, len(shares))), place(shares), place(np.linspace(0, 1, steps + 1))
    for rail, colour in ((upper, ORANGE), (lower, BLUE)):
        arrow(ax, (left - 0.25, rail), (right + 0.27, rail), color=colour, linewidth=1.0)
    for a, b in zip(layers, points):
        ax.plot([a, b], [upper, lower], color="0.55", linewidth=0.7, linestyle=(0, (3, 2)), label="_pair")
    ax.plot(ticks, np.full(len(ticks), lower), "|", color=BLUE, markersize=6, label="_steps")
    ax.plot(layers, np.full(len(layers), upper), "s", color=ORANGE, markeredgecolor="black", markersize=5, label="_layers")
    ax.plot(points, np.full(len(points), lower), "D", color=GREEN, markeredgecolor="black", markersize=4, label="_points")


def _blocks(student: Config) -> str:
    count = _entry(student, "model").get("blocks", 1)
    return "one block" if count == 1 else f"{count} blocks"


def _solve(solver: Config) -> str:
    """How the flow is computed, in words."""
    method, steps, horizon = (_entry(solver, name) for name in ("method", "steps", "horizon"))
    if find_method(method).kind == "adaptive":
        return f"{method}, steps of its own, to $T = {horizon:g}$"
    return f"{steps} {method} steps of $h = {horizon / steps:.3g}$ to $T = {horizon:g}$"


def _entry(config: Config, name: str) -> Any:
    """config[name]; UserError where it is missing."""
    config = config.config if isinstance(config, ConfigReport) else config
    if not isinstance(config, Mapping) or name not in config:
        raise UserError(f"config: no entry {name!r}; a diagram needs kind, model and solver as in config.json")
    return config[name]


def _known(config: Config, name: str) -> Mapping[str, Any]:
    """config[name], or nothing where it is missing."""
    config = config.config if isinstance(config, ConfigReport) else config
    return config.get(name, {})


def _sides(model: Config) -> tuple[int, int]:
    """(rows, columns) of patches."""
    size, patch = _entry(model, "img_size"), _entry(model, "patch_size")
    height, width = (size, size) if isinstance(size, int) else size
    return height // patch, width // patch
