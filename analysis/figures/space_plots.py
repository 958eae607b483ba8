"""Figure of the paths of all tokens on three principal axes."""

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from odevit.errors import UserError

from ..reports import TokenPathReport
from . import style
from .choices import check_index, side_legend, token_kinds
from .path_plots import label_axes

MARKS = {"CLS": ("*", 7, 1.8), "patches": ("o", 2.5, 0.6), "registers": ("s", 3, 0.8), "tokens": ("o", 2.5, 0.6)}


@style.figure
def token_trajectories_3d(
    paths: TokenPathReport, *, images: Sequence[int] = (0,), classes: Sequence[int] | None = None, ax: Axes | None = None
) -> Figure:
    """Paths of all tokens of an image on three principal axes.

    Markers are t = T: a star for CLS, squares for registers, circles for patches. Colour by token (patches row by row, dark to
    light), or by the class of the image where classes are given.

    Args:
        paths: TokenPathReport with at least 3 components.   images: which are drawn.   classes: class of each image.
        ax: 3-D axes to draw on.
    """
    style.check_report(paths, TokenPathReport, "coordinates")
    check_index("component", 2, paths.coordinates.shape[-1])
    made, ax = style.new_axes(ax, height=0.7, projection="3d")
    if ax.name != "3d":
        raise UserError('ax: three components need 3-D axes (projection="3d")')
    states = style.note_gaps(made, paths.coordinates[..., :3], "coordinates")
    cividis = matplotlib.colormaps[style.sequential]
    plain = {"CLS": "black", "registers": style.OKABE_ITO[1]}
    for kind, where in token_kinds(paths).items():
        mark, size, wide = MARKS[kind]
        positions = np.arange(states.shape[2])[where]
        for image in (check_index("image", i, states.shape[1]) for i in images):
            for i, n in enumerate(positions):
                colour = plain.get(kind) or cividis(i / max(1, len(positions) - 1))
                colour = colour if classes is None else style.class_colour(int(classes[image]))
                label = kind if image == images[0] and i == 0 else f"_{kind} {i}"
                ax.plot(*states[:, image, n].T, "-", color=colour, linewidth=wide, label=f"_path {image} {n}")
                ax.plot(*states[-1:, image, n].T, mark, color=colour, markersize=size, label=label)
    label_axes(ax, paths, 3)
    side_legend(ax, 1.12)
    return made
