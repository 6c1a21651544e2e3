"""The differences of two stacks: ends, then combinations until one set of factors is left (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchharness.bisect import factors
from benchharness.bisect.factors import Belief, Combination, Prior, Tried
from benchharness.bisect.session import deciding
from benchharness.bisect.session.deciding import Ended, Outcome, Wanted
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.observed import Observed
from benchharness.bisect.session.state import Leg, Place, Role


@dataclass(frozen=True)
class FactorHunt:
    """What is known of the factors, and what to do next.

    Attributes:
        leg: its places are the good stack, the bad one, and the combinations tried so far.
        observed: of these places, in order of time.
        skipped: label -> why somebody took it out.
        confidence: wanted.
        repeats: trials a launch begins with.
        prior: what is believed beforehand.
    """

    leg: Leg
    observed: tuple[Observed, ...]
    skipped: Mapping[str, str]
    confidence: float
    repeats: int
    prior: Prior | None = None

    @property
    def count(self) -> int:
        """How many factors there are."""
        return len(self.leg.factors)

    @property
    def good(self) -> Place:
        """The good stack."""
        return self.leg.places[0]

    @property
    def bad(self) -> Place:
        """The bad stack."""
        return self.leg.places[1]

    def place(self, combination: Combination) -> Place:
        """The place of a combination, known or new."""
        members = tuple(sorted(combination))
        for place in self.leg.places:
            if place.members == members:
                return place
        taken = [self.leg.factors[index] for index in members]
        left = [name for index, name in enumerate(self.leg.factors) if index not in combination]
        label = (
            " + ".join([self.good.label, *taken])
            if len(taken) <= len(left)
            else " - ".join([self.bad.label, *left])
        )
        return Place(label, label, members=members)

    @property
    def unusable(self) -> dict[str, str]:
        """Labels of combinations that can't be measured, with the reason."""
        return {**deciding.unusable(self.observed, self.leg.places), **self.skipped}

    def ends(self) -> Wanted | Ended | Difference:
        """Pre-flight and check of the ends (see `deciding.check_ends`)."""
        return deciding.check_ends(self.good, self.bad, self.observed, self.confidence, self.repeats)

    def tried(self, sign: float) -> list[Tried]:
        """The launches for the search, turned so that more is worse."""
        members = {place.stack: frozenset(place.members) for place in self.leg.places}
        return [
            Tried(members[one.stack], sign * one.value, one.block)
            for one in self.observed
            if one.value is not None and one.stack in members
        ]

    def belief(self, ends: Difference) -> Belief:
        """Which set acts, by all that was observed."""
        return factors.believe(self.count, self.tried(_sign(ends)), self.prior)

    def next(self) -> Wanted | Ended:
        """What to measure, or how it ended."""
        ends = self.ends()
        if not isinstance(ends, Difference):
            return ends
        if self.count == 1:
            return Ended(Outcome.FOUND, "the stacks differ in one thing only")
        belief = self.belief(ends)
        found = factors.next_combination(
            self.count,
            self.tried(_sign(ends)),
            belief,
            self.confidence,
            unbuildable=self._failed(),
        )
        if isinstance(found, factors.Stop):
            return _ended(found)
        reason = f"splits what is believed: {belief.confidence:.0%} on {self.name(belief.best)}"
        return Wanted((self.place(found),), Role.SEARCH, self.repeats, reason)

    def name(self, combination: Combination) -> str:
        """For people."""
        return " & ".join(self.leg.factors[index] for index in sorted(combination)) or "nothing"

    def _failed(self) -> list[Combination]:
        """Combinations that were found unbuildable: others that would fail like them are avoided too."""
        gone = self.unusable
        return [Combination(place.members) for place in self.leg.places if place.label in gone]


def _sign(ends: Difference) -> float:
    return 1.0 if ends.mean > 0 else -1.0


def _ended(stop: factors.Stop) -> Ended:
    if stop.reason == "confident":
        return Ended(Outcome.FOUND, "one set of differences is left")
    if stop.reason == "no change":
        return Ended(Outcome.ALIKE, "the two stacks are equally fast")
    return Ended(Outcome.RANGE, "no combination that can be built tells apart what is left")
