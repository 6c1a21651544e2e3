"""The order of a hunt along an axis: pre-flight, ends, search, confirmation; and every way that it ends."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hunting import PRICES, Machine, axis, hunted

from benchharness.bisect.search import Prior
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.deciding import TRENDS, Ended, Outcome, Wanted
from benchharness.bisect.session.state import Role

LABELS = [f"c{number:02d}" for number in range(24)]


def machine(change_at: int, shift: float, sd: float, seed: int, **more: object) -> Machine:
    random_ = random.Random(seed)
    return Machine(
        lambda label: (shift if LABELS.index(label) >= change_at else 0.0) + random_.gauss(0.0, sd), **more
    )


def test_a_hunt_goes_through_its_phases_in_order() -> None:
    world = machine(15, 0.4, 0.02, seed=1)
    hunt, ended = hunted(axis(LABELS), world)
    assert ended is not None and ended.outcome is Outcome.FOUND
    assert [place.label for place in hunt.suspects()] == ["c14", "c15"]
    roles = [one.role for one in world.seen]
    assert roles == sorted(roles, key=[Role.PREFLIGHT, Role.ENDS, Role.SEARCH, Role.CONFIRM].index)
    assert [one.place for one in world.seen[:2]] == ["c00", "c00"]
    confirmed = [one for one in world.seen if one.role is Role.CONFIRM]
    assert {one.place for one in confirmed} == {"c14", "c15"}
    # A block holds both, so that a drift of the host can't be taken for the change.
    assert all(
        {one.place for one in confirmed if one.block == block} == {"c14", "c15"}
        for block in {one.block for one in confirmed}
    )


def test_a_large_effect_takes_no_more_launches_than_plain_bisection_and_its_checks() -> None:
    world = machine(9, 0.5, 0.005, seed=3)
    _, ended = hunted(axis(LABELS), world)
    assert ended is not None and ended.outcome is Outcome.FOUND
    searched = sum(one.role is Role.SEARCH for one in world.seen)
    assert searched <= math.ceil(math.log2(len(LABELS) - 1))


@pytest.mark.parametrize("shift", [0.3, -0.3])
def test_either_direction_is_found(shift: float) -> None:
    hunt, ended = hunted(axis(LABELS), machine(7, shift, 0.02, seed=5))
    assert ended is not None and ended.outcome is Outcome.FOUND
    assert hunt.suspects()[1].label == "c07"


@pytest.mark.parametrize(("sd", "outcome"), [(0.002, Outcome.ALIKE), (0.1, Outcome.UNTOLD)])
def test_alike_ends_are_given_up_after_a_number_of_launches(sd: float, outcome: Outcome) -> None:
    world = machine(99, 0.0, sd, seed=7)
    _, ended = hunted(axis(LABELS), world)
    assert ended is not None and ended.outcome is outcome
    assert {one.place for one in world.seen} == {"c00", "c23"}
    assert len(world.seen) <= 2 * TRENDS[0][0] + 2


def test_counted_values_that_agree_exactly_are_told_apart() -> None:
    hunt, ended = hunted(axis(LABELS), machine(11, 0.05, 0.0, seed=1))
    assert ended is not None and ended.outcome is Outcome.FOUND
    assert hunt.suspects()[1].label == "c11"


def test_of_three_counted_levels_the_largest_step_is_the_change() -> None:
    levels = {label: math.log(65.0) for label in LABELS}
    levels |= {label: math.log(52.0) for label in LABELS[11:13]}
    levels |= {label: math.log(50.0) for label in LABELS[13:]}
    hunt, ended = hunted(axis(LABELS), Machine(levels.__getitem__))
    assert ended is not None and ended.outcome is Outcome.FOUND
    assert hunt.suspects()[1].label == "c11"


def test_two_points_that_only_a_third_one_told_apart_are_confirmed_side_by_side() -> None:
    levels = dict.fromkeys(LABELS, 0.0)
    levels |= dict.fromkeys(LABELS[11:], 0.15)
    levels |= dict.fromkeys(LABELS[12:], 0.5)
    levels |= dict.fromkeys(LABELS[13:], 0.65)
    world = Machine(levels.__getitem__)
    hunt, ended = hunted(axis(LABELS), world)
    assert ended is not None and ended.outcome is Outcome.FOUND
    assert hunt.inner is not hunt
    assert [place.label for place in hunt.suspects()] == ["c11", "c12"]
    assert {one.place for one in world.seen if one.role is Role.CONFIRM} == {"c11", "c12"}


def test_what_was_confirmed_stands_when_the_campaign_went_on_from_there() -> None:
    hunt, _ = hunted(axis(LABELS), machine(11, 0.05, 0.02, seed=2))
    surer = replace(hunt, prior=Prior(between_sd=0.2, within_sd=0.2, between_weight=20, within_weight=20))
    assert isinstance(surer.next(), Wanted)
    over = replace(surer, over=True)
    ended = over.next()
    assert isinstance(ended, Ended) and ended.outcome is Outcome.FOUND
    assert over.suspects() == hunt.suspects()


def test_unbuildable_points_are_routed_around_and_widen_the_answer() -> None:
    gone = {LABELS[at]: "no wheel" for at in (9, 10, 11, 15)}
    hunt, ended = hunted(axis(LABELS), machine(11, 0.4, 0.02, seed=2, broken=gone))
    assert ended is not None and ended.outcome is Outcome.RANGE
    assert [place.label for place in hunt.suspects()] == ["c08", "c12"]
    assert "the 3 points between them can't be measured" in ended.reason


def test_a_point_that_was_measured_and_then_skipped_counts_no_more() -> None:
    world = machine(11, 0.4, 0.02, seed=2)
    hunt, _ = hunted(axis(LABELS), world)
    skipped = replace(hunt, skipped={"c11": "known to be odd", "c10": "the same"})
    assert {one.point for one in skipped.observations()} & {10, 11} == set()
    assert [place.label for place in skipped.suspects()] != ["c10", "c11"]
    assert skipped.next() is not None


def test_every_point_between_unbuildable_leaves_the_ends() -> None:
    gone = dict.fromkeys(LABELS[1:-1], "no wheel")
    hunt, ended = hunted(axis(LABELS), machine(11, 0.4, 0.02, seed=2, broken=gone))
    assert ended is not None and ended.outcome is Outcome.RANGE
    assert [place.label for place in hunt.suspects()] == ["c00", "c23"]


def test_an_end_that_cannot_be_built_ends_it_at_once() -> None:
    world = machine(11, 0.4, 0.02, seed=2, broken={"c00": "no wheel"})
    _, ended = hunted(axis(LABELS), world)
    assert ended is not None and ended.outcome is Outcome.UNUSABLE
    assert len({one.place for one in world.seen}) == 1


def test_a_change_that_does_not_show_on_fresh_launches_is_not_called_found() -> None:
    world = machine(11, 0.4, 0.02, seed=2)
    true = world.launch

    def vanishing(label: str) -> float:
        settled = {"c10", "c11"} <= {one.place for one in world.seen if one.role is Role.SEARCH}
        return 0.0 if settled else true(label)

    world.launch = vanishing
    _, ended = hunted(axis(LABELS), world)
    assert any(one.role is Role.CONFIRM for one in world.seen)
    assert ended is not None and ended.outcome is not Outcome.FOUND


def test_a_slow_mode_drawn_at_the_start_does_not_lead_into_the_wrong_half() -> None:
    """T11: 2.55 ms, or 4.12 ms with a chance of 0.6, drawn at each start; the change is a loss of 30 %."""
    wrong, named = 0, 0
    for seed in range(200):
        random_ = random.Random(seed)
        change_at = random_.randrange(1, len(LABELS))

        def launch(label: str, random_: random.Random = random_, at: int = change_at) -> float:
            slow = math.log(4.12 / 2.55) if random_.random() < 0.6 else 0.0
            return slow + (0.3 if LABELS.index(label) >= at else 0.0) + random_.gauss(0.0, 0.01)

        hunt, ended = hunted(axis(LABELS), Machine(launch))
        if ended is not None and ended.outcome is Outcome.FOUND:
            named += 1
            wrong += hunt.suspects()[1].label != LABELS[change_at]
    assert wrong <= 10  # 5 %
    assert named >= 150, named


def test_what_is_built_is_known_in_the_part_that_is_hunted_on() -> None:
    """Three levels: the part with the larger step is hunted on, and its points keep their prices."""
    values = {"c00": 0.0, "c08": 0.1, "c23": 0.5}
    world = machine(11, 0.4, 0.0, seed=1)
    for noise in (0.0, 0.001, -0.001):

        def launch(label: str, noise: float = noise) -> float:
            return values[label] + noise

        world.launch = launch
        for label in values:
            world.measure(Wanted((axis(LABELS)[LABELS.index(label)],), Role.ENDS, 1, ""))
    prices = replace(PRICES, built=frozenset({0, 8, 23}))
    hunt = AxisHunt(axis(LABELS), tuple(world.seen), {}, 0.95, 1, prices)
    assert [place.label for place in (hunt.inner.good, hunt.inner.bad)] == ["c08", "c23"]
    assert hunt.inner.prices.built == {0, 15}
