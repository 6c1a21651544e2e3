"""Looks at data that grow: planned beforehand, none beyond the budget, and no more than the level spent."""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchharness.stats import estimate, looks, until
from benchharness.stats.compare import Cell, Verdict

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import bench_until

PLANS = st.tuples(st.integers(1, 30), st.integers(0, 60)).map(lambda pair: (pair[0], max(2, sum(pair))))


@given(PLANS)
def test_looks_spend_the_level_once_and_go_from_the_first_launches_to_the_budget(
    plan: tuple[int, int],
) -> None:
    first, most = plan
    planned = looks.planned(first, most)
    assert sum(look.share for look in planned) == pytest.approx(1)
    counts = [look.launches for look in planned]
    assert counts == sorted(set(counts))
    assert counts[0] == max(first, 2) and counts[-1] == most
    for before, after in pairwise(counts):
        assert after <= before * looks.GROWTH + 1
    shares = [look.share for look in planned]
    assert shares == sorted(shares)


def test_a_budget_below_the_first_launches_has_no_look() -> None:
    with pytest.raises(ValueError, match="no look"):
        looks.planned(5, 4)


@given(PLANS, st.integers(1, 600))
def test_the_next_look_is_planned_later_and_within_twice_the_launches(
    plan: tuple[int, int], wanted: int
) -> None:
    planned = looks.planned(*plan)
    last = 0
    while True:
        have = planned[last].launches
        at = looks.following(planned, last, have, wanted)
        if at == len(planned):
            assert have == plan[1]
            return
        assert at > last
        nearest = planned[last + 1].launches
        assert planned[at].launches <= max(2 * have, nearest)
        assert planned[at].launches >= have + wanted or at == last + 1 or planned[at].launches * 2 > have
        last = at


def test_many_launches_wanted_leave_a_look_out() -> None:
    planned = looks.planned(3, 20)
    assert [look.launches for look in planned] == [3, 4, 6, 9, 14, 20]
    assert [looks.following(planned, 0, 3, wanted) for wanted in (1, 2, 3, 100)] == [1, 2, 2, 2]


def test_a_round_cut_short_spends_the_look_that_it_was_made_for() -> None:
    planned = looks.planned(3, 20)
    assert looks.taken(planned, -1, 3) == 0
    assert looks.taken(planned, 0, 5) == 1
    assert looks.taken(planned, 1, 5) == 2
    assert looks.taken(planned, 5, 20) == len(planned)


def test_the_simulation_judges_as_the_estimate_does() -> None:
    random = np.random.default_rng(5)
    for count in (2, 3, 4, 9):
        logs = random.standard_normal((3, 2, count))
        for one, *told in zip(logs, *bench_until.estimated(logs), strict=True):
            known = estimate.of_launches(one[0], one[1], range(count))
            assert told == pytest.approx([known.mean, known.error, known.freedom])


def test_looking_again_and_again_keeps_to_the_level() -> None:
    random = np.random.default_rng(6)
    logs = random.standard_normal((20_000, 1, 2, 20))
    planned = looks.planned(3, 20)
    ours = bench_until.alarms(logs, {look.launches: look.share for look in planned}).mean()
    naive = bench_until.alarms(logs, {look.launches: 1.0 for look in planned}).mean()
    assert 0.02 < ours < 0.055
    assert naive > 0.12


def cell(verdict: Verdict, further: int | None, high: float = 0.1) -> Cell:
    return Cell("b", 8, "cycle_ms", "ms", 1, 1, 0, -0.1, high, 3, True, verdict, further_launches=further)


def test_what_is_wanted_is_what_the_slowest_cell_wants() -> None:
    done = cell(Verdict.IMPROVED, 9)
    assert until.wanted([done]) is None
    assert until.wanted([done, cell(Verdict.UNDECIDED, 4), cell(Verdict.UNDECIDED, 7)]) == 7
    assert until.wanted([cell(Verdict.UNDECIDED, None), cell(Verdict.UNDECIDED, 4)]) == 4
    assert until.wanted([cell(Verdict.UNDECIDED, None), cell(Verdict.INVALID, None)]) is None
    assert until.wanted([cell(Verdict.UNDECIDED, None, math.inf)]) == 1
    assert [one.verdict for one in until.open_cells([done, cell(Verdict.INVALID, None)])] == ["invalid"]
