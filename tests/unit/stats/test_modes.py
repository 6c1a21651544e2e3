"""A slow mode drawn at start (T11): said when seen, not judged by its mean; one mode is not taken for two."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats as reference

from benchharness.metrics import METRICS
from benchharness.stats import modes
from benchharness.stats.compare import Cell, Verdict, compare

FAST, SLOW = 2.55, 4.12


def judged(first: np.ndarray, second: np.ndarray, metric: str = "cycle_ms") -> Cell:
    sides = [
        pd.DataFrame({"launch": range(len(v)), "block": range(len(v)), "context_tokens": 128, metric: v})
        for v in (first, second)
    ]
    (cell,) = compare(sides[0], sides[1], [METRICS[metric]], stack="b", same_run=True)
    return cell


def starts(random: np.random.Generator, launches: int, slow: float = 0.6) -> np.ndarray:
    return np.where(random.random(launches) < slow, SLOW, FAST) * np.exp(random.normal(0, 0.01, launches))


@pytest.mark.parametrize("launches", [3, 5, 8])
def test_t11_by_seeds(launches: int) -> None:
    """The same stack on both sides, its slow mode drawn with probability 0.6."""
    wrong = said = seen = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        first, second = starts(random, launches), starts(random, launches)
        cell = judged(first, second)
        wrong += cell.verdict in (Verdict.REGRESSED, Verdict.IMPROVED, Verdict.EQUIVALENT)
        slow = np.concatenate([first, second]) > 3.3
        mixed = any(0 < (side > 3.3).sum() < launches for side in (first, second))
        if mixed and 2 <= slow.sum() <= 2 * launches - 2:
            seen += 1
            said += cell.bimodal
    assert wrong <= 10
    assert said >= 0.94 * seen
    assert seen > 100


def test_what_is_said_names_both_modes_and_who_drew_them() -> None:
    first = np.array([FAST, SLOW, FAST * 1.01, FAST, SLOW])
    second = np.array([SLOW, SLOW * 1.01, FAST, SLOW, FAST])
    cell = judged(first, second)
    assert cell.bimodal and cell.verdict == Verdict.UNDECIDED
    assert "2.56" in cell.reason or "2.55" in cell.reason
    assert "2 of 5 baseline and 3 of 5 candidate" in cell.reason
    assert cell.further_launches is not None and cell.further_launches > 20
    assert cell.low < 0 < cell.high < 0.05  # within a mode


def test_slow_is_the_worse_mode_of_a_rate() -> None:
    cell = judged(1000 / np.array([FAST, SLOW, FAST * 1.01, FAST]), 1000 / np.array([SLOW, FAST, FAST, FAST]))
    assert cell.bimodal
    assert (
        "1 of 4 baseline and 1 of 4"
        in judged(np.array([FAST, SLOW, FAST * 1.01, FAST]), np.array([SLOW, FAST, FAST, FAST])).reason
    )
    rate = judged(
        1000 / np.array([FAST, SLOW, FAST * 1.01, FAST]),
        1000 / np.array([SLOW, FAST, FAST, FAST]),
        "decode_tok_s",
    )
    assert "slow mode was drawn in 1 of 4 baseline and 1 of 4" in rate.reason


def test_a_mode_drawn_more_often_than_by_chance_is_a_regression() -> None:
    random = np.random.default_rng(3)
    first, second = starts(random, 10, 0.0), starts(random, 10, 0.0)
    second[:7] *= SLOW / FAST
    cell = judged(first, second)
    assert cell.bimodal and cell.verdict == Verdict.REGRESSED
    assert "0 of 10 baseline and 7 of 10 candidate" in cell.reason
    assert judged(second, first).verdict == Verdict.IMPROVED


def test_a_regression_of_both_modes_is_seen_behind_them() -> None:
    random = np.random.default_rng(4)
    wobble = np.exp(random.normal(0, 0.004, (2, 8)))
    drawn = np.array([FAST, SLOW] * 4)
    cell = judged(drawn * wobble[0], 1.1 * drawn * wobble[1])
    assert cell.bimodal and cell.verdict == Verdict.REGRESSED
    assert cell.change == pytest.approx(0.1, abs=0.01)
    assert "both modes moved" in cell.reason


@pytest.mark.parametrize(("kind", "most"), [("gauss", 6), ("t3", 8), ("apart", 6)])
def test_one_mode_is_not_taken_for_two(kind: str, most: int) -> None:
    """Gaussian launches, heavy tails, and two sides of one mode each that really differ."""
    random = np.random.default_rng(5)
    seen = 0
    for _ in range(300):
        noise = random.standard_t(3, (2, 6)) if kind == "t3" else random.standard_normal((2, 6))
        shift = 0.5 if kind == "apart" else 0.0
        first, second = 0.1 * noise
        seen += modes.detect(first, second + shift) is not None
    assert seen <= most


def test_a_skewed_mode_is_not_taken_for_two() -> None:
    """Where launches are many a cut takes away much of any skewed spread, but leaves no gap."""
    random = np.random.default_rng(5)
    draws = (0.1 * random.exponential(1, (2, 20)) for _ in range(300))
    assert sum(modes.detect(*both) is not None for both in draws) <= 5


def test_the_best_cut_is_that_of_every_assignment() -> None:
    random = np.random.default_rng(6)
    for _ in range(20):
        first, second = np.sort(random.standard_normal(4)), np.sort(random.standard_normal(3))
        ratio, _ = modes._best(first[None], second[None])
        values = np.concatenate([first, second])
        side = np.repeat([0.0, 1.0], [4, 3])
        whole = sum(float(((v - v.mean()) ** 2).sum()) for v in (first, second))
        least = whole
        for drawn in itertools.product([0.0, 1.0], repeat=7):
            design = np.column_stack([np.ones(7), side, drawn])
            rest = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
            least = min(least, float(rest @ rest))
        # Cuts of sorted values find what all assignments find, as long as the modes lie one way up.
        assert ratio[0] <= whole / least * (1 + 1e-9)
        assert ratio[0] == pytest.approx(whole / least, rel=0.35)


@pytest.mark.parametrize("drawn", [((2, 5), (4, 5)), ((0, 8), (5, 8)), ((3, 6), (3, 6)), ((1, 3), (0, 7))])
def test_shares_are_told_apart_by_fishers_test(drawn: tuple[tuple[int, int], tuple[int, int]]) -> None:
    upper = tuple(np.arange(of) < some for some, of in drawn)
    found = modes.Modes((upper[0], upper[1]), (1.0, 2.0), modes.Estimate(0.0, 1.0, 1, 3, False))
    theirs = reference.fisher_exact([[some, of - some] for some, of in drawn]).pvalue
    assert found.p == pytest.approx(theirs)
