"""What a culprit was not, and why."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.factor_hunt import FactorHunt
from benchharness.bisect.session.state import Place
from benchharness.bisect.session.verdict import Eliminated

LEAST = 0.001
"""Nothing is said to be less likely: there is always something that no model holds."""

ELIMINATED = 0.05
"""Probability below which a factor counts as eliminated."""


def other_factors(hunt: FactorHunt, culprits: Collection[int]) -> list[Eliminated]:
    """The differences that do not belong to any of the culprits."""
    ends = hunt.ends()
    if not isinstance(ends, Difference) or hunt.count < 2:
        return []
    chances = zip(hunt.active, hunt.names, hunt.marginal(ends), strict=True)
    return [
        Eliminated(name, f"belongs to the culprit with a chance of {_chance(chance)}")
        for at, name, chance in chances
        if at not in culprits and chance < ELIMINATED
    ]


def other_points(hunt: AxisHunt) -> list[Eliminated]:
    """The points before and after the suspects, each side in one line."""
    if len(hunt.places) < 3:
        return []
    chances = hunt.probability()
    good, bad = hunt.suspects()
    places = list(hunt.places)
    low, high = places.index(good), places.index(bad)
    found = []
    if low > 0:
        chance = float(chances[:low].sum())
        what = f"a point up to {good.label}"
        found.append(Eliminated(what, _side(hunt, places[: low + 1], "good", chance)))
    if high < len(places) - 1:
        chance = float(chances[high:].sum())
        what = f"a point after {bad.label}, up to {places[-1].label}"
        found.append(Eliminated(what, _side(hunt, places[high:], "bad", chance)))
    return found


def _side(hunt: AxisHunt, places: Sequence[Place], name: str, chance: float) -> str:
    stacks = {place.stack for place in places}
    launches = sum(one.stack in stacks and one.value is not None for one in hunt.observed)
    return f"{launches} launches there are {name}: the change lies there with a chance of {_chance(chance)}"


def _chance(value: float) -> str:
    return f"{value:.1%}" if value >= LEAST else f"less than {LEAST:.1%}"
