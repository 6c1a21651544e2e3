"""What follows a culprit that was found and proven: the rest of its axis, or of the differences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from benchharness.bisect.session import findings, remaining
from benchharness.bisect.session.deciding import Ended, Outcome
from benchharness.bisect.session.remaining import Stretch
from benchharness.bisect.session.state import Leg
from benchharness.bisect.session.swap_hunt import SwapHunt

if TYPE_CHECKING:
    from benchharness.bisect.session.legs import Legs
    from benchharness.bisect.session.standing import Standing


def following(standing: Standing, legs: Legs) -> Leg | None:
    """The leg that looks for one more culprit; None where the launches say that nothing is left."""
    for leg in _candidates(standing, legs):
        state = replace(standing.state, legs=(*standing.state.legs, leg))
        hunt = legs.hunt(state, standing.seen, standing.stored)
        if not (isinstance(hunt, SwapHunt) or isinstance(hunt.ends(), Ended)):
            return leg
    return None


def _candidates(standing: Standing, legs: Legs) -> Iterator[Leg]:
    found = findings.of(standing)
    if not found[0].told:
        return
    for stretch in remaining.stretches(standing):
        yield _part(standing, stretch)
    rounds = [one for one in found if one.factors is not None]
    if rounds and all(one.ended is not None and one.ended.outcome is Outcome.FOUND for one in rounds):
        further = legs.factoring.rest(standing, frozenset[int]().union(*(one.culprit for one in rounds)))
        if further is not None and all(leg.held != further.held for leg in standing.state.legs):
            yield further


def _part(standing: Standing, stretch: Stretch) -> Leg:
    """A stretch of an axis as a leg of its own."""
    leg, places = standing.state.legs[stretch.at], stretch.places
    note = f"what is left of {leg.axis} between {places[0].label} and {places[-1].label}"
    return replace(leg, places=places, notes=(note,), part=stretch.at, inside=None)
