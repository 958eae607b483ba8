"""Animations over t as GIF: attention of CLS on the image grid, the tokens on their principal axes; same bytes every time."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.animation import PillowWriter
from matplotlib.figure import Figure

from odevit.errors import UserError

from ..reports import AttentionReport, TokenPathReport
from . import style
from .attention_plots import picture_of
from .choices import bare, check_index, layout_of, token_kinds
from .path_plots import label_axes

DPI = 110
FPS = 4
FRAMES_BETWEEN = 4  # of the token animation, drawn between two saved times on the straight line


def attention_animation(
    report: AttentionReport, path, image: int = 0, *, picture: np.ndarray | None = None, fps: int = FPS
) -> Path:
    """Attention of CLS over time, as an animation.

    Share of CLS's attention that goes to each patch at every saved time: mean over heads, and each head, on one scale.

    Args:
        report: AttentionReport.   path: of the GIF.   image: which.
        picture: the image itself, see attention_plots.picture_of.   fps: saved times a second.

    Returns the path written.
    """
    style.check_report(report, AttentionReport, "cls_maps")
    layout_of(report)
    check_index("image", image, report.cls_maps.shape[1])
    maps = np.concatenate([report.cls_maps[:, image].mean(1, keepdims=True), report.cls_maps[:, image]], 1)
    titles = ["mean", *(f"head {h}" for h in range(maps.shape[1] - 1))]
    with style.paper():
        first = 0 if picture is None else 1
        rows = -(-(first + len(titles)) // 6)
        columns = -(-(first + len(titles)) // rows)
        made, grid = style.panels(rows, columns, height=rows * (0.85 / columns * maps.shape[2] / maps.shape[3] + 0.06) + 0.05)
        top = float(np.nanmax(maps, initial=0.0)) or 1.0
        axes = list(grid.flat)
        for ax in axes:
            bare(ax)
            ax.set_axis_off()
        if picture is not None:
            axes[0].imshow(picture_of(picture), cmap="gray", vmin=0, vmax=1)
            axes[0].set_title("image")
        drawn = [ax.imshow(maps[0, i], vmin=0, vmax=top) for i, ax in enumerate(axes[first : first + len(titles)])]
        for ax, title in zip(axes[first:], titles):
            ax.set_title(title)
        made.colorbar(drawn[0], ax=axes, label="share of attention", aspect=14)
        clock = made.suptitle(_clock(report.time[0]), x=0.01, ha="left")

        def show(k: int) -> None:
            for one, values in zip(drawn, maps[k]):
                one.set_data(values)
            clock.set_text(_clock(report.time[k]))

        return write_gif(made, path, len(maps), show, fps)


def token_animation(report: TokenPathReport, path, image: int = 0, *, fps: int = FPS) -> Path:
    """The tokens of an image on two principal axes over time, as an animation.

    Star: CLS, circles: patches, squares: registers, each with the path so far; between two saved times tokens are drawn on the
    straight line between their two states.

    Args:
        report: TokenPathReport.   path: of the GIF.   image: which.   fps: saved times a second.

    Returns the path written.
    """
    style.check_report(report, TokenPathReport, "coordinates")
    check_index("component", 1, report.coordinates.shape[-1])
    check_index("image", image, report.coordinates.shape[1])
    states = report.coordinates[:, image, :, :2]
    saved = np.arange(len(states))
    steps = np.linspace(0, len(states) - 1, (len(states) - 1) * FRAMES_BETWEEN + 1)
    frames = np.stack([np.interp(steps, saved, column) for column in states.reshape(len(states), -1).T], -1)
    frames = frames.reshape(len(steps), *states.shape[1:])
    times = np.interp(steps, saved, report.time)
    with style.paper():
        made, ax = style.new_axes(height=0.62)
        looks = {"CLS": ("*", 9, "black"), "patches": ("o", 4, style.OKABE_ITO[0]), "registers": ("s", 4.5, style.OKABE_ITO[1])}
        parts = []
        for index, (name, where) in enumerate(token_kinds(report).items()):
            marker, size, colour = looks.get(name, ("o", 4, style.OKABE_ITO[0]))
            trails = ax.plot(*frames[:, where].transpose(2, 0, 1), "-", color=colour, linewidth=0.5, alpha=0.6)
            (heads,) = ax.plot(*frames[0, where].T, marker, color=colour, markersize=size, label=name, zorder=3 + (index == 0))
            parts.append((where, trails, heads))
        label_axes(ax, report)
        style.outside_legend(ax)
        clock = ax.set_title(_clock(times[0]), loc="right")

        def show(k: int) -> None:
            for where, trails, heads in parts:
                heads.set_data(*frames[k, where].T)
                for trail, track in zip(trails, frames[: k + 1, where].swapaxes(0, 1)):
                    trail.set_data(*track.T)
            clock.set_text(_clock(times[k]))

        return write_gif(made, path, len(frames), show, fps * FRAMES_BETWEEN)


def _clock(t: float) -> str:
    return f"$t = {t:.2f}$"


def write_gif(figure: Figure, path, frames: int, show: Callable[[int], None], fps: int) -> Path:
    """Write `frames` pictures of the figure, `show(k)` having set the k-th, in the layout of the first; the last stays longer.

    Raises UserError for an fps that is not positive, and a folder that cannot be written.
    """
    if not 0 < fps <= 50:
        raise UserError(f"fps: {fps} is not between 0 and 50 pictures a second")
    target = Path(path).with_suffix(".gif")
    temporary = target.with_name(f".{target.stem}.{os.getpid()}.tmp.gif")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    writer = PillowWriter(fps=fps)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with writer.saving(figure, str(temporary), DPI):
            for k in [*range(frames), *[frames - 1] * fps]:
                show(k)
                writer.grab_frame()
        temporary.replace(target)
    except OSError as error:
        raise UserError(f"{error.filename or target}: cannot be written ({error.strerror or error})") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return target
