"""Seeded campaigns on simulated machines, and the machines themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchharness.bisect.search import Limits, Reason
from benchharness.bisect.simulation import (
    EQUAL,
    PRICED,
    Machine,
    Scene,
    Summary,
    Tails,
    campaign,
    plain,
    summary,
)
from benchharness.errors import UsageError

LIMITS = Limits(launches=100)


def many(scene: Scene, trials: int, confidence: float = 0.95) -> Summary:
    return summary([campaign(scene, confidence, (5, trial), LIMITS) for trial in range(trials)])


def test_a_large_effect_takes_no_more_launches_than_plain_bisection() -> None:
    scene = Scene(64, 40.0, 0.0, EQUAL)
    ours = many(scene, 20)
    other = summary([plain(scene, 1, (5, trial)) for trial in range(20)])
    assert ours.success == other.success == 1.0
    assert ours.mean_launches <= other.mean_launches + 0.1


def test_known_levels_need_no_ends() -> None:
    ours = many(Scene(64, 40.0, 0.0, EQUAL, known=True), 20)
    assert ours.success == 1.0
    assert ours.mean_launches <= 6.0


def test_one_level_campaigns_find_the_change_for_what_the_benchmark_says() -> None:
    ours = many(Scene(64, 2.0, 0.0, EQUAL), 60)
    assert ours.success >= 0.93
    assert ours.mean_measurements <= 36


def test_two_level_campaigns_find_the_change() -> None:
    ours = many(Scene(64, 2.0, 0.5), 40)
    assert ours.success >= 0.9
    assert ours.mean_hours <= 2.1


def test_modes_at_start_lead_plain_bisection_astray_but_not_ours() -> None:
    scene = Scene(64, 1.0, 0.98, tails=Tails.MODES)
    other = summary([plain(scene, 1, (5, trial)) for trial in range(40)])
    assert other.success <= 0.2
    assert many(scene, 40).success >= 0.9


def test_versions_that_can_not_be_built_end_in_the_shortest_range() -> None:
    scene = Scene(32, 4.0, 0.3, unusable=0.3)
    outcomes = [campaign(scene, 0.95, (5, trial), LIMITS) for trial in range(20)]
    assert sum(one.right for one in outcomes) >= 18
    # Ten of the 31 positions touch the hole; there a range is all that can be told.
    ranges = [one for one in outcomes if one.reason == Reason.RANGE]
    assert 0 < len(ranges) < 20
    assert all(one.right for one in ranges)


def test_the_seed_alone_decides_what_is_drawn() -> None:
    scene = Scene(16, 2.0)
    one, again, other = (campaign(scene, 0.9, (3, trial)) for trial in (0, 0, 1))
    assert one == again != other


def test_the_clock_counts_builds_relaunches_and_repeats() -> None:
    machine = Machine(Scene(8, 1.0, unusable=0.25), np.random.default_rng(1), 2)
    assert machine.launch(0)
    machine.measure(3)
    assert machine.launch(0)
    assert not machine.launch(4)
    assert machine.seconds == PRICED.cold_s * 2 + PRICED.relaunch_s + 3 * PRICED.repeat_s
    assert (machine.launches, machine.measurements, machine.built) == (2, 3, {0})


@pytest.mark.parametrize("tails", list(Tails))
def test_every_spread_has_the_deviation_and_share_that_it_says(tails: Tails) -> None:
    machine = Machine(Scene(4, 3.0, 0.5, tails=tails), np.random.default_rng(2), 0)
    means, inside = [], []
    for _ in range(4000):
        machine.launch(1)
        values = machine.measure(4)
        means.append(values.mean())
        inside.append(values.var(ddof=1))
    assert np.mean(means) == pytest.approx(3.0, abs=0.06)
    assert np.mean(inside) == pytest.approx(0.5, rel=0.25)
    # Heavy tails make the figure itself spread widely.
    assert np.var(means) - np.mean(inside) / 4 == pytest.approx(0.5, rel=0.35)


def test_lag_and_drift_are_what_they_say() -> None:
    machine = Machine(Scene(4, 0.0, 0.0, lag=0.6), np.random.default_rng(3), 0)
    machine.launch(0)
    values = machine.measure(8000)
    assert np.corrcoef(values[1:], values[:-1])[0, 1] == pytest.approx(0.6, abs=0.04)
    drifting = Machine(Scene(4, 0.0, 1.0, drift=1.0, drift_s=60.0), np.random.default_rng(3), 0)
    drifting.launch(0)
    values = drifting.measure(8000)
    assert values.std() == pytest.approx(1.0, abs=0.1)
    assert np.corrcoef(values[4:], values[:-4])[0, 1] == pytest.approx(np.exp(-1), abs=0.08)


@pytest.mark.parametrize(
    "wrong",
    [
        {"versions": 1},
        {"effect": -1.0},
        {"effect": float("nan")},
        {"rho": 1.5},
        {"rho": -0.1},
        {"lag": 1.0},
        {"drift": -1.0},
        {"unusable": 2.0},
    ],
)
def test_wrong_scenes_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        replace(Scene(8, 1.0), **wrong)
