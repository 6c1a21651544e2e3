"""One axis: ends, search, confirmation. Everything is worked out anew from what was observed (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchharness.bisect import search
from benchharness.bisect.search import Axis, Belief, Observation, Prices, Prior
from benchharness.bisect.session import deciding
from benchharness.bisect.session.deciding import Ended, Outcome, Wanted
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.observed import Observed
from benchharness.bisect.session.state import Place, Role


@dataclass(frozen=True)
class AxisHunt:
    """What is known of an axis, and what to do next.

    Attributes:
        places: the points, the good end first.
        observed: of these places, in order of time.
        skipped: label -> why somebody took it out.
        confidence: wanted.
        repeats: trials a launch begins with.
        prices: what launches cost.
        prior: what earlier campaigns told.
    """

    places: tuple[Place, ...]
    observed: tuple[Observed, ...]
    skipped: Mapping[str, str]
    confidence: float
    repeats: int
    prices: Prices
    prior: Prior | None = None

    @property
    def good(self) -> Place:
        """The good end."""
        return self.places[0]

    @property
    def bad(self) -> Place:
        """The bad end."""
        return self.places[-1]

    @property
    def unusable(self) -> dict[str, str]:
        """Labels of the points that can't be measured, with the reason."""
        return {**deciding.unusable(self.observed, self.places), **self.skipped}

    def axis(self) -> Axis:
        """The axis for the search."""
        gone = self.unusable
        return Axis(
            len(self.places),
            frozenset(index for index, place in enumerate(self.places) if place.label in gone),
        )

    def observations(self) -> list[Observation]:
        """The launches for the search."""
        index = {place.stack: position for position, place in enumerate(self.places)}
        return [
            Observation(index[one.stack], one.value, one.repeats, one.scatter, one.block)
            for one in self.observed
            if one.value is not None and one.stack in index
        ]

    def belief(self) -> Belief:
        """Where the change lies, by all that was observed."""
        return search.believe(self.axis(), self.observations(), self.prior)

    def stop(self) -> search.Stop | None:
        """Why the search is over; None while it goes on."""
        move = self._move()
        return move if isinstance(move, search.Stop) else None

    def _move(self) -> search.Move | search.Stop:
        return search.next_move(self.axis(), self.observations(), self.belief(), self.prices, self.confidence)

    def suspects(self) -> tuple[Place, Place]:
        """The last good and the first bad point as far as that is known; those between can't be measured."""
        if len(self.places) == 2 or not isinstance(self.ends(), Difference):
            return self.good, self.bad
        stop = self.stop()
        low, high = (stop.good, stop.bad) if stop else self.belief().range_(self.confidence)
        return self.places[low], self.places[high]

    def ends(self) -> Wanted | Ended | Difference:
        """Pre-flight and check of the ends (see `deciding.check_ends`)."""
        return deciding.check_ends(self.good, self.bad, self.observed, self.confidence, self.repeats)

    def next(self) -> Wanted | Ended:
        """What to measure, or how it ended."""
        ends = self.ends()
        if not isinstance(ends, Difference):
            return ends
        if len(self.places) == 2:
            return Ended(Outcome.FOUND, "the ends stand next to each other")
        move = self._move()
        if isinstance(move, search.Stop):
            return self._confirm(move)
        at = self.places[move.point]
        beside = () if move.beside is None else (self.places[move.beside],)
        reason = move.reason.replace(f"point {move.point}", at.label)
        return Wanted((at, *beside), Role.SEARCH, move.repeats, reason, move.stay)

    def _confirm(self, stop: search.Stop) -> Wanted | Ended:
        """Parent against culprit on fresh launches, whatever is believed."""
        parent, culprit = self.places[stop.good], self.places[stop.bad]
        if stop.reason is search.Reason.CANNOT_TELL:
            return Ended(Outcome.BUDGET, "the launches that were allowed don't tell the points apart")
        done = deciding.blocks_of(parent, culprit, self.observed, (Role.CONFIRM,))
        found = deciding.pair(parent, culprit, self.observed, (Role.CONFIRM,), 1 - self.confidence)
        if found is not None and found.decided(1 - self.confidence):
            return self._confirmed(parent, culprit)
        if done >= deciding.MOST_PAIRS:
            return Ended(Outcome.UNCONFIRMED, f"{done} fresh blocks did not confirm that they differ")
        reason = "parent against culprit on fresh launches"
        return deciding.next_pair(parent, culprit, done, Role.CONFIRM, self.repeats, reason)

    def _confirmed(self, parent: Place, culprit: Place) -> Ended:
        between = self.places.index(culprit) - self.places.index(parent) - 1
        if between == 0:
            return Ended(Outcome.FOUND, "confirmed on fresh launches")
        return Ended(Outcome.RANGE, f"the {between} points between them can't be measured")
