"""What a campaign is expected to take, against what it takes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hunting import PRICES, axis, hunted
from hunting import Machine as Function

from benchharness.bisect.search import Prior
from benchharness.bisect.session import forecast
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.forecast import Forecast
from benchharness.bisect.session.rehearsal import Budget, Rehearsal, Scale
from benchharness.bisect.simulation import Machine as Simulated
from benchharness.bisect.simulation import Scene

LABELS = [f"c{number:02d}" for number in range(24)]
NEW = AxisHunt(axis(LABELS), (), {}, 0.95, 1, PRICES)
NOISE = Prior(between_sd=0.01, within_sd=0.01)


def expected(hunt: AxisHunt, budget: Budget | None = None, most: int = 10) -> Forecast:
    """As many rehearsals, however long they take."""
    found = forecast.of_axis(hunt, budget or Budget(), most=most, clock=lambda: 0.0)
    assert found is not None
    return found


def begun(seed: int, effect: float) -> Rehearsal:
    scene = Scene(len(LABELS), effect, 0.5, PRICES)
    random = np.random.default_rng([17, seed])
    machine = Simulated(scene, random, int(random.integers(0, len(LABELS) - 1)))
    return Rehearsal(machine, NEW, Scale(0.0, scene.deviation), Budget())


def test_the_range_holds_what_campaigns_take_and_the_middle_is_near_their_mean() -> None:
    inside, actual, middles, hours = [], [], [], []
    for seed in range(12):
        campaign = begun(seed, effect=(4.0, 6.0, 9.0)[seed % 3])
        ended = None
        while ended is None and not isinstance(campaign.hunt.ends(), Difference):
            ended = campaign.step()
        if ended is not None:  # the ends could not be told apart
            continue
        stood = campaign.hunt
        found = expected(stood, most=7)
        left = sum(campaign.run().launches.values()) - len(stood.observed)
        inside.append(found.launches.low <= left <= found.launches.high)
        actual.append(left)
        middles.append(found.launches.middle)
        hours.append(found.hours.middle / found.launches.middle)
    assert len(inside) >= 10
    assert np.mean(inside) >= 0.6
    assert 1 / 1.5 < np.mean(middles) / np.mean(actual) < 1.5
    assert all(PRICES.relaunch_s < 3600 * each < PRICES.cold_s for each in hours)


def test_less_is_to_go_the_further_a_campaign_is() -> None:
    campaign = begun(2, 6.0)
    told: dict[int, float] = {}
    while campaign.step() is None:
        stood = replace(campaign.hunt, running=None)
        made = len(stood.observed)
        if isinstance(stood.ends(), Difference) and made >= max(told, default=0) + 3:
            found = forecast.of_axis(stood, Budget(), most=5, clock=lambda: 0.0)
            if found is not None:
                told[made] = found.launches.middle
    assert len(told) >= 3
    assert told[max(told)] <= told[min(told)] / 2


def test_nothing_is_told_where_nothing_is_known_or_all_is_over() -> None:
    assert forecast.of_axis(NEW, Budget()) is None
    world = Function(lambda label: 0.3 * (label >= "c11"))
    over, ended = hunted(axis(LABELS), world)
    assert ended is not None
    assert forecast.of_axis(over, Budget()) is None
    long = replace(NEW, places=axis([str(at) for at in range(forecast.MOST_POINTS + 1)]), prior=NOISE)
    assert forecast.of_axis(long, Budget()) is None


def test_noise_of_earlier_runs_tells_before_the_first_launch_and_says_what_it_takes_for_granted() -> None:
    found = expected(replace(NEW, prior=NOISE))
    assert "if the change is 2 to 10 times" in found.assumed
    assert 10 <= found.launches.middle <= 40
    assert found.launches.low <= found.launches.middle <= found.launches.high
    guessed = forecast.of_axis(NEW, Budget(), most=5, guess=NOISE, clock=lambda: 0.0)
    assert guessed is not None
    measured = begun(1, 8.0)
    while not isinstance(measured.hunt.ends(), Difference):
        assert measured.step() is None
    assert expected(measured.hunt, most=5).assumed == ""


def test_the_budget_bounds_it_and_shows_in_the_answers() -> None:
    found = expected(replace(NEW, prior=NOISE), Budget(launches=8))
    assert found.launches.high <= 8
    assert found.answers < 0.5


def test_counts_that_agree_exactly_go_on_to_agree() -> None:
    world = Function(lambda label: 0.3 * (label >= "c11"))
    hunt, _ = hunted(axis(LABELS), world, most=4)
    found = expected(hunt)
    _, ended = hunted(axis(LABELS), world)
    assert ended is not None
    assert found.answers == 1.0
    assert found.launches.low <= len(world.seen) - 4 <= found.launches.high
    assert found.launches.high - found.launches.low <= 3


def test_points_that_failed_make_others_likely_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = {LABELS[at]: "no wheel" for at in range(6, 18)}
    random = np.random.default_rng(1)
    world = Function(lambda label: 0.5 * (label >= "c03") + random.normal(0, 0.01), broken=gone)
    hunt, _ = hunted(axis(LABELS), world, most=7)
    known = hunt.axis().unusable
    assert known
    drawn: list[frozenset[int]] = []

    class Spied(Simulated):
        def __init__(self, *parts: Any) -> None:
            drawn.append(parts[-1])
            super().__init__(*parts)

    monkeypatch.setattr(forecast, "Machine", Spied)
    expected(hunt)
    assert all(known <= broken for broken in drawn)
    assert any(known < broken for broken in drawn)
    measured = {LABELS.index(one.place) for one in hunt.observed if one.value is not None}
    assert not any(broken & measured for broken in drawn)


def test_no_more_rehearsals_are_begun_once_the_time_is_up() -> None:
    ticks = itertools.count()
    known = replace(NEW, prior=NOISE)
    found = forecast.of_axis(known, Budget(), cpu_s=100.0, clock=lambda: float(next(ticks)))
    assert found is not None
    assert forecast.FEWEST_REHEARSALS <= found.rehearsals < forecast.MOST_REHEARSALS
    later = itertools.count()
    assert forecast.of_axis(known, Budget(), cpu_s=10.0, clock=lambda: float(next(later))) is None


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_either_direction_is_rehearsed(sign: float) -> None:
    random = np.random.default_rng(3)
    world = Function(lambda label: sign * 0.3 * (label >= "c15") + random.normal(0, 0.01))
    hunt, _ = hunted(axis(LABELS), world, most=6)
    found = expected(hunt)
    assert found.answers >= 0.8
    assert found.launches.high < 30
