"""Campaigns with several culprits, on simulated launches: what is named, what is left, and what it takes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest
from hunting import Simulated, World, on_axis, on_factors
from scipy import special

from benchharness.bisect.session import findings, remaining
from benchharness.bisect.session.deciding import Ended, Outcome
from benchharness.bisect.session.share import Levels
from benchharness.records import Stack

VERSIONS = [f"v{number:02d}" for number in range(32)]
SD = 0.01


THREE = ((10, 0.04), (30, 0.03), (50, 0.03))


def steps(
    seed: int, *changes: tuple[int, float], sd: float = SD, labels: Sequence[str] = VERSIONS
) -> Callable[[Stack], float]:
    """Launches of versions, which change at some of them by so much (in logs)."""
    random_ = random.Random(seed)

    def launch(stack: Stack) -> float:
        at = labels.index(str(stack.packages["x"]))
        return sum(size for begin, size in changes if at >= begin) + random_.gauss(0, sd)

    return launch


def named(standing: Simulated) -> list[str | None]:
    return [one.name for one in findings.of(standing)]


def test_two_changes_are_named_one_after_the_other() -> None:
    standing, ended = on_axis(steps(1, (9, 0.06), (22, 0.04)), VERSIONS).run()
    assert isinstance(ended, Ended) and ended.outcome is Outcome.FOUND
    assert named(standing) == ["x v09", "x v22"]
    shares = [remaining.share(standing, one) for one in findings.of(standing)]
    assert [share.mean for share in shares if share] == [
        pytest.approx(0.6, abs=0.1),
        pytest.approx(0.4, abs=0.1),
    ]
    assert remaining.rest(standing, findings.of(standing)) is None


def test_without_every_the_rest_is_told_with_its_place() -> None:
    world = on_axis(steps(1, (9, 0.06), (22, 0.04)), VERSIONS)
    standing, _ = world.run(every=False)
    rest = remaining.rest(standing, findings.of(standing))
    assert rest is not None and rest.share.low > 0
    assert rest.share.mean == pytest.approx(0.4, abs=0.12)
    assert rest.where == "between v09 and v31"
    before = len(world.seen)
    standing, _ = world.run(every=True)
    assert named(standing) == ["x v09", "x v22"]
    # What was launched before counts: the second change takes no new ends, and no more than its share.
    assert len(world.seen) - before <= 22


def test_changes_up_and_down_again_are_all_named() -> None:
    standing, _ = on_axis(steps(3, (4, 0.1), (20, -0.1), (26, 0.06)), VERSIONS).run()
    assert sorted(str(name) for name in named(standing)) == ["x v04", "x v20", "x v26"]


def test_where_there_is_one_change_nothing_is_left_and_little_is_spent_on_showing_it() -> None:
    told, further, extra = 0, 0, []
    for seed in range(30):
        world = on_axis(steps(seed, (4 + seed % 24, 0.05)), VERSIONS)
        standing, ended = world.run(every=False)
        assert isinstance(ended, Ended) and ended.outcome is Outcome.FOUND
        told += remaining.rest(standing, findings.of(standing)) is not None
        before = len(world.seen)
        standing, _ = world.run(every=True)
        further += len(findings.of(standing)) > 1
        extra.append(len(world.seen) - before)
    assert told <= 3
    assert further <= 1
    assert sum(extra) / 30 <= 10


def test_three_changes_do_not_hold_up_the_search_for_one() -> None:
    """A point on a middle level is launched once more, instead of known ones over and over."""
    labels, launches = [f"v{number:02d}" for number in range(64)], []
    for seed in (2, 3, 5):
        world = on_axis(steps(seed, *((at + seed, size) for at, size in THREE), labels=labels), labels)
        standing, _ = world.run(every=False)
        assert named(standing)[0] in {f"x {labels[at + seed]}" for at, _ in THREE}
        launches.append(len(world.seen))
    assert sum(launches) / 3 <= 90, launches


def test_what_is_less_than_a_fifth_is_no_further_culprit() -> None:
    for seed in range(5):
        standing, _ = on_axis(steps(seed, (9, 0.095), (22, 0.005), sd=0.002), VERSIONS).run()
        assert named(standing) == ["x v09"]
        assert remaining.rest(standing, findings.of(standing)) is None


def test_a_budget_that_ends_keeps_what_was_found() -> None:
    world = on_axis(steps(1, (9, 0.06), (22, 0.04)), VERSIONS)
    world.run(every=False)
    standing, ended = world.run(every=True, most=len(world.seen) + 1)
    assert isinstance(ended, Ended) and ended.outcome is Outcome.BUDGET
    assert named(standing) == ["x v09"]
    assert remaining.rest(standing, findings.of(standing)) is not None


# --- two stacks

NAMES = "ABCDEFGH"
GOOD = dict.fromkeys(NAMES, "0")
BAD = dict.fromkeys(NAMES, "9")


def factors(seed: int, effect: Callable[[dict[str, int]], float], sd: float = SD, **more: object) -> World:
    random_ = random.Random(seed)

    def launch(stack: Stack) -> float:
        return effect({name: int(value) for name, value in stack.env.items()}) + random_.gauss(0, sd)

    return on_factors(launch, GOOD, BAD, **more)  # type: ignore[arg-type]


def added(env: dict[str, int]) -> float:
    return 0.06 * (env["A"] == 9) + 0.04 * (env["B"] == 9)


def either(env: dict[str, int]) -> float:
    return 0.1 * (env["A"] == 9 or env["B"] == 9)


def together(env: dict[str, int]) -> float:
    return 0.1 * (env["A"] == 9 and env["B"] == 9)


@pytest.mark.parametrize("effect", [added, either])
def test_two_factors_that_act_by_themselves_are_both_named(effect: Callable[[dict[str, int]], float]) -> None:
    right = 0
    for seed in range(6):
        standing, _ = factors(seed, effect).run()
        found = findings.of(standing)
        right += sorted(str(name) for name in named(standing)) == ["env.A", "env.B"]
        if effect is either:
            assert [one.swap.masked for one in found if one.swap] == [True, False]
    assert right >= 5


def test_two_that_act_together_are_one_culprit() -> None:
    standing, _ = factors(1, together).run()
    assert named(standing) == ["env.A & env.B"]
    assert remaining.rest(standing, findings.of(standing)) is None


def test_without_every_the_other_factor_is_told_as_likely() -> None:
    standing, _ = factors(2, added).run(every=False)
    (found,) = findings.of(standing)
    share, rest = remaining.share(standing, found), remaining.rest(standing, [found])
    assert found.name in ("env.A", "env.B") and share is not None and rest is not None
    assert share.mean + rest.share.mean == pytest.approx(1, abs=0.15)
    assert ("env.B" if found.name == "env.A" else "env.A") in rest.where


def test_both_factors_are_bisected_even_where_one_hides_the_other() -> None:
    """Either is enough: the bad stack shows nothing of the first one's versions, the good stack does."""
    values = {f"env.{name}": [str(at) for at in range(10)] for name in "AB"}

    def slow(env: dict[str, int]) -> float:
        return 0.1 * (env["A"] >= 3 or env["B"] >= 7)

    standing, _ = factors(4, slow, values=values).run()
    assert sorted(str(name) for name in named(standing)) == ["env.A 3", "env.B 7"]
    labels = [place.label for leg in standing.state.legs if leg.kind == "swap" for place in leg.places]
    assert not any("last good" in label or "first bad" in label for label in labels)
    assert any(label.endswith(("+ env.A 3", "+ env.B 7")) for label in labels), labels


