"""The differences of two stacks: ends, then combinations until one set of factors is left (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

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
        least: where culprits are known and held: difference of logs that is worth a word.
        bad_name: of the bad stack with all its differences, where some are held; empty for `bad`'s own.
    """

    leg: Leg
    observed: tuple[Observed, ...]
    skipped: Mapping[str, str]
    confidence: float
    repeats: int
    prior: Prior | None = None
    least: float | None = None
    bad_name: str = ""

    @cached_property
    def active(self) -> tuple[int, ...]:
        """Positions of the factors that are searched: all but those that are held."""
        return tuple(at for at in range(len(self.leg.factors)) if at not in self.leg.held)

    @property
    def count(self) -> int:
        """How many factors are searched."""
        return len(self.active)

    @property
    def everything(self) -> Combination:
        """The factors that are searched; all positions are the leg's."""
        return Combination(self.active)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the factors that are searched, in order."""
        return tuple(self.leg.factors[at] for at in self.active)

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
            else " - ".join([self.bad_name or self.bad.label, *left])
        )
        return Place(label, label, members=members)

    @property
    def unusable(self) -> dict[str, str]:
        """Labels of combinations that can't be measured, with the reason."""
        return {**deciding.unusable(self.observed, self.leg.places), **self.skipped}

    def ends(self) -> Wanted | Ended | Difference:
        """Pre-flight and check of the ends (see `deciding.check_ends`)."""
        known = (self.good, self.bad, self.observed, self.confidence, self.repeats)
        return deciding.check_ends(*known) if self.least is None else deciding.check_rest(*known, self.least)

    def tried(self, sign: float) -> list[Tried]:
        """The launches for the search, turned so that more is worse."""
        members = {place.stack: self._searched(place) for place in self.leg.places}
        return [
            Tried(members[one.stack], sign * one.value, one.block)
            for one in self.observed
            if one.value is not None and one.stack in members
        ]

    def belief(self, ends: Difference) -> Belief:
        """What is to blame, by all that was observed; factors are numbered as in `active`."""
        return factors.believe(self.count, self.tried(_sign(ends)), self.prior)

    def culprit(self, ends: Difference) -> Combination:
        """The set that can be named best."""
        if self.count == 1:
            return self.everything
        return Combination(self.active[at] for at in self.belief(ends).best)

    def confident(self, ends: Difference) -> float:
        """How likely that set is a culprit."""
        return self.belief(ends).confidence if self.count > 1 else 1 - ends.p

    def marginal(self, ends: Difference) -> tuple[float, ...]:
        """Of each of `names`, the chance that it belongs to a culprit."""
        return self.belief(ends).marginal if self.count > 1 else (1 - ends.p,)

    def others(self, ends: Difference) -> dict[Combination, float]:
        """Sets that don't touch the culprit, with the chance that each acts as a whole as well."""
        if self.count == 1:
            return {}
        belief = self.belief(ends)
        return {
            Combination(self.active[at] for at in one): chance
            for one, chance in belief.parts.items()
            if not one & belief.best
        }

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
        reason = f"splits what is believed: {belief.confidence:.0%} on {self.name(self.culprit(ends))}"
        place = self.place(Combination(self.active[at] for at in found))
        return Wanted((place,), Role.SEARCH, self.repeats, reason)

    def name(self, combination: Combination) -> str:
        """For people."""
        return " & ".join(self.leg.factors[index] for index in sorted(combination)) or "nothing"

    def _failed(self) -> list[Combination]:
        """Combinations that were found unbuildable: others that would fail like them are avoided too."""
        gone = self.unusable
        return [self._searched(place) for place in self.leg.places if place.label in gone]

    def _searched(self, place: Place) -> Combination:
        """What a place takes of the factors that are searched, numbered as in `active`."""
        return Combination(self.active.index(at) for at in place.members)


def _sign(ends: Difference) -> float:
    return 1.0 if ends.mean > 0 else -1.0


def _ended(stop: factors.Stop) -> Ended:
    if stop.reason == "confident":
        return Ended(Outcome.FOUND, "one set of differences is left")
    if stop.reason == "no change":
        return Ended(Outcome.ALIKE, "the two stacks are equally fast")
    return Ended(Outcome.RANGE, "no combination that can be built tells apart what is left")
