"""One axis: ends, search, confirmation. Everything is worked out anew from what was observed (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchharness.bisect import search
from benchharness.bisect.search import Axis, Belief, Observation, Prices, Prior
from benchharness.bisect.session import deciding, levels
from benchharness.bisect.session.deciding import Ended, Outcome, Wanted
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.observed import Observed
from benchharness.bisect.session.state import Place, Role

EXACT = 1e-9
"""Spread of logs up to which counts of one point agree."""

LIKELY_MODES = 0.5
"""How likely starts come in modes, where those of the ends did."""


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
        running: index of the launch that runs still, which could stay for more; None where none does.
        least: where another hunt showed the whole difference already: what of it (in logs) is worth a word.
        over: the campaign went on from here, so what was confirmed stands, whatever is known by now.
    """

    places: tuple[Place, ...]
    observed: tuple[Observed, ...]
    skipped: Mapping[str, str]
    confidence: float
    repeats: int
    prices: Prices
    prior: Prior | None = None
    running: int | None = None
    least: float | None = None
    over: bool = False

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
        gone = self.axis().unusable
        index = {place.stack: at for at, place in enumerate(self.places) if at not in gone}
        return [
            Observation(index[one.stack], one.value, one.repeats, one.scatter, one.block)
            for one in self.observed
            if one.value is not None and one.stack in index
        ]

    @cached_property
    def values(self) -> list[NDArray[np.float64]]:
        """Launches of each point."""
        by_stack: dict[str, list[float]] = {place.stack: [] for place in self.places}
        for one in self.observed:
            if one.value is not None:
                by_stack[one.stack].append(one.value)
        return [np.array(by_stack[place.stack], dtype=float) for place in self.places]

    @cached_property
    def inner(self) -> AxisHunt:
        """This hunt; where a point is like neither end, that between it and the end farther from it."""
        if not isinstance(self.ends(), Difference) or self.ends_are_bimodal:
            return self
        low, high = levels.between_ends(self.values, self.least)
        if (low, high) == (0, len(self.places) - 1):
            return self
        places = self.places[low : high + 1]
        stacks = {place.stack for place in places}
        observed = tuple(one for one in self.observed if one.stack in stacks)
        built = frozenset(at - low for at in self.prices.built if low <= at <= high)
        return replace(self, places=places, observed=observed, prices=replace(self.prices, built=built))

    @property
    def ends_are_bimodal(self) -> bool:
        """Launches of the ends draw a slow mode: a point may then be like neither end by chance."""
        ends = self.ends()
        return isinstance(ends, Difference) and ends.bimodal

    def probability(self) -> NDArray[np.float64]:
        """Of each step of the axis, `len(places) - 1` of them, to be the change."""
        found = np.zeros(len(self.places) - 1)
        inner = self.inner
        first = self.places.index(inner.good)
        if len(inner.places) == 2:
            found[first] = 1.0
        else:
            found[first : first + len(inner.places) - 1] = inner.belief().probability
        return found

    def belief(self) -> Belief:
        """Where the change lies between the ends, as if there were one only."""
        return self._belief

    @cached_property
    def _belief(self) -> Belief:
        return search.believe(self.axis(), self.observations(), self._known())

    def _known(self) -> Prior:
        """What is known beforehand, and by the ends: which way it goes, and whether starts have modes."""
        known = self.prior or Prior()
        ends = self.ends()
        if not isinstance(ends, Difference):
            return known
        modes = LIKELY_MODES if ends.bimodal else known.modes
        if self._counted():  # exact counts fit modes as well as they fit anything
            modes = 0.0
        return replace(known, direction=1 if ends.mean > 0 else -1, modes=modes)

    def _counted(self) -> bool:
        """Launches of one point agree exactly: what is judged is counted, and not timed."""
        return all(np.ptp(one) <= EXACT for one in self.values if one.size)

    def stop(self) -> search.Stop | None:
        """Why the search is over; None while it goes on."""
        move = self._move
        return move if isinstance(move, search.Stop) else None

    @cached_property
    def _move(self) -> search.Move | search.Stop:
        return search.next_move(
            self.axis(),
            self.observations(),
            self.belief(),
            self.prices,
            self.confidence,
            running=self._running(),
        )

    def _running(self) -> int | None:
        """The launch that runs, among the observations; an end is not stayed at."""
        told = [one for one in self.observed if one.value is not None]
        last = len(told) - 1
        stays = last >= 0 and self.running is not None and told[last].launch == self.running
        return last if stays and told[last].role == Role.SEARCH else None

    def suspects(self) -> tuple[Place, Place]:
        """The last good and the first bad point as far as that is known; those between can't be measured."""
        if len(self.places) == 2 or not isinstance(self.ends(), Difference):
            return self.good, self.bad
        if self._settled is not None:
            return self._settled
        if self.inner is not self:
            return self.inner.suspects()
        stop = self.stop()
        low, high = (stop.good, stop.bad) if stop else self.belief().range_(self.confidence)
        return self.places[low], self.places[high]

    @cached_property
    def _settled(self) -> tuple[Place, Place] | None:
        """Of a hunt that is over the pair that was confirmed last."""
        fresh = [one for one in self.observed if one.role == Role.CONFIRM]
        stacks = {one.stack for one in fresh if one.block == max(other.block for other in fresh)}
        pair = [place for place in self.places if place.stack in stacks]
        return (pair[0], pair[1]) if self.over and len(pair) == 2 else None

    def ends(self) -> Wanted | Ended | Difference:
        """Pre-flight and check of the ends (see `deciding.check_ends`)."""
        return self._ends

    @cached_property
    def _ends(self) -> Wanted | Ended | Difference:
        known = (self.good, self.bad, self.observed, self.confidence, self._worth)
        return deciding.check_ends(*known) if self.least is None else deciding.check_rest(*known, self.least)

    def next(self) -> Wanted | Ended:
        """What to measure, or how it ended."""
        ends = self.ends()
        if not isinstance(ends, Difference):
            return ends
        if self._settled is not None:
            return self._confirm(*self._settled)
        inner = self.inner
        if len(inner.places) == 2 and (inner is not self or self.least is not None):
            return inner.confirmed_ends()  # its ends stand in no block together
        if inner is not self:
            return inner.next()
        if len(self.places) == 2:
            return Ended(Outcome.FOUND, "the ends stand next to each other")
        move = self._move
        if isinstance(move, search.Stop):
            if move.reason is search.Reason.CANNOT_TELL:
                return Ended(Outcome.BUDGET, "the launches that were allowed don't tell the points apart")
            return self._confirm(self.places[move.good], self.places[move.bad])
        odd = self._doubtful(move)
        if odd is not None:
            reason = f"{odd.label} seems to be like neither end: once more"
            return Wanted((odd,), Role.SEARCH, self.repeats, reason)
        at = self.places[move.point]
        beside = () if move.beside is None else (self.places[move.beside],)
        reason = move.reason.replace(f"point {move.point}", at.label)
        return Wanted((at, *beside), Role.SEARCH, move.repeats, reason, move.stay)

    def _doubtful(self, move: search.Move) -> Place | None:
        """A point that tells of a further change, where the search goes back to one that is known well."""
        if move.stay or self.ends_are_bimodal or self.values[move.point].size < levels.KNOWN_WELL:
            return None
        at = levels.doubtful(self.values)
        return None if at is None or self.places[at].label in self.unusable else self.places[at]

    @property
    def _worth(self) -> int:
        """Trials that a launch at an end is worth by its price, once that is known."""
        return max(self.repeats, search.first_repeats(self.prices)) if self.observed else self.repeats

    def confirmed_ends(self) -> Wanted | Ended:
        """Of two points that were measured for other reasons: whether they differ side by side, too."""
        ends = self.ends()
        return self._confirm(self.good, self.bad) if isinstance(ends, Difference) else ends

    def _confirm(self, parent: Place, culprit: Place) -> Wanted | Ended:
        """Parent against culprit on fresh launches, whatever is believed."""
        done = deciding.blocks_of(parent, culprit, self.observed, (Role.CONFIRM,))
        found = deciding.pair(parent, culprit, self.observed, (Role.CONFIRM,), 1 - self.confidence)
        if found is not None and deciding.is_sure(found, self.confidence):
            return self._confirmed(parent, culprit)
        hopeless = found is not None and deciding.is_hopeless(found, found.launches)
        if done >= deciding.MOST_BLOCKS or hopeless:
            return Ended(Outcome.UNCONFIRMED, f"{done} fresh blocks did not confirm that they differ")
        reason = "parent against culprit on fresh launches"
        return deciding.next_pair(parent, culprit, done, Role.CONFIRM, self._worth, reason)

    def _confirmed(self, parent: Place, culprit: Place) -> Ended:
        between = self.places.index(culprit) - self.places.index(parent) - 1
        if between == 0:
            return Ended(Outcome.FOUND, "confirmed on fresh launches")
        points = "the point" if between == 1 else f"the {between} points"
        return Ended(Outcome.RANGE, f"{points} between them can't be measured")
