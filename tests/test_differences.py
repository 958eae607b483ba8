"""Intervals of paired differences: closed forms, coverage, and no more certainty than there are images or seeds."""

import math

import numpy as np
import pytest
import torch

from odevit.differences import Difference, over_images, over_seeds


def answers(both: int, first: int, second: int, neither: int):
    """Whether two models are right on images of which so many both, only the first, only the second and neither gets."""
    a = [True] * both + [True] * first + [False] * second + [False] * neither
    b = [True] * both + [False] * first + [True] * second + [False] * neither
    return torch.tensor(a), torch.tensor(b)


def test_over_seeds_is_students_interval_of_the_differences():
    found = over_seeds([0.1, 0.2, 0.3], [0.2, 0.4, 0.6])  # differences 0.1, 0.2, 0.3: mean 0.2, s 0.1
    reach = 4.302652729911275 * 0.1 / math.sqrt(3)  # t with two degrees of freedom
    assert (found.mean, found.n) == (pytest.approx(0.2), 3) and math.isnan(found.p)
    assert (found.low, found.high) == (pytest.approx(0.2 - reach), pytest.approx(0.2 + reach))
    one = over_seeds([0.1], [0.3])
    assert one.mean == pytest.approx(0.2) and (one.low, one.high) == (-math.inf, math.inf)


def test_over_images_is_the_difference_of_accuracies_and_mcnemar():
    first, second = answers(50, 2, 8, 40)
    found = over_images(first, second)
    assert found.mean == pytest.approx(0.06) == float(second.double().mean() - first.double().mean())
    assert found.low < found.mean < found.high and found.n == 100
    assert found.p == pytest.approx(2 * sum(math.comb(10, k) for k in range(3)) / 2**10)  # two or fewer of ten, both sides
    back = over_images(second, first)
    assert (back.low, back.high, back.p) == (pytest.approx(-found.high), pytest.approx(-found.low), found.p)


def test_images_on_which_both_agree_say_nothing_about_who_is_better():
    same = over_images(*answers(60, 0, 0, 40))
    assert same.mean == 0 and same.low < 0 < same.high and same.p == 1


def test_the_interval_covers_the_truth_in_95_of_100():
    draw = np.random.default_rng(0)
    counts = draw.multinomial(80, (0.6, 0.05, 0.15, 0.2), size=600)
    spans = [over_images(*answers(*map(int, row))) for row in counts]
    assert np.mean([s.low <= 0.1 <= s.high for s in spans]) == pytest.approx(0.95, abs=0.03)


def test_points_are_per_cent():
    assert Difference(-0.004, -0.02, 0.012, 5).points() == "-0.4 [-2.0, +1.2]"