def test_two_changes_on_the_axis_of_one_factor_are_both_named() -> None:
    values = {"env.A": [str(at) for at in range(10)]}

    def slow(env: dict[str, int]) -> float:
        return 0.06 * (env["A"] >= 3) + 0.04 * (env["A"] >= 7)

    standing, _ = factors(4, slow, values=values).run()
    assert named(standing) == ["env.A 3", "env.A 7"]


def test_a_culprit_that_the_swap_refutes_is_searched_anew() -> None:
    """Exact launches, of which few tell much by what is usual: either of two is rare beforehand."""
    refuted, right = 0, 0
    for seed in range(8):
        standing, _ = factors(seed, either, sd=0.0005).run()
        refuted += any("was refuted" in note for leg in standing.state.legs for note in leg.notes)
        right += sorted(str(name) for name in named(standing)) == ["env.A", "env.B"]
    assert refuted >= 1
    assert right == 8


def test_a_small_one_that_the_swap_refutes_ends_the_campaign() -> None:
    for seed in range(8):
        standing, ended = factors(seed, lambda env: 0.08 * (env["A"] == 9) + 0.02 * (env["B"] == 9)).run()
        assert isinstance(ended, Ended) and ended.outcome is Outcome.FOUND
        assert named(standing)[0] == "env.A"
        assert len(standing.state.legs) <= 8


def test_what_a_leg_came_to_does_not_change_with_later_launches() -> None:
    standing, _ = on_axis(steps(1, (9, 0.06), (22, 0.04)), VERSIONS).run()
    first = standing.hunts[0]
    assert {one.leg for one in first.observed} == {0}
    assert {one.leg for one in standing.hunts[1].observed} == {0, 1}


# --- shares


def test_a_share_has_the_interval_of_fieller() -> None:
    """At its ends the contrast that is zero at the true ratio is as many errors off as Student's t allows."""
    means = {"g": 0.0, "p": 0.01, "c": 0.06, "b": 0.1}
    known = Levels(means, {"g": 6, "p": 4, "c": 4, "b": 5}, 1e-4, 30)
    found = known.share([("p", "c"), ("g", "p")], ("g", "b"), 0.95)
    assert found is not None
    for ratio in (found.low, found.high):
        contrast = {"g": -1 + ratio, "c": 1.0, "b": -ratio}
        mean = sum(weight * known.mean[stack] for stack, weight in contrast.items())
        squares = sum(weight**2 / known.count[stack] for stack, weight in contrast.items())
        errors = abs(mean) / math.sqrt(known.variance * squares)
        assert errors == pytest.approx(special.stdtrit(30, 0.975))
    assert found.mean == pytest.approx(0.6)
    assert (found.rest.low, found.rest.high) == (1 - found.high, 1 - found.low)


def test_a_share_of_one_launch_each_is_not_told() -> None:
    nothing = Levels({"a": 0.0, "b": 0.1}, {"a": 1, "b": 1}, math.inf, 0)
    assert nothing.share([("a", "b")], ("a", "b"), 0.95) is None
