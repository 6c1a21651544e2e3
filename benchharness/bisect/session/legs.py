"""The legs of a campaign: stacks of their places, hunts over them, and what follows when one is over."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchharness.bisect import factors, order
from benchharness.bisect.search import Prior
from benchharness.bisect.session import axes, costs, every
from benchharness.bisect.session.axes import Choice
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.deciding import Ended, Outcome
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.factor_hunt import FactorHunt
from benchharness.bisect.session.factoring import Factoring
from benchharness.bisect.session.levels import LEAST
from benchharness.bisect.session.observed import Observed
from benchharness.bisect.session.question import COMMIT, FACTORS
from benchharness.bisect.session.state import Leg, Place, State
from benchharness.bisect.session.swap_hunt import SwapHunt
from benchharness.records import Stack
from benchharness.stack import engines
from benchharness.store import StoredRun

if TYPE_CHECKING:
    from benchharness.bisect.session.standing import Standing

Hunt = AxisHunt | FactorHunt | SwapHunt


@dataclass(frozen=True)
class Legs:
    """Knows the experiment, and so what places mean.

    Attributes:
        stacks: of the experiment, by name, with their secrets.
        choice: what counts as a point of an axis.
        prior: what earlier campaigns told of the metric's noise.
    """

    stacks: Mapping[str, Stack]
    choice: Choice
    prior: Prior | None = None

    def hunt(self, state: State, seen: Sequence[Observed], stored: StoredRun, index: int = -1) -> Hunt:
        """The hunt of a leg; launches of legs before it count where they were of the same stack.

        Those of later legs don't, so that what a leg came to does not change any more.
        """
        index %= len(state.legs)
        leg, question = state.legs[index], state.question
        stacks = {place.stack for place in leg.places}
        mine = tuple(one for one in seen if one.stack in stacks and one.leg <= index)
        least = self._least(state, seen, stored, leg)
        skipped = {one.place: one.reason for one in state.skipped if one.leg == index}
        if leg.kind == "axis":
            base = self.stacks[leg.base]
            prices = costs.prices(
                state,
                stored,
                seen,
                leg.places,
                usual_start_s=engines.named(base.engine).usual_start_s(base),
                builds=_builds(leg),
            )
            over = index < len(state.legs) - 1
            running = None if stored.running is None else stored.running.index
            return AxisHunt(
                leg.places,
                mine,
                skipped,
                question.confidence,
                question.repeats,
                prices,
                self.prior,
                running,
                least,
                over,
            )
        if leg.kind == "factors":
            prior = _of_factors(self.prior)
            return FactorHunt(
                leg, mine, skipped, question.confidence, question.repeats, prior, least, question.bad
            )
        return SwapHunt(leg, mine, question.confidence, question.repeats, least or 0.0)

    def _least(self, state: State, seen: Sequence[Observed], stored: StoredRun, leg: Leg) -> float | None:
        """Difference of logs that is worth a culprit; None for a leg whose own ends have to show it."""
        if leg.part is None and leg.factor is None and leg.kind != "swap" and not leg.held:
            return None
        first = self.hunt(state, seen, stored, 0)
        ends = None if isinstance(first, SwapHunt) else first.ends()
        return LEAST * abs(ends.mean) if isinstance(ends, Difference) else None

    def end(self, leg: Leg, place: Place) -> Stack:
        """The stack of an end of the first leg."""
        if leg.kind == "factors":
            return self.stacks[place.stack]
        return replace(order.applied(self.stacks[leg.base], place.settings), name=place.stack)

    def stack(self, standing: Standing, leg: Leg, place: Place) -> Stack:
        """The stack of a place; UsageError where a setting can't stand there."""
        if leg.kind != "axis" or place.members:
            return self.factoring.stack(standing, place)
        return self.end(leg, place)

    @property
    def factoring(self) -> Factoring:
        """What places and legs of a hunt over two stacks mean."""
        return Factoring(self.stacks, self.choice)

    def attested(self, standing: Standing) -> State:
        """The state, with factors that only the attestations of both ends show."""
        legs = standing.state.legs
        return replace(standing.state, legs=(*legs[:-1], self.factoring.attested(standing)))

    def following(self, standing: Standing, ended: Ended) -> Leg | None:
        """The leg that comes after one that is over; None where the campaign is."""
        further = self._proof(standing, ended)
        if further is None and standing.state.question.every:
            return every.following(standing, self)
        return further

    def _proof(self, standing: Standing, ended: Ended) -> Leg | None:
        """The leg that goes on with what the last one found."""
        leg, hunt = standing.state.legs[-1], standing.hunts[-1]
        told = ended.outcome in (Outcome.FOUND, Outcome.RANGE)
        if leg.kind == "swap" and ended.outcome is Outcome.UNCONFIRMED:
            return self.factoring.again(standing)
        own = leg.kind == "axis" and leg.factor is not None and leg.part is None
        if not told and not (own and ended.outcome is not Outcome.BUDGET):
            return None
        if isinstance(hunt, AxisHunt) and isinstance(hunt.ends(), Difference):
            inside = self._into_merge(standing.state, hunt)
            if inside is not None:
                return inside
        return self.factoring.following(standing) if standing.state.question.kind == FACTORS else None

    def _into_merge(self, state: State, hunt: AxisHunt) -> Leg | None:
        """The commits of a merge that is the culprit, where that was asked for."""
        _, culprit = hunt.suspects()
        if not (state.question.merges and culprit.merge):
            return None
        leg, at = state.legs[-1], len(state.legs) - 1
        entered = axes.entered(culprit, COMMIT)
        places = tuple(replace(place, members=culprit.members) for place in entered.places)
        return Leg("axis", COMMIT, leg.base, places, notes=entered.notes, factor=leg.factor, inside=at)


def _of_factors(prior: Prior | None) -> factors.Prior:
    """What earlier campaigns told of a launch's deviation, for a hunt over factors."""
    if prior is None or (prior.between_sd is None and prior.within_sd is None):
        return factors.Prior()
    deviation = math.hypot(prior.between_sd or 0.0, prior.within_sd or 0.0)
    return factors.Prior(deviation=deviation, deviation_launches=prior.between_weight + 1)


def _builds(leg: Leg) -> bool:
    """A new point of the leg needs an environment or a checkout of its own."""
    paths = {path.partition(".")[0] for place in leg.places for path in place.settings}
    return bool(paths & {"packages", "source", "python"})


__all__ = ["Hunt", "Legs"]
