"""Two places by their launches: one slow launch of a busy host does not hide what the others show."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from benchharness.bisect.session import difference

GRAPHS = [math.log(value) for value in (15.82, 15.42, 15.41, 15.30, 15.85, 15.46, 15.39, 15.95)]
EAGER = [math.log(value) for value in (17.67, 19.61, 17.36, 17.65, 33.04, 20.79, 18.67)]
"""Cycles in ms of SGLang on an H200 with and without graphs, a launch each."""


def test_launches_that_lie_beyond_all_of_the_other_side_are_told_apart() -> None:
    found = difference.between(GRAPHS, EAGER, 0.05)
    assert found.p == pytest.approx(mannwhitneyu(GRAPHS, EAGER, method="exact").pvalue)
    assert found.decided(0.05 / 14)
    assert 0.1 < found.low < found.mean < found.high < 0.35


def test_of_few_launches_the_order_tells_nothing_more() -> None:
    found = difference.between(GRAPHS[:5], EAGER[:5], 0.05)
    assert not found.decided(0.05 / 14)


def test_sides_that_mix_are_judged_by_their_means() -> None:
    random = np.random.default_rng(3)
    one, other = random.normal(0, 1, 12), random.normal(0.5, 1, 12)
    found = difference.between(list(one), list(other), 0.05)
    assert found.mean == pytest.approx(other.mean() - one.mean())


def test_order_is_right_about_nothing_as_often_as_is_stated() -> None:
    """Of places that do not differ, with a slow launch in four, as few are told apart as the level says."""
    random = np.random.default_rng(5)
    told = 0
    for _ in range(400):
        sides = random.normal(0, 0.01, (2, 8)) + 0.6 * (random.random((2, 8)) < 0.25)
        told += difference.between(list(sides[0]), list(sides[1]), 0.05).decided(0.05 / 14)
    assert told <= 6
