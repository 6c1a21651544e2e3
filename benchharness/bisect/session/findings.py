"""The culprits that a campaign has: which of its legs hold each of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from benchharness.bisect.session import deciding
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.confidence import held
from benchharness.bisect.session.deciding import Ended, Outcome
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.factor_hunt import FactorHunt
from benchharness.bisect.session.question import COMMIT
from benchharness.bisect.session.state import Leg, Place, Role
from benchharness.bisect.session.swap_hunt import SwapHunt

if TYPE_CHECKING:
    from benchharness.bisect.session.standing import Standing

TOLD = (Outcome.FOUND, Outcome.RANGE)


@dataclass(frozen=True)
class Finding:
    """One culprit, or the range that holds it, by the legs that searched it.

    Attributes:
        axes: of an axis the leg that holds the answer; of factors that of each culprit factor that has one.
        factors: the hunt over the differences of two stacks; None for an axis.
        swap: its proof; None before it, and for an axis.
        ended: how its last leg ended; None while that goes on.
    """

    axes: tuple[tuple[Leg, AxisHunt], ...]
    factors: FactorHunt | None
    swap: SwapHunt | None
    ended: Ended | None

    @property
    def told(self) -> bool:
        """There is a culprit or a range."""
        return self.ended is not None and self.ended.outcome in TOLD

    @property
    def first(self) -> AxisHunt | FactorHunt:
        """The hunt whose ends had to differ."""
        return self.factors or self.axes[0][1]

    @property
    def name(self) -> str | None:
        """What the culprit is on each axis, or the factors that have none; None where it is a range."""
        sure = self.ended is not None and self.ended.outcome is Outcome.FOUND
        if not sure or not isinstance(self.first.ends(), Difference) or not self._is_narrow:
            return None
        named = {leg.factor: _named(leg, hunt) for leg, hunt in self.axes}
        if self.factors is None:
            return " & ".join(named.values())
        return " & ".join(named.get(at, self.factors.leg.factors[at]) for at in sorted(self.culprit))

    @property
    def _is_narrow(self) -> bool:
        """No point that can't be measured lies between the last good and the first bad one of any axis."""
        both = [(hunt, hunt.suspects()) for _, hunt in self.axes]
        return all(hunt.places.index(bad) - hunt.places.index(good) == 1 for hunt, (good, bad) in both)

    @cached_property
    def culprit(self) -> frozenset[int]:
        """Positions of the culprit factors; empty for an axis, and where the two stacks do not differ."""
        ends = None if self.factors is None else self.factors.ends()
        if self.factors is None or not isinstance(ends, Difference):
            return frozenset()
        return self.factors.culprit(ends)

    @property
    def confidence(self) -> float:
        """How likely it is that this is a culprit, or that the range holds it."""
        chance = 1.0
        ends = self.first.ends()
        if not isinstance(ends, Difference):
            return 0.0
        if self.factors is not None:
            chance *= self.factors.confident(ends)
        for _, hunt in self.axes:
            differ = hunt.ends()
            chance *= held(hunt, differ) if isinstance(differ, Difference) else 1.0
        return chance

    @property
    def sides(self) -> tuple[tuple[Place, ...], tuple[Place, ...]]:
        """Last good and first bad of each axis; where there is none the ends."""
        both = [hunt.suspects() for _, hunt in self.axes] or [(self.first.good, self.first.bad)]
        return tuple(good for good, _ in both), tuple(bad for _, bad in both)

    def pair(self, standing: Standing) -> tuple[Place, Place, Role | None]:
        """Whose launches tell the size: fresh ones of parent and culprit, else of the swap, else the ends."""
        if len(self.axes) == 1:
            good, bad = self.axes[0][1].suspects()
            stacks = (good.stack, bad.stack)
            fresh = any(one.role == Role.CONFIRM and one.stack in stacks for one in standing.seen)
            return good, bad, Role.CONFIRM if fresh else None
        if self.swap is not None and self.swap.pairs:
            return (*self.swap.told_by[1:], Role.SWAP)
        return self.first.good, self.first.bad, None

    def difference(self, standing: Standing) -> Difference | None:
        """Its size; None where nothing can be said."""
        first, second, role = self.pair(standing)
        if role is not None:
            level = 1 - standing.state.question.confidence
            return deciding.pair(first, second, standing.seen, (role, Role.CONFIRM), level)
        ends = (self.axes[-1][1] if self.axes else self.first).ends()
        return ends if isinstance(ends, Difference) else None


def of(standing: Standing) -> list[Finding]:
    """The first one, whatever it came to, and all further ones that hold a culprit or a range."""
    legs = standing.state.legs
    begin = [at for at, leg in enumerate(legs) if leg.kind == "factors"]
    if begin:
        rounds = zip(begin, [*begin[1:], len(legs)], strict=True)
        # Of those over the same factors only the last one counts: the others were refuted by their swaps.
        last = {legs[first].held: (first, end) for first, end in rounds}
        whole = [(_of_factors(standing, first, end), range(first, end)) for first, end in last.values()]
    else:
        roots = [at for at, leg in enumerate(legs) if leg.part is None and leg.inside is None]
        whole = [(_of_axis(standing, roots[-1]), range(len(legs)))]
    found = []
    for finding, mine in whole:
        parts = [_of_axis(standing, at) for at in mine if legs[at].part is not None]
        found += [finding, *(part for part in parts if part.told)]
    return [one for at, one in enumerate(found) if at == 0 or one.told]


def _of_axis(standing: Standing, first: int) -> Finding:
    """Of an axis, or a stretch of one, with the merges that were entered from there."""
    last = innermost(standing.state.legs, first)
    hunt = standing.hunts[last]
    if not isinstance(hunt, AxisHunt):
        raise TypeError(f"leg {last} is no axis")
    return Finding(((standing.state.legs[last], hunt),), None, None, standing.ended(last))


def innermost(legs: tuple[Leg, ...], at: int) -> int:
    """The leg inside the merge inside the merge that a leg found; itself where it found none."""
    inside = [index for index, leg in enumerate(legs) if leg.inside == at]
    return innermost(legs, inside[-1]) if inside else at


def _of_factors(standing: Standing, first: int, end: int) -> Finding:
    """Of the differences of two stacks, from the leg over them up to the next one over the rest of them."""
    factors = standing.hunts[first]
    if not isinstance(factors, FactorHunt):
        raise TypeError(f"leg {first} is none over factors")
    axes: dict[int | None, tuple[Leg, AxisHunt]] = {}
    swap, last = None, first
    for at in range(first + 1, end):
        leg, hunt = standing.state.legs[at], standing.hunts[at]
        if of_a_part(standing.state.legs, at):
            continue
        last = at
        if isinstance(hunt, AxisHunt) and isinstance(hunt.ends(), Difference):
            axes[leg.factor] = leg, hunt
        elif isinstance(hunt, SwapHunt):
            swap = hunt
    return Finding(tuple(axes.values()), factors, swap, standing.ended(last))


def of_a_part(legs: tuple[Leg, ...], at: int) -> bool:
    """The leg searches what another left of an axis, or a merge that was found there."""
    inside = legs[at].inside
    return legs[at].part is not None or (inside is not None and of_a_part(legs, inside))


def _named(leg: Leg, hunt: AxisHunt) -> str:
    """The first bad point with its axis, where its label alone would not say what it is."""
    label = hunt.suspects()[1].label
    return label if leg.axis == COMMIT else f"{leg.axis} {label}"
