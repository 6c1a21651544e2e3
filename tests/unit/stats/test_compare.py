"""Verdicts: from launch values to regressed, improved, equivalent or undecided."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats as reference

from benchharness.metrics import METRICS
from benchharness.stats import interval
from benchharness.stats.client_error import ClientError
from benchharness.stats.compare import Cell, Verdict, compare


def means(metric: str, values: list[float], context: int = 128, stack: str = "a") -> pd.DataFrame:
    rows = [
        {"launch": i, "block": i, "stack": stack, "context_tokens": context, metric: value}
        for i, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def judged(metric: str, first: list[float], second: list[float], **options: object) -> Cell:
    settings: dict[str, object] = {"stack": "b", "same_run": True, **options}
    (cell,) = compare(means(metric, first), means(metric, second), [METRICS[metric]], **settings)  # type: ignore[arg-type]
    return cell


BASE = [100.0, 100.4, 99.7, 100.1, 99.8]


@pytest.mark.parametrize(
    ("metric", "factor", "verdict"),
    [
        ("verify_ms", 1.05, Verdict.REGRESSED),
        ("verify_ms", 0.95, Verdict.IMPROVED),
        ("output_tok_s", 1.05, Verdict.IMPROVED),
        ("output_tok_s", 0.95, Verdict.REGRESSED),
        ("output_tok_s", 1.001, Verdict.EQUIVALENT),
        ("output_tok_s", 1.0, Verdict.EQUIVALENT),
    ],
)
def test_direction_decides_which_way_is_worse(metric: str, factor: float, verdict: Verdict) -> None:
    wobble = [1.0005, 0.9995, 1.0, 1.0003, 0.9998]
    second = [value * factor * w for value, w in zip(BASE, wobble, strict=True)]
    cell = judged(metric, BASE, second)
    assert cell.verdict == verdict
    assert cell.low <= cell.change <= cell.high
    assert cell.change == pytest.approx(factor - 1, abs=2e-3)


def test_a_change_is_told_in_the_unit_and_as_a_fraction() -> None:
    cell = judged("verify_ms", [20.0, 20.1, 19.9, 20.0], [21.0, 21.2, 20.9, 21.1])
    assert cell.change == pytest.approx(0.0525, abs=0.002)
    for name in ("change", "low", "high"):
        assert getattr(cell, f"{name}_abs") == pytest.approx(20.0 * getattr(cell, name))


@pytest.mark.parametrize(("launches", "paired"), [(2, False), (3, False), (4, True), (8, True)])
def test_launches_are_paired_from_four_blocks_on(launches: int, paired: bool) -> None:
    random = np.random.default_rng(launches)
    first, second = (np.exp(random.normal(3, 0.02, launches)) for _ in range(2))
    cell = judged("verify_ms", first.tolist(), second.tolist())
    logs = np.log(first), np.log(second)
    theirs = (
        reference.ttest_1samp(logs[1] - logs[0], 0)
        if paired
        else reference.ttest_ind(logs[1], logs[0], equal_var=True)
    ).confidence_interval(0.95)
    assert cell.paired == paired
    assert (cell.low, cell.high) == pytest.approx((math.expm1(theirs.low), math.expm1(theirs.high)))


def test_runs_apart_are_compared_by_welch() -> None:
    random = np.random.default_rng(11)
    first, second = np.exp(random.normal(3, 0.02, 4)), np.exp(random.normal(3, 0.05, 6))
    cell = judged("verify_ms", first.tolist(), second.tolist(), same_run=False)
    theirs = reference.ttest_ind(np.log(second), np.log(first), equal_var=False).confidence_interval(0.95)
    assert not cell.paired
    assert (cell.low, cell.high) == pytest.approx((math.expm1(theirs.low), math.expm1(theirs.high)))


def test_the_same_launches_are_equivalent_however_few_and_noisy() -> None:
    assert judged("verify_ms", [20.0, 30.0], [20.0, 30.0]).verdict == Verdict.EQUIVALENT


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf])
def test_values_without_a_ratio_are_never_a_verdict(bad: float) -> None:
    cell = judged("verify_ms", [20.0, 20.1, 20.2], [bad, bad, bad])
    assert cell.verdict == Verdict.INVALID
    assert math.isnan(cell.change)


def test_a_launch_whose_partner_failed_is_left_out() -> None:
    cell = judged("verify_ms", [*BASE, math.nan], [v * 1.05 for v in BASE] + [40.0])
    assert (cell.verdict, cell.launches, cell.paired) == (Verdict.REGRESSED, 5, True)


def test_a_percentile_that_no_launch_supports_is_invalid_and_says_what_it_takes() -> None:
    cell = judged("ttft_p99_ms", [math.nan] * 3, [math.nan] * 3)
    assert cell.verdict == Verdict.INVALID
    assert "299 observations" in cell.reason


def test_an_undecided_cell_says_how_many_launches_would_decide() -> None:
    cell = judged("verify_ms", [100, 130, 90, 115], [104, 125, 99, 121])
    assert cell.verdict == Verdict.UNDECIDED
    assert cell.further_launches is not None and cell.further_launches > 3
    assert f"about {cell.further_launches} more launches a side would decide" in cell.reason
    assert judged("verify_ms", BASE, [v * 1.05 for v in BASE]).further_launches is None


@pytest.mark.parametrize(
    ("change", "spread", "launches", "verdict", "least"),
    [
        (0.032, 0.005, 5, Verdict.REGRESSED, 197),
        (0.0, 0.005, 8, Verdict.EQUIVALENT, 175),
        (0.032, 0.13, 5, Verdict.UNDECIDED, 178),
    ],
)
def test_t12_by_seeds(change: float, spread: float, launches: int, verdict: Verdict, least: int) -> None:
    seen = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        first, second = (10 * np.exp(random.normal(0, spread, launches)) for _ in range(2))
        seen += judged("cycle_ms", first.tolist(), (second * (1 + change)).tolist()).verdict == verdict
    assert seen >= least


def test_a_noisy_difference_is_undecided_not_a_regression() -> None:
    cell = judged("verify_ms", [100, 130, 90, 115], [104, 125, 99, 121], same_run=False)
    assert cell.verdict == Verdict.UNDECIDED
    assert cell.low < 0 < cell.high


def test_pairing_by_block_takes_out_what_blocks_share() -> None:
    drift = [1.0, 1.2, 1.4, 1.6, 1.8]
    first = [100 * d for d in drift]
    second = [103 * d * w for d, w in zip(drift, [1.001, 0.999, 1.0, 1.0005, 0.9995], strict=True)]
    assert judged("verify_ms", first, second).verdict == Verdict.REGRESSED
    assert judged("verify_ms", first, second, same_run=False).verdict == Verdict.UNDECIDED


def test_one_launch_cannot_tell() -> None:
    cell = judged("verify_ms", [20.0], [30.0])
    assert cell.verdict == Verdict.UNDECIDED
    assert cell.change == pytest.approx(0.5)
    assert math.isinf(cell.high) and math.isinf(cell.high_abs)
    assert cell.change_abs == pytest.approx(10.0)
    assert "two more" in cell.reason and cell.further_launches is None


def test_two_launches_that_agree_exactly_may_do_so_by_chance() -> None:
    for same_run in (True, False):
        cell = judged("accept_length", [2.0, 2.0], [3.0, 3.0], same_run=same_run)
        assert cell.verdict == Verdict.UNDECIDED
        assert "by chance" in cell.reason
    assert judged("accept_length", [2.0, 2.0, 2.0], [3.0, 3.0, 3.0]).verdict == Verdict.IMPROVED


@pytest.mark.parametrize("missing", [[], [math.nan, math.nan]])
def test_a_side_without_values_is_invalid_not_slower(missing: list[float]) -> None:
    first = means("verify_ms", [20.0, 20.1])
    second = means("verify_ms", missing) if missing else first.iloc[:0]
    (cell,) = compare(first, second, [METRICS["verify_ms"]], stack="b", same_run=True)
    assert cell.verdict == Verdict.INVALID
    assert "candidate" in cell.reason


def test_an_effect_below_the_clients_own_error_is_not_called() -> None:
    second = [value * 1.02 for value in BASE]
    assert judged("itl_ms", BASE, second).verdict == Verdict.REGRESSED
    cell = judged("itl_ms", BASE, second, client=ClientError(gap_ms=5.0))
    assert cell.verdict == Verdict.UNDECIDED
    assert "client's own error" in cell.reason


def test_nothing_is_called_that_the_clients_own_error_could_make() -> None:
    second = [value * 1.004 for value in BASE]
    assert judged("itl_ms", BASE, second).verdict == Verdict.EQUIVALENT
    assert judged("itl_ms", BASE, second, client=ClientError(gap_ms=5.0)).verdict == Verdict.UNDECIDED
    near = [value * w for value, w in zip(BASE, [1.004, 1.006, 1.005, 1.0045, 1.0055], strict=True)]
    assert judged("itl_ms", BASE, near, margin=0.001).verdict == Verdict.REGRESSED
    cell = judged("itl_ms", BASE, near, margin=0.001, client=ClientError(gap_ms=0.9))
    assert cell.high > 0.0052 and cell.verdict == Verdict.UNDECIDED


def test_equivalence_is_two_one_sided_tests_at_five_percent() -> None:
    """About 90 % intervals, so that five launches at 0.5 % noise mostly suffice (T12)."""
    random = np.random.default_rng(3)
    verdicts = [
        judged("verify_ms", *(np.exp(random.normal(0, 0.005, (2, 6))) * 100).tolist(), same_run=False).verdict
        for _ in range(200)
    ]
    assert verdicts.count(Verdict.EQUIVALENT) > 120
    shifted = [
        judged(
            "verify_ms",
            (np.exp(random.normal(0, 0.005, 5)) * 100).tolist(),
            (np.exp(random.normal(0.01, 0.005, 5)) * 100).tolist(),
            same_run=False,
        ).verdict
        for _ in range(300)
    ]
    assert shifted.count(Verdict.EQUIVALENT) <= 26  # 5 % of 300, and three standard deviations


def test_many_cells_share_one_confidence() -> None:
    wide = pd.concat([means("verify_ms", BASE, context=c) for c in range(1, 21)])
    second = pd.concat([means("verify_ms", [v * 1.01 for v in BASE[::-1]], context=c) for c in range(1, 21)])
    many = compare(wide, second, [METRICS["verify_ms"]], stack="b", same_run=True)
    one = judged("verify_ms", BASE, [v * 1.01 for v in BASE[::-1]])
    assert many[0].high - many[0].low > one.high - one.low


def test_intervals_agree_with_scipy() -> None:
    values = [3.0, 4.5, 2.5, 5.0]
    mine = interval.of_mean(values, 0.9)
    theirs = reference.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high))
    others = [4.0, 6.0, 5.5]
    mine = interval.of_difference(values, others, 0.9)
    theirs = reference.ttest_ind(others, values, equal_var=False).confidence_interval(0.9)
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high))


def test_false_alarms_stay_at_the_stated_rate_when_launches_differ() -> None:
    """No true change, half of the variance between launches: at most about 5 % are called."""
    random = np.random.default_rng(7)
    called = 0
    for _ in range(600):
        first, second = (100 * np.exp(random.normal(0, 0.02, 4)) for _ in range(2))
        cell = judged("verify_ms", first.tolist(), second.tolist(), margin=0.0)
        called += cell.verdict in (Verdict.REGRESSED, Verdict.IMPROVED)
    # 30 are expected; 47 is three standard deviations above.
    assert 10 <= called <= 47


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        ("itl_ms", 10.0, 0.0005),
        ("decode_tok_s", 100.0, 0.001),
        ("output_tok_s", 100.0, 0.001),
        ("ttft_ms", 50.0, 0.002),
        ("accept_length", 2.0, 0.0),
        ("verify_ms", 10.0, 0.0),
    ],
)
def test_the_floor_follows_from_the_self_test(metric: str, value: float, expected: float) -> None:
    test = {"smallest_effect_fraction": 0.001, "interval_ms": 5.0, "smallest_ttft_effect_us": 100.0}
    client = ClientError.of([test, {}], client_cycles=False)
    assert client.floor(metric, value, gap_ms=5.0) == pytest.approx(expected)
    by_client = ClientError.of([test], client_cycles=True)
    assert by_client.floor("verify_ms", 10.0, gap_ms=5.0) == pytest.approx(0.0005)
