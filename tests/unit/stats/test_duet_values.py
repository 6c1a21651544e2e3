"""Duets: pairs of requests cancel what the host does, blocks are the unit, and pairs begin at two blocks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchharness.metrics import METRICS
from benchharness.stats import compare, duet, estimate

METRIC = METRICS["cycle_ms"]


def requests(values: np.ndarray, stack: str) -> pd.DataFrame:
    """Rows of `request_values`: blocks x requests."""
    rows = [
        {"launch": block, "block": block, "stack": stack, "context_tokens": 8, "request": at, "value": value}
        for block, one in enumerate(values)
        for at, value in enumerate(one)
    ]
    return pd.DataFrame(rows)


def test_a_block_is_the_mean_of_its_pairs_log_ratios() -> None:
    host = np.exp(np.random.default_rng(1).normal(0, 1, (3, 6)))
    pairs = duet.paired(requests(10 * host, "a"), requests(11 * host, "b"))
    assert list(pairs["pairs"]) == [6, 6, 6]
    assert list(pairs["second"] / pairs["first"]) == pytest.approx([1.1] * 3)
    assert list(pairs["first"]) == pytest.approx(list(np.exp(np.log(10 * host).mean(axis=1))))


def test_a_request_without_its_partner_is_left_out() -> None:
    one = requests(np.array([[1.0, 2.0, 50.0]]), "a")
    other = requests(np.array([[1.0, 2.0, np.nan]]), "b")
    pairs = duet.paired(one, other[other["request"] != 0])
    assert list(pairs["pairs"]) == [1]
    assert list(pairs["first"]) == list(pairs["second"]) == pytest.approx([2.0])


def rows(values: list[float], stack: str) -> pd.DataFrame:
    blocks = range(len(values))
    return pd.DataFrame(
        {"launch": blocks, "block": blocks, "stack": stack, "context_tokens": 8, "cycle_ms": values}
    )


def compared(first: list[float], second: list[float], *, is_duet: bool) -> compare.Cell:
    sides = rows(first, "a"), rows(second, "b")
    (cell,) = compare.compare(*sides, [METRIC], stack="b", same_run=True, duet=is_duet)
    return cell


def test_two_blocks_of_a_duet_are_pairs_and_two_interleaved_ones_are_not() -> None:
    first, second = [10.0, 20.0], [11.0, 22.01]
    paired, plain = compared(first, second, is_duet=True), compared(first, second, is_duet=False)
    assert (paired.paired, paired.duet) == (True, True)
    assert (plain.paired, plain.duet) == (False, False)
    assert paired.verdict == compare.Verdict.REGRESSED
    assert plain.verdict == compare.Verdict.UNDECIDED
    assert paired.high - paired.low < (plain.high - plain.low) / 50


def test_a_launch_without_its_partner_is_left_out_of_a_duet() -> None:
    first, second = rows([10.0, 20.0, 15.0], "a"), rows([11.0, 22.01, 900.0], "b").iloc[:2]
    (cell,) = compare.compare(first, second, [METRIC], stack="b", same_run=True, duet=True)
    assert cell.launches == 2 and cell.paired
    assert cell.change == pytest.approx(0.1, abs=0.001)


def test_stacks_that_never_met_are_compared_as_groups() -> None:
    first, second = rows([10.0, 10.1, 10.2], "b"), rows([12.0, 12.1, 12.2], "c")
    second["block"] += 3
    (cell,) = compare.compare(first, second, [METRIC], stack="c", same_run=True, duet=True)
    assert (cell.paired, cell.duet, cell.launches) == (False, False, 3)


def test_pairs_of_a_duet_keep_to_the_level_on_a_wild_host() -> None:
    random = np.random.default_rng(2)
    for blocks in (2, 3, 5):
        host = 5 * random.standard_normal((6_000, 1, blocks))
        logs = random.standard_normal((6_000, 2, blocks)) + host
        few = estimate.FEWEST_DUETS
        wrong = [
            estimate.of_launches(one[0], one[1], range(blocks), fewest_pairs=few).p < 0.05 for one in logs
        ]
        assert np.mean(wrong) == pytest.approx(0.05, abs=0.01)
