"""The swap that proves a culprit: it into the good stack, and the bad stack without it (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from benchharness.bisect.session import deciding
from benchharness.bisect.session.deciding import Ended, Outcome, Wanted
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.levels import LEAST
from benchharness.bisect.session.observed import Observed
from benchharness.bisect.session.state import Leg, Place, Role

INTO_GOOD = "culprit into good"
INTO_BAD = "fix into bad"

FRESH = (Role.SWAP, Role.CONFIRM)
"""Blocks that count: a culprit that was confirmed in the bad stack need not be measured there again."""


@dataclass(frozen=True)
class SwapHunt:
    """What is known of the swaps, and what to do next.

    Attributes:
        leg: places in pairs: first without the culprit, then with it; the pair of the good stack comes first.
        observed: of these places, in order of time.
        confidence: of each direction.
        repeats: trials a launch begins with.
        least: difference of logs that is worth a culprit.
    """

    leg: Leg
    observed: tuple[Observed, ...]
    confidence: float
    repeats: int
    least: float = 0.0

    @property
    def pairs(self) -> tuple[tuple[str, Place, Place], ...]:
        """Name, without and with the culprit."""
        places = self.leg.places
        names = (INTO_GOOD, INTO_BAD)
        return tuple((names[i], places[2 * i], places[2 * i + 1]) for i in range(len(places) // 2))

    @property
    def told_by(self) -> tuple[str, Place, Place]:
        """The pair that tells the size: the last one, unless the fix does nothing there."""
        return self.pairs[0 if self.masked else -1]

    def difference(self, without: Place, with_: Place) -> Difference | None:
        """What the culprit makes of the stack; None before both were launched."""
        return deciding.pair(without, with_, self.observed, FRESH, 1 - self.confidence)

    @property
    def masked(self) -> bool:
        """It acts in the good stack, and the bad one is as slow without it: something else is enough, too."""
        if len(self.pairs) < 2:
            return False
        into_good, into_bad = (self.difference(*pair[1:]) for pair in self.pairs)
        if into_good is None or into_bad is None or not deciding.is_sure(into_good, self.confidence):
            return False
        if deciding.is_sure(into_bad, self.confidence):
            return False
        hopeless = deciding.is_hopeless(into_bad, into_bad.launches)
        given_up = hopeless and abs(into_bad.mean) < abs(into_good.mean) / 2
        worth = max(self.least, LEAST * abs(into_good.mean))
        return given_up or deciding.is_little(into_bad, into_bad.launches, worth)

    def _is_given_up(self, name: str, found: Difference) -> bool:
        """The culprit does nothing by itself, or nothing that would show soon."""
        nothing = name == INTO_GOOD and deciding.is_little(found, found.launches, self.least)
        return nothing or deciding.is_hopeless(found, found.launches)

    def next(self) -> Wanted | Ended:
        """What to measure, or how it ended."""
        unusable = deciding.unusable(self.observed, self.leg.places)
        missing = []
        for name, without, with_ in self.pairs:
            gone = [place for place in (without, with_) if place.label in unusable]
            if gone:
                missing.append(f"{name}: {gone[0].label} can't be measured ({unusable[gone[0].label]})")
                continue
            done = deciding.blocks_of(without, with_, self.observed, FRESH)
            found = self.difference(without, with_)
            if found is not None and deciding.is_sure(found, self.confidence):
                continue
            if name == INTO_BAD and self.masked:
                missing.append("it is enough by itself, but the bad stack is as slow without it")
                continue
            if done >= deciding.MOST_BLOCKS or (found is not None and self._is_given_up(name, found)):
                return Ended(Outcome.UNCONFIRMED, f"{name}: {done} blocks show no difference that is sure")
            return deciding.next_pair(without, with_, done, Role.SWAP, self.repeats, name)
        reason = "the swap shows it in both directions" if not missing else "; ".join(missing)
        return Ended(Outcome.FOUND, reason)
