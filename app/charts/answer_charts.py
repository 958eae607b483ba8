"""Charts of two answers to one image: class probabilities of two logit vectors side by side, whatever lies between them."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from analysis.figures.lens_plots import probabilities

from . import look

SHOWN = 10  # classes with bars


def two_answers(
    first: np.ndarray, second: np.ndarray, classes: Sequence[str], words: tuple[str, str], label: int | None = None
) -> go.Figure:  # fmt: skip
    """Class probabilities of two logit vectors: the first pale and hatched, the second full.

    Names of predicted classes are bold; a mark above the second's tells right (circle) from wrong (cross) where the class is
    known, else it is a diamond. Of many classes the ten with the largest probability are drawn.

    Args:
        first, second: logits, (C,).   classes: names.   words: what the two are.   label: the true class, or None.
    """
    p, q = probabilities(first), probabilities(second)
    shown = np.sort(np.argsort(-np.maximum(p, q), kind="stable")[:SHOWN])
    predicted = {int(p.argmax()), int(q.argmax())}
    names = [f"<b>{classes[c]}</b>" if c in predicted else str(classes[c]) for c in shown]
    colours = [look.class_colour(c) for c in shown]
    pale = {"color": colours, "opacity": 0.45, "pattern": {"shape": "/", "solidity": 0.25}}
    figure = go.Figure()
    for values, word, marker in ((p, words[0], pale), (q, words[1], {"color": colours})):
        hover = f"class %{{x}}, {word}: %{{y:.4f}}<extra></extra>"
        figure.add_bar(x=names, y=values[shown], name=word, marker=marker, hovertemplate=hover)
    last = int(q.argmax())
    symbol, said = ("diamond", "predicted") if label is None else ("circle", "right") if last == label else ("x", "wrong")
    figure.add_scatter(
        x=[names[shown.tolist().index(last)]], y=[min(1.03, float(q[last]) + 0.05)], mode="markers", showlegend=True,
        name=f"{words[1]}: {said}", hovertemplate=said + "<extra></extra>",
        marker={"symbol": symbol, "size": 11, "color": look.class_colour(last), "line": {"width": 1, "color": "gray"}},
    )  # fmt: skip
    some = "" if len(shown) == len(p) else f" (the {len(shown)} likeliest of {len(p)})"
    look.lay_out(figure, f"class{some}", "probability")
    figure.update_xaxes(type="category")
    return figure.update_yaxes(range=[0, 1.08])
