"""Whole campaigns on a simulated machine, by the hunt that real ones follow."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hunting import axis

from benchharness.bisect.search import Reason
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.deciding import Outcome, Wanted
from benchharness.bisect.session.rehearsal import Budget, Rehearsal, Rehearsed, Scale, rehearse, told
from benchharness.bisect.session.state import Role
from benchharness.bisect.simulation import PRICED, Machine, Scene, Tails, summary

LARGE = Scene(32, 12.0, 0.5)


def begun(scene: Scene, seed: int, change: int, budget: Budget | None = None) -> Rehearsal:
    machine = Machine(scene, np.random.default_rng(seed), change)
    places = axis([f"c{number:02d}" for number in range(scene.versions)])
    hunt = AxisHunt(places, (), {}, 0.95, 1, scene.prices)
    return Rehearsal(machine, hunt, Scale(1.0, scene.deviation), budget or Budget())


def test_a_campaign_goes_through_all_phases_and_names_the_change() -> None:
    done = rehearse(LARGE, 0.95, (1, 2))
    assert (done.outcome, done.right) == (Outcome.FOUND, True)
    assert done.confidence >= 0.95
    assert done.launches[Role.PREFLIGHT] == 2
    assert min(done.launches[role] for role in (Role.ENDS, Role.SEARCH, Role.CONFIRM)) >= 2


def test_the_clock_holds_each_launch_by_its_price() -> None:
    campaign = begun(LARGE, 3, 11)
    ended = campaign.run()
    seen = campaign.hunt.observed
    built = len({one.stack for one in seen})
    seconds = built * PRICED.cold_s + (len(seen) - built) * PRICED.relaunch_s
    seconds += sum(one.repeats for one in seen) * PRICED.repeat_s
    assert ended.hours == pytest.approx(seconds / 3600)
    assert ended.measurements == sum(one.repeats for one in seen)


def test_values_are_those_of_the_scale_and_blocks_stand_together() -> None:
    campaign = begun(replace(LARGE, deviation=0.001), 5, 11)
    campaign.run()
    levels = [{one.place: one.value for one in campaign.hunt.observed}[place] for place in ("c00", "c31")]
    assert levels == pytest.approx([1.0, 1.012], abs=0.004)
    blocks = [one.block for one in campaign.hunt.observed]
    assert blocks == sorted(blocks)
    roles = {one.block: one.role for one in campaign.hunt.observed}
    assert all(blocks.count(block) == 2 for block, role in roles.items() if role is not Role.SEARCH)


def test_a_launch_that_runs_is_stayed_in_where_that_tells_most() -> None:
    dear = replace(PRICED, relaunch_s=3000.0, cold_s=3000.0)
    campaign = begun(Scene(32, 1.0, 0.05, dear), 1, 20)
    stayed = 0
    ended = None
    while ended is None:
        before, coming = campaign.hunt.observed, campaign.hunt.next()
        ended = campaign.step()
        if isinstance(coming, Wanted) and coming.stay:
            stayed += 1
            after = campaign.hunt.observed
            assert after[:-1] == before[:-1]
            assert after[-1].repeats == before[-1].repeats + coming.repeats
    assert stayed > 0


def test_what_is_wanted_while_a_launch_runs_is_wanted_after_its_end() -> None:
    asked = 0
    campaign = begun(Scene(24, 4.0, 0.5), 6, 7)
    ended = None
    while ended is None:
        running = campaign.hunt
        coming = running.next()
        if running.running is not None and isinstance(coming, Wanted) and not coming.stay:
            asked += 1
            assert replace(running, running=None).next() == coming
        ended = campaign.step()
    assert asked > 5


def test_points_that_can_not_be_built_leave_the_shortest_range() -> None:
    campaign = begun(Scene(32, 12.0, 0.5, unusable=0.3), 2, 15)
    ended = campaign.run()
    assert (ended.outcome, ended.right) == (Outcome.RANGE, True)
    # One that fails costs a build all the same, and counts.
    failed = sum(one.unbuildable for one in campaign.hunt.observed)
    assert failed > 0
    assert sum(ended.launches.values()) == len(campaign.hunt.observed)


@pytest.mark.parametrize(("deviation", "outcome"), [(0.002, Outcome.ALIKE), (0.1, Outcome.UNTOLD)])
def test_ends_that_do_not_differ_name_nothing(deviation: float, outcome: Outcome) -> None:
    done = rehearse(Scene(16, 0.0, 0.5, deviation=deviation), 0.99, (8, 2))
    assert (done.outcome, done.right) == (outcome, False)
    assert math.isnan(done.confidence)


def test_a_budget_ends_it() -> None:
    few = rehearse(LARGE, 0.95, (1, 2), Budget(launches=6))
    assert few.outcome is Outcome.BUDGET
    assert sum(few.launches.values()) <= 6
    short = rehearse(LARGE, 0.95, (1, 2), Budget(hours=0.4))
    assert short.outcome is Outcome.BUDGET
    assert 0.4 <= short.hours < 0.8


def test_a_campaign_that_was_begun_counts_only_what_comes() -> None:
    first = begun(LARGE, 3, 11)
    while not any(one.role is Role.SEARCH for one in first.hunt.observed):
        assert first.step() is None
    stood = replace(first.hunt, running=None)
    rest = Rehearsal(Machine(LARGE, np.random.default_rng(4), 11), stood, Scale(1.0, 0.02), Budget()).run()
    assert rest.right
    assert set(rest.launches) <= {Role.SEARCH, Role.CONFIRM}


def test_whole_campaigns_are_summed_up_as_searches_are() -> None:
    done = [told(LARGE, 0.95, (4, trial)) for trial in range(6)]
    done += [told(replace(LARGE, effect=0.0), 0.95, (4, 9))]
    found = summary(done)
    assert found.cannot_tell == pytest.approx(1 / 7)
    assert found.success == pytest.approx(6 / 7)
    assert found.wrong == 0.0
    assert found.stated >= 0.95
    named_wrongly = replace(done[0], right=False)
    assert named_wrongly.reason is Reason.FOUND
    assert summary([named_wrongly, done[1]]).wrong == 0.5


def test_known_noise_is_told_to_the_hunt() -> None:
    """What earlier runs tell of the noise leaves no room for modes, and the search needs fewer launches."""
    seeds = [(11, trial) for trial in range(12)]
    scene = Scene(32, 4.0, 0.5)

    def searched(done: list[Rehearsed]) -> float:
        return float(np.mean([one.measurements for one in done]))

    known = searched([rehearse(replace(scene, known=True), 0.95, seed) for seed in seeds])
    assert known < searched([rehearse(scene, 0.95, seed) for seed in seeds])


def test_a_slow_mode_at_start_names_no_wrong_culprit() -> None:
    scene = Scene(32, 1.0, 0.98, tails=Tails.MODES, deviation=0.1)
    done = [rehearse(scene, 0.95, (13, trial)) for trial in range(25)]
    assert sum(one.right for one in done) >= 22
    assert sum(one.outcome is Outcome.FOUND and not one.right for one in done) <= 1
