"""Area under the ROC curve with a confidence interval.

AUC = P(a > b) + P(a = b) / 2 for a score a of the one class and b of the other. The variance is that of DeLong, DeLong &
Clarke-Pearson 1988 by midranks (Sun & Xu 2014), the interval is normal and clipped to [0, 1].
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import norm, rankdata


class Auc(NamedTuple):
    """AUC, its confidence interval, and a remark where the interval says little."""

    value: float
    low: float
    high: float
    remark: str


def auc_interval(higher, lower, level: float = 0.95) -> Auc:
    """AUC of a score that should be larger in `higher` than in `lower`.

    Args:
        higher, lower: scores, shapes (m,) and (n,), finite.
        level: confidence of the interval.

    Returns:
        Auc; all NaN where a class is empty. With one member in a class, or with all pairs in one order, DeLong's variance is
        undefined or zero and the remark says so.

    >>> auc_interval([2.0, 3.0], [1.0, 2.0]).value
    0.875
    """
    a, b = np.asarray(higher, dtype=float), np.asarray(lower, dtype=float)
    m, n = a.size, b.size
    if not (m and n):
        return Auc(np.nan, np.nan, np.nan, f"no AUC: {m} against {n} values")
    ranks = rankdata(np.concatenate([a, b]))
    above_b = (ranks[:m] - rankdata(a)) / n  # share of b below each a, ties half
    above_a = 1 - (ranks[m:] - rankdata(b)) / m
    value = float(above_b.mean())
    if min(m, n) < 2:
        return Auc(value, np.nan, np.nan, f"no interval: {m} against {n} values")
    variance = above_b.var(ddof=1) / m + above_a.var(ddof=1) / n
    half = float(norm.ppf(0.5 + level / 2) * np.sqrt(variance))
    remark = "" if variance > 0 else "every pair in one order: DeLong's variance is zero and the interval says nothing"
    return Auc(value, max(0.0, value - half), min(1.0, value + half), remark)
