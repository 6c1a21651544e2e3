"""What the culprits that were found leave of the difference of the ends, and where it lies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchharness.bisect.session import levels
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.findings import TOLD, Finding
from benchharness.bisect.session.share import Levels, Share
from benchharness.bisect.session.state import Leg, Place

if TYPE_CHECKING:
    from benchharness.bisect.session.standing import Standing

SUSPECTED = 0.2
"""Chance from which on a factor is named as where the rest may lie."""

MOST_NAMED = 3

LOOKS = 5
"""Times surer that something is left must be than the campaign, where it was looked at again and again."""


@dataclass(frozen=True)
class Stretch:
    """A part of an axis between, before or after its culprits.

    Attributes:
        at: index of the axis's leg.
        places: of the stretch.
        apart: difference of its ends in logs; infinite where one was not launched.
    """

    at: int
    places: tuple[Place, ...]
    apart: float


@dataclass(frozen=True)
class Rest:
    """What no culprit explains.

    Attributes:
        share: of the difference of the ends.
        where: in a few words.
    """

    share: Share
    where: str


def least(standing: Standing) -> float | None:
    """Difference of logs that is worth a word; None where the ends do not differ."""
    ends = standing.first.ends()
    return levels.LEAST * abs(ends.mean) if isinstance(ends, Difference) else None


def stretches(standing: Standing) -> list[Stretch]:
    """What is left of all axes on which a culprit was found, and was not searched yet; the widest first."""
    legs = standing.state.legs
    found = [stretch for at, leg in enumerate(legs) if leg.part is None for stretch in _of_axis(standing, at)]
    return sorted(found, key=lambda one: -one.apart)


def culprits_of(standing: Standing, at: int) -> list[tuple[int, int]]:
    """Last good and first bad of each culprit that was found on the axis of a leg, by position."""
    return [pair for index, pair in _searched(standing, at) if _is_told(standing, index)]


def _of_axis(standing: Standing, at: int) -> Iterator[Stretch]:
    hunt, worth = standing.hunts[at], least(standing)
    if not isinstance(hunt, AxisHunt) or worth is None or not _is_told(standing, at):
        return
    values = values_of(standing, hunt)
    barren = [
        _range(hunt, standing.state.legs[index])
        for index, _ in _searched(standing, at)
        if not _is_told(standing, index)
    ]
    for begin, end in levels.stretches(len(hunt.places) - 1, culprits_of(standing, at)):
        if end <= begin:
            continue
        low, high = (begin + one for one in levels.between_ends(values[begin : end + 1], worth))
        if any(first <= low and high <= last for first, last in barren):
            continue
        sides = values[low], values[high]
        known = all(one.size for one in sides)
        apart = abs(float(sides[1].mean() - sides[0].mean())) if known else float("inf")
        yield Stretch(at, hunt.places[low : high + 1], apart)


def _searched(standing: Standing, at: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """Each leg that searched an axis or a stretch of it, with its suspects' positions on that axis."""
    whole = standing.hunts[at]
    position = {place.stack: index for index, place in enumerate(getattr(whole, "places", ()))}
    for index, leg in enumerate(standing.state.legs):
        hunt = standing.hunts[index]
        if isinstance(hunt, AxisHunt) and (index == at or leg.part == at):
            good, bad = hunt.suspects()
            yield index, (position[good.stack], position[bad.stack])


def _range(hunt: AxisHunt, leg: Leg) -> tuple[int, int]:
    stacks = [place.stack for place in hunt.places]
    return stacks.index(leg.places[0].stack), stacks.index(leg.places[-1].stack)


def _is_told(standing: Standing, at: int) -> bool:
    ended, hunt = standing.ended(at), standing.hunts[at]
    differ = isinstance(hunt, AxisHunt) and isinstance(hunt.ends(), Difference)
    return differ and ended is not None and ended.outcome in TOLD


