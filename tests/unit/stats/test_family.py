"""Many cells at one level, and the number of launches that would decide one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as reference

from benchharness.stats import estimate, family, further
from benchharness.stats.estimate import Estimate


def test_independent_cells_share_the_level_and_one_keeps_it() -> None:
    assert family.level(0.05, 1, 0.0, 5) == 0.05
    assert family.level(0.05, 10, 0.0, 5) == pytest.approx(0.005)


def test_correlated_cells_need_less_than_that() -> None:
    levels = [family.level(0.05, 6, r, 9) for r in (0.0, 0.5, 0.8, 0.95)]
    assert levels == sorted(levels)
    assert levels[0] < levels[2] < levels[3] < 0.05


def test_the_level_is_that_of_a_plain_simulation() -> None:
    random = np.random.default_rng(1)
    smallest = []
    for _ in range(3000):
        data = math.sqrt(0.9) * random.standard_normal((8, 1)) + math.sqrt(0.1) * random.standard_normal(
            (8, 5)
        )
        smallest.append(reference.ttest_1samp(data, 0).pvalue.min())
    assert family.level(0.05, 5, 0.9, 7) == pytest.approx(np.quantile(smallest, 0.05), rel=0.2)


@pytest.mark.parametrize("correlated", [0.0, 0.5, 0.95])
def test_the_correlation_is_found_on_average(correlated: float) -> None:
    random = np.random.default_rng(2)
    found = []
    for _ in range(200):
        data = math.sqrt(correlated) * random.standard_normal((20, 1))
        data = data + math.sqrt(1 - correlated) * random.standard_normal((20, 6))
        found.append(family.correlation(data - data.mean(0), 19))
    assert np.mean(found) == pytest.approx(correlated, abs=0.1)


def test_too_few_rows_or_cells_or_no_spread_have_no_correlation() -> None:
    random = np.random.default_rng(3)
    assert family.correlation(random.standard_normal((3, 5)), 2) == 0.0
    assert family.correlation(random.standard_normal((9, 1)), 8) == 0.0
    assert family.correlation(np.zeros((9, 3)), 8) == 0.0


def test_cells_are_judged_in_order_of_their_p_values() -> None:
    """Holm by hand: 0.04 falls only where all smaller ones fell, and nothing after one that stays."""
    assert family.rejected([0.04, 0.001, 0.02], [5, 5, 5], 0.05, 0.0) == (True, True, True)
    assert family.rejected([0.04, 0.001, 0.03], [5, 5, 5], 0.05, 0.0) == (False, True, False)
    assert family.rejected([], [], 0.05, 0.0) == ()


@pytest.mark.parametrize("correlated", [0.0, 0.9])
def test_all_cells_together_raise_one_false_alarm_in_twenty(correlated: float) -> None:
    random = np.random.default_rng(4)
    alarms = 0
    for _ in range(1000):
        data = math.sqrt(correlated) * random.standard_normal((2, 6, 1))
        data = data + math.sqrt(1 - correlated) * random.standard_normal((2, 6, 4))
        seen = [estimate.of_launches(data[0, :, k], data[1, :, k], range(6)) for k in range(4)]
        change = data[1] - data[0]
        known = family.correlation(change - change.mean(0), 5)
        alarms += any(family.rejected([one.p for one in seen], [5.0] * 4, 0.05, known))
    # 50 are expected; 72 is more than three standard deviations above, 20 is below what must not be wasted.
    assert 20 <= alarms <= 72


def decide(mean: float, error: float, launches: int, margin: float | None = 0.01) -> int | None:
    return further.launches(
        Estimate(mean, error, launches - 1, launches, True),
        level=0.05,
        equivalence_level=0.05,
        margin=margin,
        pairs=True,
    )


def test_fewer_launches_are_needed_for_a_larger_change() -> None:
    needed = [decide(mean, 0.02, 5) for mean in (0.02, 0.04, 0.08)]
    assert all(number is not None for number in needed)
    assert needed == sorted(needed, reverse=True)  # type: ignore[type-var]


def test_nothing_decides_a_change_of_just_the_margin_that_may_not_be_called() -> None:
    assert decide(0.0001, 0.05, 5) is None
    assert decide(0.0001, 0.05, 5, margin=None) is None
    assert "not even" in further.sentence(None)
    assert further.sentence(1) == "about 1 more launch a side would decide"


@pytest.mark.parametrize("one", [Estimate(0.1, math.nan, 1, 2, False), Estimate(0.1, 0.1, 1, 1, False)])
def test_without_a_spread_no_number_is_named(one: Estimate) -> None:
    found = further.launches(one, level=0.05, equivalence_level=0.05, margin=0.01, pairs=True)
    assert found is None


def test_the_number_decides_mostly() -> None:
    """By a plain loop: as many launches as named, of the spread and change seen, are enough 4 times in 5."""
    random = np.random.default_rng(5)
    mean, spread = 0.02, 0.03
    number = decide(mean, spread / math.sqrt(4), 4, margin=None)
    assert number is not None
    data = mean + spread * random.standard_normal((2000, 4 + number))
    found = (reference.ttest_1samp(data, 0, axis=1).pvalue < 0.05).mean()
    assert 0.75 <= found <= 0.87


def test_shares_alike_are_never_told_apart() -> None:
    assert further.to_tell_shares(0.5, 0.5, 5, 0.05) is None
    few, many = (further.to_tell_shares(0.1, other, 5, 0.05) for other in (0.9, 0.4))
    assert few is not None and many is not None and few < many
