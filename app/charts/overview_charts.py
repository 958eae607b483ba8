"""Charts of a model as a whole: how it was trained, and what its solver costs."""

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from analysis.reports import HistoryReport

from . import look

COLUMNS = (("ce", "cross-entropy (nats)"), ("accuracy", "accuracy"))
HOVER = "epoch %{x}<br>%{fullData.name}: %{y:.4g}<extra></extra>"


def training_history(report: HistoryReport) -> go.Figure:
    """Cross-entropy and accuracy over the epochs, validation solid and training dashed, of the first run of the report."""
    figure = make_subplots(1, 2, horizontal_spacing=0.1)
    validation = {"ce": "val_loss", "accuracy": "val_accuracy"}
    for column, (name, label) in enumerate(COLUMNS, 1):
        for key, split, dash, colour in (
            (validation[name], "validation", "solid", look.OKABE_ITO[0]), (name, "training", "dash", look.OKABE_ITO[1]),
        ):  # fmt: skip
            if key not in report.columns:
                continue
            values = np.asarray(report.columns[key][0])
            figure.add_trace(
                go.Scatter(
                    x=report.epoch, y=values, mode="lines", name=split, legendgroup=split, showlegend=column == 1,
                    line={"color": colour, "dash": dash}, hovertemplate=HOVER,
                ),
                1, column,
            )  # fmt: skip
        figure.update_yaxes(title_text=label, row=1, col=column)
    look.lay_out(figure, "epoch", "")
    for column, (_, label) in enumerate(COLUMNS, 1):
        figure.update_yaxes(title_text=label, row=1, col=column)
    return figure