def values_of(standing: Standing, hunt: AxisHunt) -> list[NDArray[np.float64]]:
    """All launches of each point of an axis, those of later legs too."""
    by_stack: dict[str, list[float]] = {place.stack: [] for place in hunt.places}
    for one in standing.seen:
        if one.value is not None and one.stack in by_stack:
            by_stack[one.stack].append(one.value)
    return [np.array(by_stack[place.stack], dtype=float) for place in hunt.places]


def share(standing: Standing, found: Finding) -> Share | None:
    """What a culprit makes by itself of the difference of the ends; None where that can't be told."""
    return _shares(standing, [found], standing.state.question.confidence)


def rest(standing: Standing, found: Sequence[Finding]) -> Rest | None:
    """What no culprit explains, where that is surely something; None where it is nothing, or not known.

    Where every culprit was looked for, and launches were made just to see whether anything is left, that must
    be surer than the campaign is to be.
    """
    if not (found and found[0].told):
        return None
    question = standing.state.question
    final = question.every and standing.ended(len(standing.hunts) - 1) is not None
    level = (1 - question.confidence) / (LOOKS if final else 1)
    surely, shown = (_left(standing, found, confidence) for confidence in (1 - level, question.confidence))
    if surely is None or shown is None or not surely.told:
        return None
    return Rest(shown, _where(standing, found))


def _left(standing: Standing, found: Sequence[Finding], confidence: float) -> Share | None:
    if found[0].factors is not None:
        return _without(standing, found, confidence)
    whole = _shares(standing, found, confidence)
    return None if whole is None else whole.rest


def _shares(standing: Standing, found: Sequence[Finding], confidence: float) -> Share | None:
    steps = []
    for one in found:
        pair = one.pair(standing)[:2]
        if one.swap is not None and one.swap.pairs:
            pair = one.swap.pairs[0][1:]
        if pair[0] != pair[1]:
            steps.append((pair[0].stack, pair[1].stack))
    first = standing.first
    return Levels.of(standing.seen).share(steps, (first.good.stack, first.bad.stack), confidence)


def _without(standing: Standing, found: Sequence[Finding], confidence: float) -> Share | None:
    """What is left between the good stack and the bad one without the culprits."""
    hunt = found[0].factors
    if hunt is None:
        return None
    whole = frozenset[int]().union(*(one.culprit for one in found))
    places = [hunt.place(hunt.everything - whole)]
    swaps = [one.swap for one in found if one.swap is not None and len(one.swap.pairs) > 1]
    places += [swaps[-1].pairs[1][1]] if swaps else []
    known = Levels.of(standing.seen)
    for place in places:
        ends = (hunt.good.stack, hunt.bad.stack)
        left = known.share([(hunt.good.stack, place.stack)], ends, confidence)
        if left is not None:
            return left
    return None


def _where(standing: Standing, found: Sequence[Finding]) -> str:
    """The stretch that is widest, or the factors that are likeliest."""
    worth = least(standing) or 0.0
    wide = [one for one in stretches(standing) if one.apart >= worth]
    if wide:
        places = wide[0].places
        return f"between {places[0].label} and {places[-1].label}"
    last = [one.factors for one in found if one.factors is not None]
    if not last:
        return "between the other points"
    hunt = last[-1]
    ends = hunt.ends()
    chances = hunt.others(ends) if isinstance(ends, Difference) else {}
    likely = sorted((one for one in chances if chances[one] >= SUSPECTED), key=lambda one: -chances[one])
    if likely:
        named = ", ".join(f"{hunt.name(one)} ({chances[one]:.0%})" for one in likely[:MOST_NAMED])
        return f"in other differences of the two stacks, likeliest in {named}"
    culprits = frozenset[int]().union(*(one.culprit for one in found))
    names = ", ".join(hunt.leg.factors[at] for at in hunt.active if at not in culprits)
    return f"in other differences of the two stacks: {names}" if names else "in nothing that can be switched"
