"""Changes of level: against slow exact references, and what is told of simulated series."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchharness.stats import changepoint


def slow_segments(data: np.ndarray, cuts: int) -> float:
    """The least squared deviations of all ways to cut, tried one by one."""
    best = np.inf
    for places in combinations(range(1, len(data)), cuts):
        parts = np.split(data, places)
        if min(map(len, parts)) >= changepoint.FEWEST:
            best = min(best, sum(float(((part - part.mean()) ** 2).sum()) for part in parts))
    return best


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-5, 5).map(lambda x: round(x, 3)), min_size=8, max_size=13),
    st.integers(1, 3),
)
def test_the_cuts_are_the_best_there_are(values: list[float], cuts: int) -> None:
    data = np.asarray(values)
    places = changepoint.segments(data, cuts)
    assert len(places) == cuts
    parts = np.split(data, places)
    assert min(map(len, parts)) >= changepoint.FEWEST
    found = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
    assert found == pytest.approx(slow_segments(data, cuts), abs=1e-9)


def test_the_place_of_one_change_is_where_the_t_test_is_clearest() -> None:
    random = np.random.default_rng(1)
    for _ in range(40):
        data = random.standard_normal(random.integers(4, 25))
        inner = range(changepoint.FEWEST, len(data) - changepoint.FEWEST + 1)
        slow = {at: stats.ttest_ind(data[:at], data[at:]).pvalue for at in inner}
        at, p = changepoint.split(data)
        assert slow[at] == pytest.approx(min(slow.values()))
        assert slow[at] <= p <= min(1.0, max(slow[at] * len(slow), 1e-3) + 1e-9) or p > 0.02


@pytest.mark.parametrize("runs", [6, 14, 30])
def test_false_alarms_stay_at_the_stated_level(runs: int) -> None:
    """600 series without a change: 5 % of them are 30, and 46 or more would come once in 500 times."""
    random = np.random.default_rng(2)
    alarms = sum(bool(changepoint.changes(random.normal(4, 0.01, runs))) for _ in range(600))
    assert alarms <= 45


def test_runs_that_are_far_off_are_no_level() -> None:
    random = np.random.default_rng(3)
    series = (np.exp(random.standard_normal(60)) * 0.01 for _ in range(150))
    assert sum(bool(changepoint.changes(values)) for values in series) <= 18
    values = random.normal(0, 0.01, 20)
    values[7] += 0.5
    assert changepoint.changes(values) == ()


@pytest.mark.parametrize("step", [0.05, -0.05, 0.1])
def test_a_step_is_found_placed_and_measured(step: float) -> None:
    random = np.random.default_rng(4)
    found = held = inside = 0
    for _ in range(60):
        values = random.normal(2, 0.0115, 30)  # 3 launches of 1 % each, and 1 % between runs
        values[20:] += step
        told = changepoint.changes(values)
        one = min(told, key=lambda change: abs(change.at - 20), default=None)
        if one is not None:
            found += abs(one.at - 20) <= 1
            held += one.low <= step <= one.high
            inside += one.before < 20 <= one.after
    assert found >= 58
    assert held >= 51  # of a stated 95 %
    assert inside >= 54


def test_two_changes_that_hide_each_other_are_found() -> None:
    values = np.random.default_rng(5).normal(0, 0.01, 30)
    values[12:20] -= 0.08
    first, second = changepoint.changes(values)
    assert (first.at, second.at) == (12, 20)
    assert first.mean < -0.06 and second.mean > 0.06


def test_an_unclear_place_is_told_as_a_range() -> None:
    values = np.concatenate([np.zeros(10), [0.05], np.full(10, 0.1)])
    values += np.random.default_rng(6).normal(0, 0.01, 21)
    (one,) = changepoint.changes(values)
    assert one.before <= 9 and one.after >= 10
    assert one.before < one.at <= one.after
    sharp = np.concatenate([np.zeros(10), np.full(10, 0.1)]) + np.random.default_rng(7).normal(0, 0.001, 20)
    (one,) = changepoint.changes(sharp)
    assert (one.before, one.at, one.after) == (9, 10, 10)


def test_exact_values_and_short_series() -> None:
    assert changepoint.changes([1.0] * 12) == ()
    assert changepoint.changes([]) == ()
    assert changepoint.changes([1.0, 2.0, 3.0]) == ()
    (one,) = changepoint.changes([0.0] * 6 + [0.5] * 6)
    assert (one.at, one.mean, one.low, one.high) == (6, 0.5, 0.5, 0.5)


def test_runs_like_their_neighbours_are_told() -> None:
    random = np.random.default_rng(8)
    drifting = np.cumsum(random.normal(0, 0.01, 60))
    assert (changepoint.correlation(drifting, []) or 0) > 0.7
    alone = [changepoint.correlation(random.normal(0, 1, 60), []) for _ in range(100)]
    assert sum(one is not None for one in alone) <= 8
    step = np.concatenate([np.zeros(30), np.ones(30)]) + random.normal(0, 0.01, 60)
    assert changepoint.correlation(step, []) is not None
    assert changepoint.correlation(step, [30]) is None
