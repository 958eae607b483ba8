"""Figure of training: losses and accuracies of several runs over epochs, with bands over seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from odevit.errors import UserError

from ..reports import HistoryReport
from . import style
from .choices import narrow, top_legend

LOSSES = {"ce": "training", "val_loss": "validation"}
ACCURACIES = {"accuracy": "training", "val_accuracy": "validation"}


@style.figure
def training_curves(histories: HistoryReport | Sequence[HistoryReport]) -> Figure:
    """Cross-entropy and accuracy during training.

    One colour for each setting, its mean over seeds with a band from the smallest to the largest; dashed: training, with its
    augmentation and label smoothing, solid: validation. A setting of one run has no band.

    Args:
        histories: HistoryReports, one for each setting.
    """
    found = [histories] if isinstance(histories, HistoryReport) else list(histories)
    if not found:
        raise UserError("reports: none given; this figure draws one HistoryReport or several")
    made, ((left, right),) = style.panels(1, 2, height=0.62 if narrow() else 0.42)
    for index, report in enumerate(found):
        style.check_report(report, HistoryReport, "epoch")
        missing = [name for name in (*LOSSES, *ACCURACIES) if name not in report.columns]
        if len(missing) == 4:
            raise UserError(f"report: {report.label} logs none of {', '.join(missing)}, there is nothing to draw")
        for ax, columns in ((left, LOSSES), (right, ACCURACIES)):
            for name, split in columns.items():
                if name in report.columns:
                    _band(ax, report, name, split, index)
        absent = _absent(report)
        if absent.any():
            style.note(made, f"{report.label}: runs of {', '.join(map(str, (~absent).sum(1)))} epochs")
    left.set(xlabel="epoch", ylabel="cross-entropy (nats)")
    right.set(xlabel="epoch", ylabel="accuracy")
    right.set_ylim(top=1.0)
    top_legend(made, left if left.lines else right, 2)
    return made


def _band(ax: Axes, report: HistoryReport, name: str, split: str, index: int) -> None:
    """Mean over the runs that have the epoch, smallest and largest as a band."""
    figure = ax.get_figure(root=True)
    assert isinstance(figure, Figure)
    column, absent = report.columns[name], _absent(report)
    style.note_gaps(figure, column[~absent], f"{report.label} {name}")
    values = np.where(np.isfinite(column), column, np.nan)
    there = ~np.isnan(values).all(0)
    mean, low, high = (np.full(values.shape[1], np.nan) for _ in range(3))
    mean[there], low[there], high[there] = (f(values[:, there], 0) for f in (np.nanmean, np.nanmin, np.nanmax))
    colour = style.OKABE_ITO[index % len(style.OKABE_ITO)]
    seeds = f", {len(values)} seeds" if len(values) > 1 else ""
    wide, dash = (0.8, "dashed") if split == "training" else (1.3, "solid")
    look: dict[str, Any] = {"marker": style.MARKERS[index % len(style.MARKERS)], "markevery": max(1, len(mean) // 8)}
    label = f"{report.label}{seeds}, {split}"
    ax.plot(report.epoch, mean, color=colour, linestyle=dash, linewidth=wide, label=label, **look)
    if len(values) > 1:
        ax.fill_between(report.epoch, low, high, color=colour, alpha=0.18, linewidth=0)


def _absent(report: HistoryReport) -> np.ndarray:
    """Where a run has no such epoch, (R, E)."""
    return np.all([np.isnan(column) for column in report.columns.values()], axis=0)
