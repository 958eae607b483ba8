"""Figures of Lyapunov exponents: over images, classes, errors and confidence; the QR spectrum and its convergence."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from odevit.errors import UserError

from ..reports import ExponentsOverReport, LyapunovReport
from . import style

NAMED = 4  # exponents with a line of their own and a name
FEW = 25  # values up to which each has a sign of its own
LARGEST = r"largest finite-time exponent $\lambda_1$ (1/$t$)"


def _largest(made: Figure, report: ExponentsOverReport) -> np.ndarray:
    return style.note_gaps(made, report.exponents[:, 0], "exponents")


def _bins(values: np.ndarray) -> list[float]:
    """Edges of equal bins, about the square root of the number of values."""
    seen = values[np.isfinite(values)]
    if not seen.size:
        raise UserError("report: no finite exponent to draw")
    low, high = seen.min(), seen.max()
    pad = 0.5 if low == high else 0.0
    return np.linspace(low - pad, high + pad, int(np.clip(np.sqrt(seen.size), 5, 40)) + 1).tolist()


@style.figure
def exponents_histogram(report: ExponentsOverReport, *, ax: Axes | None = None) -> Figure:
    """Largest finite-time exponents over the images.

    lambda_1 = (1/T) log sigma_1(Phi), Phi the derivative of x(T) by x(0) of the net as it is computed; positive = expansion.
    Dashed: the mean; dotted: zero, where it is in sight.

    Args:
        report: ExponentsOverReport.   ax: axes to draw on.
    """
    style.check_report(report, ExponentsOverReport, "exponents")
    made, ax = style.new_axes(ax, height=0.42)
    values = _largest(made, report)
    ax.hist(values[np.isfinite(values)], _bins(values), color=style.OKABE_ITO[5], edgecolor="white", linewidth=0.4)
    count = f"{len(values)} images, {report.mean:.3g} $\\pm$ {report.std:.2g} (sd)"
    ax.axvline(report.mean, color="black", linestyle="dashed", label=f"mean of {count}")
    if values[np.isfinite(values)].min() < 0:
        ax.axvline(0, color="0.4", linestyle="dotted", label="no expansion")
    ax.set_xlabel(LARGEST)
    ax.set_ylabel("images")
    style.outside_legend(ax)
    return made


@style.figure
def exponents_by_class(report: ExponentsOverReport, names: tuple[str, ...] = (), *, ax: Axes | None = None) -> Figure:
    """Largest finite-time exponents by class.

    Every image is a small sign in the colour and shape of its class, set off sideways at random (fixed); bar: mean and standard
    deviation. Classes are the true ones, or the predicted ones where no labels were given.

    Args:
        report: ExponentsOverReport.   names: of the classes, their numbers unless given.   ax: axes to draw on.
    """
    style.check_report(report, ExponentsOverReport, "exponents", "classes")
    made, ax = style.new_axes(ax, height=0.45)
    values, labelled = _largest(made, report), bool((report.labels >= 0).all())
    groups, draw = report.labels if labelled else report.predicted, np.random.default_rng(0)
    for place, c in enumerate(report.classes):
        members = values[groups == c]
        aside = place + 0.5 * (draw.random(members.size) - 0.5)
        look = style.dots(int(c)) | {"alpha": 0.8, "markeredgecolor": "black", "markeredgewidth": 0.25, "markersize": 3}
        ax.plot(aside, members, **look)
    places = np.arange(len(report.classes))
    ax.errorbar(places, report.class_mean, report.class_std, fmt="_", color="black", markersize=9, capsize=2, linewidth=0.8)
    words = [names[c] if c < len(names) else str(c) for c in map(int, report.classes)]
    long = sum(map(len, words)) > 60 or len(words) > 20
    ax.set_xticks(places, words, rotation=90 if long else 0, fontsize=7 if len(words) <= 40 else 4)
    ax.set_xlabel("class" if labelled else "predicted class")
    ax.set_ylabel(r"$\lambda_1$ (1/$t$)")
    return made


@style.figure
def exponents_right_wrong(report: ExponentsOverReport, *, ax: Axes | None = None) -> Figure:
    """Do exponents tell wrong predictions from right ones?

    Share of the images with an exponent up to each value, for right (solid) and wrong predictions (dashed). AUC: probability
    that a wrong one has the larger exponent, with a 95 % interval (DeLong); 0.5 says that the exponent knows nothing of errors.

    Args:
        report: ExponentsOverReport with labels.   ax: axes to draw on.
    """
    style.check_report(report, ExponentsOverReport, "exponents")
    if (report.labels < 0).all():
        raise UserError("report: its images had no labels, so right and wrong are not known")
    made, ax = style.new_axes(ax, height=0.45)
    values = _largest(made, report)
    for index, (word, chosen) in enumerate((("right", report.correct), ("wrong", ~report.correct))):
        group = np.sort(values[chosen & np.isfinite(values)])
        if group.size:
            share = np.arange(group.size + 1) / group.size
            ax.step(np.append(group[:1], group), share, where="post", label=f"{word} ({group.size})", **style.line(index))
            if group.size <= FEW:
                ax.plot(group, share[1:], markersize=2.5, **style.dots(index))
    known = np.isfinite(report.auc)
    interval = f" [{report.auc_low:.2f}, {report.auc_high:.2f}]" if np.isfinite(report.auc_low) else " (no interval)"
    ax.plot([], [], linestyle="none", label=f"AUC {report.auc:.2f}{interval}" if known else "no AUC: one kind only")
    ax.set_xlabel(LARGEST)
    ax.set_ylabel("share of the images")
    style.outside_legend(ax)
    return made


@style.figure
def exponents_confidence(report: ExponentsOverReport, *, ax: Axes | None = None) -> Figure:
    """Largest finite-time exponent against the confidence of the prediction.

    One sign an image: circles right, crosses wrong. rho is Spearman's rank correlation.

    Args:
        report: ExponentsOverReport.   ax: axes to draw on.
    """
    style.check_report(report, ExponentsOverReport, "exponents")
    made, ax = style.new_axes(ax, height=0.5)
    values, kinds = _largest(made, report), [("right", report.correct, "o"), ("wrong", ~report.correct, "x")]
    if (report.labels < 0).all():
        kinds = [("image", np.ones(len(values), dtype=bool), "o")]
    for index, (word, chosen, marker) in enumerate(kinds):
        look = style.dots(index, marker) | {"markerfacecolor": "none", "markersize": 3.2 + index}
        ax.plot(values[chosen], report.confidence[chosen], label=f"{word} ({int(chosen.sum())})", **look)
    ax.plot([], [], linestyle="none", label=rf"$\rho = {report.confidence_rank_correlation:.2f}$")
    ax.set_xlabel(LARGEST)
    ax.set_ylabel("confidence (softmax)")
    style.outside_legend(ax)
    return made


@style.figure
def lyapunov_convergence(report: LyapunovReport, *, ax: Axes | None = None) -> Figure:
    """Convergence of the QR exponents with the time over which they are averaged.

    Averages of log |R_ii| over [0, T]; the first four columns are named, the others grey; several images: median, and 10 % to
    90 %. They become the exponents of an attractor only if the
    flow is bounded; over a finite path they depend on the path and on the first tangents.

    Args:
        report: LyapunovReport of the QR method.   ax: axes to draw on.
    """
    style.check_report(report, LyapunovReport, "time", "history")
    made, ax = style.new_axes(ax, height=0.5)
    history = report.history if report.history.ndim == 3 else report.history[None]
    for i in range(min(NAMED, history.shape[-1])):
        rows = history[..., i]
        style.curve(ax, report.time, rows, rf"$\lambda_{{{i + 1}}} = {np.median(rows[:, -1]):.3g}$", i, marker="")
    ax.plot(report.time, np.median(history[..., NAMED:], 0), color="0.7", linestyle="-", linewidth=0.8)
    ax.axhline(0, color="0.4", linewidth=0.6)
    ax.set_xlabel(r"averaging time $T$ (layers)")
    ax.set_ylabel(r"$\frac{1}{T}\sum\,\log|R_{ii}|$ (1/$t$)")
    style.outside_legend(ax)
    return made


@style.figure
def lyapunov_spectrum(report: LyapunovReport, finite: LyapunovReport | None = None, *, ax: Axes | None = None) -> Figure:
    """Spectrum of exponents: averages of the QR method and finite-time exponents.

    Two different quantities at finite T: averages of log |R_ii| (QR) and (1/T) log sigma_i of the flow map (SVD). Over the same
    path the sum of the first k of the former never exceeds that of the latter. Several images: mean and range.

    Args:
        report: LyapunovReport, of either kind.   finite: a second one.   ax: axes to draw on.
    """
    made, ax = style.new_axes(ax, height=0.5)
    reports = [style.check_report(r, LyapunovReport, "exponents") for r in (report, finite) if r is not None]
    style.check_same_model(reports)
    ax.axhline(0, color="0.4", linewidth=0.6)
    for place, r in enumerate(reports):
        rows = np.atleast_2d(style.note_gaps(made, r.exponents, "exponents"))
        middle = rows.mean(0)
        reach = np.stack([middle - rows.min(0), rows.max(0) - middle])
        label = f"{r.quantity}, $T = {r.horizon:g}$"
        index_of, spread = np.arange(1, len(middle) + 1), reach if len(rows) > 1 else None
        ax.errorbar(index_of, middle, spread, capsize=2, elinewidth=0.8, label=label, **style.dots(place))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("index $i$")
    ax.set_ylabel(r"exponent $\lambda_i$ (1/$t$)")
    style.outside_legend(ax, columns=2)
    return made
