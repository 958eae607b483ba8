"""Differences of paired numbers with their 95 % intervals: of accuracies over seeds, and of two models on the same images.

Over seeds: mean +- t_{0.975, n-1} s / sqrt(n) of the differences (Student 1908). On the same images, of which b only the second
model gets right and c only the first: (b - c) / (n + 2) +- 1.96 sqrt(b + c + 1 - (b - c)^2 / (n + 2)) / (n + 2), which is
Wald's interval with 1/2 added to every cell (Agresti and Min 2005), and the exact test of McNemar (1947).
"""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from scipy.stats import binomtest, norm, t
from torch import Tensor

LEVEL = 0.95


class Difference(NamedTuple):
    """Second minus first: the mean, its 95 % interval, and on how many pairs it rests; p of McNemar's test, NaN over seeds."""

    mean: float
    low: float
    high: float
    n: int
    p: float = math.nan

    def points(self) -> str:
        """In points of per cent, as it is printed.

        >>> Difference(0.12, 0.08, 0.16, 5).points()
        '+12.0 [+8.0, +16.0]'
        """
        return f"{100 * self.mean:+.1f} [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"


def over_seeds(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Mean of second - first, seed by seed, with its t interval; an infinite one for a single seed.

    >>> over_seeds([0.5, 0.6], [0.7, 0.8]).mean
    0.2
    """
    gaps = [b - a for a, b in zip(first, second, strict=True)]
    n, mean = len(gaps), round(statistics.fmean(gaps), 12)
    reach = t.ppf((1 + LEVEL) / 2, n - 1) * statistics.stdev(gaps) / math.sqrt(n) if n > 1 else math.inf
    return Difference(mean, mean - reach, mean + reach, n)


def over_images(first: Tensor, second: Tensor) -> Difference:
    """Accuracy of the second model minus that of the first on the same images.

    Args:
        first, second: whether each model is right, bool (n,), the same images in the same order.
    """
    n, b, c = len(first), int((second & ~first).sum()), int((first & ~second).sum())
    centre = (b - c) / (n + 2)
    reach = norm.ppf((1 + LEVEL) / 2) * math.sqrt(b + c + 1 - (b - c) ** 2 / (n + 2)) / (n + 2)
    p = float(binomtest(b, b + c).pvalue) if b + c else 1.0
    return Difference((b - c) / n, centre - reach, centre + reach, n, p)
