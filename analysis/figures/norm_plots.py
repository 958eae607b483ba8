"""Figure of the norms of the tokens over t, on the image grid, CLS and registers apart."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from ..reports import TokenPathReport
from . import style
from .choices import bare, check_index, layout_of, narrow, spread, token_kinds
from .motion_plots import samples

LINES, SINGLE = 1.4, 0.14  # inches high: the curves, and the row of CLS and registers


@style.figure
def token_norms(paths: TokenPathReport, image: int = 0) -> Figure:
    """Norms of the tokens over t.

    Above: |x_i| of the patches of one image where they lie in it, and under each map CLS and the registers in a row, all on one
    scale. Below: CLS, patches and registers of that image; line: median, band: 10 % to 90 % of its tokens. Tokens of high norm
    that hold no picture content are what registers are for (Darcet et al. 2024).

    Args:
        paths: TokenPathReport with a patch grid.   image: which.
    """
    style.check_report(paths, TokenPathReport, "norm")
    layout = layout_of(paths)
    check_index("image", image, paths.norm.shape[1])
    chosen = spread(len(paths.time), 5 if narrow() else 7)
    made, grid = _grid(len(chosen), layout.grid[0] / layout.grid[1])
    norms = style.note_gaps(made, paths.norm[:, image], "norm")
    scale = {"vmin": np.nanmin(norms, initial=np.inf), "vmax": np.nanmax(norms, initial=-np.inf), "cmap": style.sequential}
    above = []
    for place, k in enumerate(chosen):
        ax = made.add_subplot(grid[0, place])
        drawn = ax.imshow(norms[k, layout.patches].reshape(layout.grid), **scale)
        ax.set_title(f"$t = {paths.time[k]:.3g}$")
        single = made.add_subplot(grid[1, place])
        others = np.concatenate([norms[k, layout.cls], norms[k, layout.registers]])
        single.imshow(others[None], aspect="auto", **scale)
        above += [ax, single]
        if place == 0:
            ax.set_ylabel("patches")
            single.set_ylabel("CLS, reg.", rotation=0, ha="right", va="center", fontsize=7)
    bare(*above)
    made.colorbar(drawn, ax=above, label=r"$\|x_i\|$ (state)", aspect=12, pad=0.01)
    lines = made.add_subplot(grid[2, :])
    for index, (name, where) in enumerate(token_kinds(paths).items()):
        style.curve(lines, paths.time, samples(paths.norm[:, image : image + 1, where]), name, index)
    lines.set(xlabel=style.TIME, ylabel=r"$\|x_i\|$ (state)")
    lines.set_ylim(bottom=0)
    style.outside_legend(lines)
    return made


def _grid(count: int, aspect: float) -> tuple[Figure, GridSpec]:
    """A figure as high as `count` maps of rows / columns = `aspect` in a row, a row of single cells and curves need."""
    wide = style.width(*style.page())
    high = min(1.1, (wide - 0.95) / count) * aspect
    made, _ = style.panels(1, 1, height=(high + SINGLE + LINES + 0.75) / wide)
    made.clear()
    return made, made.add_gridspec(3, count, height_ratios=[high, SINGLE, LINES])
