"""Components of spread and intervals against plain loops, scipy, and launches whose spread is known."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats as reference

from benchharness.metrics import METRICS, fewest_for
from benchharness.stats import twolevel
from benchharness.stats.interval import t_quantile
from benchharness.stats.twolevel import Components, Method, components, effective_requests, lag_one


def correlated(rng: np.random.Generator, count: int, correlation: float) -> np.ndarray:
    values = rng.standard_normal(count)
    for at in range(1, count):
        values[at] = correlation * values[at - 1] + math.sqrt(1 - correlation**2) * values[at]
    return values


def launches(
    rng: np.random.Generator, share: float, correlation: float, count: int = 6, requests: int = 22
) -> list[np.ndarray]:
    """Values of which the log has a variance of 0.0004, `share` of it between launches."""
    spread = 0.02
    return [
        np.exp(
            spread * math.sqrt(share) * rng.standard_normal()
            + spread * math.sqrt(1 - share) * correlated(rng, requests, correlation)
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize(("count", "correlation"), [(1, 0.5), (2, 0.3), (22, 0.7), (200, 0.9), (22, 0.0)])
def test_effective_requests_are_those_of_the_plain_sum(count: int, correlation: float) -> None:
    total = sum(correlation ** abs(i - j) for i in range(count) for j in range(count))
    assert effective_requests(count, correlation) == pytest.approx(count**2 / total)


@pytest.mark.parametrize("correlation", [0.0, 0.4, 0.7])
def test_the_correlation_is_found(correlation: float) -> None:
    rng = np.random.default_rng(3)
    found = [lag_one(launches(rng, 0.5, correlation)) for _ in range(100)]
    assert np.mean(found) == pytest.approx(correlation, abs=0.08)


def test_an_outlier_hardly_moves_the_correlation() -> None:
    rng = np.random.default_rng(4)
    series = [correlated(rng, 30, 0.6) for _ in range(6)]
    before = lag_one(series)
    series[2][10] = 100.0
    assert lag_one(series) == pytest.approx(before, abs=0.1)


def test_few_requests_stay_near_what_is_usual() -> None:
    assert lag_one([[1.0, 2.0], [2.0, 1.0]]) == twolevel.USUAL_CORRELATION
    alternating = [[1.0, 2.0, 1.0, 2.0]]
    assert 0.0 < lag_one(alternating) < twolevel.USUAL_CORRELATION
    assert lag_one([[1.0, 2.0] * 100]) == 0.0


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.8])
@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_components_come_back(share: float, correlation: float) -> None:
    rng = np.random.default_rng(5)
    found = [components(launches(rng, share, correlation)) for _ in range(150)]
    known = [one for one in found if one is not None]
    between, within = (np.mean([getattr(one, name) for one in known]) for name in ("between", "within"))
    assert between / 0.0004 == pytest.approx(share, abs=0.1)
    assert within / 0.0004 == pytest.approx(1 - share, abs=0.15)


def test_without_correlation_they_are_those_of_the_analysis_of_variance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(twolevel, "lag_one", lambda groups: 0.0)
    rng = np.random.default_rng(6)
    groups = launches(rng, 0.5, 0.0, count=5, requests=8)
    found = components(groups)
    assert found is not None
    f, _ = reference.f_oneway(*[np.log(group) for group in groups])
    # The mean square within, and (F - 1) of it shared out over the requests of a launch.
    within = np.mean([np.log(group).var(ddof=1) for group in groups])
    assert found.within == pytest.approx(within)
    assert found.between == pytest.approx(within * (f - 1) / 8)


def test_drift_that_blocks_share_is_not_taken_for_launches() -> None:
    rng = np.random.default_rng(7)
    drift = np.exp(0.02 * np.arange(10))
    first, second = (
        [one * up for one, up in zip(launches(rng, 0.2, 0.3, 10), drift, strict=True)] for _ in range(2)
    )
    alone, paired = components(first), components(first, second)
    assert alone is not None and paired is not None
    assert alone.between > 10 * paired.between
    assert paired.between < 0.0004


def test_what_would_narrow_the_interval_is_said() -> None:
    assert "more launches would" in Components(4.0, 1.0, 0.5, 20, 7.0, 5).sentence()
    assert "more requests a launch would" in Components(0.01, 1.0, 0.0, 20, 20.0, 5).sentence()
    assert "do not differ" in Components(0.0, 0.0, 0.0, 20, 20.0, 5).sentence()


@pytest.mark.parametrize("groups", [[], [[1.0, 2.0]], [[1.0], [2.0]]])
def test_too_few_launches_or_requests_have_no_components(groups: list[list[float]]) -> None:
    assert components(groups) is None


def rows(values: dict[int, list[float]], context: int) -> pd.DataFrame:
    told = [(block, context, value) for block, several in values.items() for value in several]
    return pd.DataFrame(told, columns=["block", "context_tokens", "value"])


def test_components_by_cell_leave_out_what_cannot_be_told() -> None:
    first = pd.concat([rows({0: [1.0, 1.1, 1.2], 1: [1.1, 1.2, 1.0]}, 128), rows({0: [1.0, 2.0]}, 2048)])
    second = rows({0: [1.0, 1.1, math.nan, 1.2], 1: [1.1, 1.2, 1.3]}, 128)
    found = twolevel.of_cells(first, second, same_run=True)
    assert list(found) == [128]
    assert found[128].requests == 3


def test_few_launches_have_students_interval() -> None:
    groups = [[10.0, 11.0, 9.5], [10.5, 12.0, 11.0], [9.0, 9.5, 10.0]]
    found = twolevel.interval(groups)
    logs = np.log([np.mean(group) for group in groups])
    theirs = reference.ttest_1samp(logs, 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((math.exp(theirs.low), math.exp(theirs.high)))
    assert (found.method, found.launches) == (Method.LAUNCH_T, 3)


def test_the_bootstrap_is_that_of_a_plain_loop() -> None:
    rng = np.random.default_rng(8)
    groups = [np.exp(rng.normal(0, 0.05) + 0.2 * rng.standard_normal(30)) for _ in range(12)]
    for percentile in (None, 0.99):
        found = twolevel.interval(groups, percentile=percentile)
        assert found.method == Method.BOOTSTRAP
        draws = []
        for _ in range(3000):
            chosen = [groups[rng.integers(len(groups))] for _ in groups]
            if percentile is None:
                draws.append(np.mean([math.log(group.mean()) for group in chosen]))
            else:
                pooled = np.concatenate(chosen)
                draws.append(math.log(np.quantile(pooled, percentile, method="median_unbiased")))
        tail = reference.norm.sf(t_quantile(0.95, 11) * math.sqrt(12 / 11))
        low, high = np.quantile(draws, [tail, 1 - tail])
        assert math.log(found.low) == pytest.approx(low, abs=0.25 * (high - low))
        assert math.log(found.high) == pytest.approx(high, abs=0.25 * (high - low))


def test_the_expanded_bootstrap_is_as_wide_as_students_interval() -> None:
    rng = np.random.default_rng(12)
    ratios = []
    for _ in range(100):
        groups = launches(rng, 0.8, 0.4, 10)
        wide, plain = (twolevel.interval(groups, bootstrap_from=begin) for begin in (10, 11))
        ratios.append(math.log(wide.high / wide.low) / math.log(plain.high / plain.low))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.025)


def test_a_percentile_takes_a_sample_that_supports_it() -> None:
    assert [fewest_for(share) for share in (0.5, 0.9, 0.99, 0.01)] == [5, 29, 299, 299]
    rng = np.random.default_rng(9)
    small = [np.exp(rng.standard_normal(40)) for _ in range(5)]
    found = twolevel.interval(small, percentile=0.99)
    assert found.method is None and "299" in found.reason
    assert math.isinf(found.high)
    assert twolevel.interval(small, percentile=0.5).method == Method.LAUNCH_T
    many = [np.exp(rng.standard_normal(40)) for _ in range(10)]
    assert twolevel.interval(many, percentile=0.99).method == Method.BOOTSTRAP


@pytest.mark.parametrize("groups", [[], [[], [math.nan]]])
def test_without_values_there_is_nothing(groups: list[list[float]]) -> None:
    found = twolevel.interval(groups)
    assert math.isnan(found.value) and found.method is None


def test_one_launch_has_a_value_and_no_ends() -> None:
    found = twolevel.interval([[2.0, 2.0]])
    assert (found.value, found.high) == (pytest.approx(2.0), math.inf)
    assert "one launch" in found.reason


@pytest.mark.parametrize(("count", "method"), [(3, Method.LAUNCH_T), (12, Method.BOOTSTRAP)])
def test_intervals_hold_the_truth(count: int, method: Method) -> None:
    """380 of 400 are expected; 363 is four standard deviations below."""
    rng = np.random.default_rng(10)
    held = 0
    for _ in range(400):
        found = twolevel.interval(launches(rng, 0.5, 0.4, count))
        assert found.method == method
        held += found.low <= math.exp(0.0001) <= found.high
    assert 358 <= held <= 397


def test_percentile_metrics_say_how_many_observations_they_take() -> None:
    assert METRICS["ttft_p99_ms"].fewest == 299
    assert METRICS["verify_p50_ms"].fewest == 5
    assert "299" in METRICS["itl_p99_ms"].formula
    assert METRICS["cycle_ms"].fewest == 0
