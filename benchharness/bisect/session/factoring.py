"""The legs of a hunt over the differences of two stacks: the factors, the axis of the culprit, the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchharness.bisect import order
from benchharness.bisect.factors import Combination
from benchharness.bisect.factors.differences import Differences, Factor, combined, differences
from benchharness.bisect.session import axes, observed, swapping
from benchharness.bisect.session.axes import Choice
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.factor_hunt import FactorHunt
from benchharness.bisect.session.question import COMMIT, RELEASE, Question
from benchharness.bisect.session.state import Leg, Place
from benchharness.errors import HarnessError, UsageError, nearest
from benchharness.records import Stack

if TYPE_CHECKING:
    from benchharness.bisect.session.standing import Standing


def first_leg(stacks: Mapping[str, Stack], question: Question) -> Leg:
    """The leg over what two stacks of the experiment declare differently; UsageError where nothing is."""
    for end in (question.good, question.bad):
        if end not in stacks:
            raise UsageError(
                f"the experiment has no stack {end!r}{nearest(end, list(stacks))}",
                "see the names by `benchharness plan`",
            )
    if question.good == question.bad:
        raise UsageError(f"the good and the bad stack are both {question.good}", "name two stacks")
    found = differences(stacks[question.good], stacks[question.bad])
    if not found.factors:
        raise UsageError(
            f"{question.good} and {question.bad} declare the same, so there is nothing to find",
            "name two stacks that differ",
        )
    return _leg(question, found, attested=False)


def _leg(question: Question, found: Differences, *, attested: bool) -> Leg:
    names = tuple(factor.name for factor in found.factors)
    good = Place(question.good, question.good)
    bad = Place(question.bad, question.bad, members=tuple(range(len(names))))
    notes = tuple(factor.sentence for factor in found.factors) + found.unswitchable
    return Leg("factors", "", question.good, (good, bad), factors=names, notes=notes, attested=attested)


@dataclass(frozen=True)
class Factoring:
    """Knows both stacks of the question.

    Attributes:
        stacks: of the experiment, by name.
        choice: what counts as a point of an axis.
    """

    stacks: Mapping[str, Stack]
    choice: Choice

    def differences(self, standing: Standing, leg: Leg) -> Differences:
        """The factors of a leg, with what nobody declared where the leg has that."""
        question = standing.state.question
        ends = self.stacks[question.good], self.stacks[question.bad]
        shown = (
            observed.attestations_of(standing.stored, [end.name for end in ends]) if leg.attested else None
        )
        return differences(*ends) if shown is None else differences(*ends, *shown)

    def attested(self, standing: Standing) -> Leg:
        """The last leg, with factors that only the launches of both ends show, before a search began."""
        leg, question = standing.state.legs[-1], standing.state.question
        if leg.kind != "factors" or leg.attested or leg.held or len(leg.places) > 2:
            return leg
        if observed.attestations_of(standing.stored, [place.stack for place in leg.places]) is None:
            return leg
        found = self.differences(standing, replace(leg, attested=True))
        return _leg(question, found, attested=True) if found.factors else replace(leg, attested=True)

    def stack(self, standing: Standing, place: Place) -> Stack:
        """The stack of a combination, of a point within one, or of a side of a swap."""
        question = standing.state.question
        ends = self.stacks[question.good], self.stacks[question.bad]
        factors = next(one for one in standing.state.legs if one.kind == "factors")
        made = combined(*ends, self.differences(standing, factors), Combination(place.members))
        return replace(order.applied(made, place.settings), name=place.stack)

    def following(self, standing: Standing) -> Leg | None:
        """What proves the culprit of the last leg over factors: its factors' own axes, then the swap."""
        begin = max(at for at, leg in enumerate(standing.state.legs) if leg.kind == "factors")
        hunt, since = standing.hunts[begin], standing.state.legs[begin + 1 :]
        ends = hunt.ends() if isinstance(hunt, FactorHunt) else None
        proven = any(leg.kind == "swap" for leg in since)
        if proven or not (isinstance(hunt, FactorHunt) and isinstance(ends, Difference)):
            return None
        culprit = hunt.culprit(ends)
        further = self._axis(standing, hunt, culprit)
        if further is not None:
            return further
        axes_of = {
            leg.factor: (leg, axis)
            for leg, axis in zip(since, standing.hunts[begin + 1 :], strict=True)
            if leg.factor is not None and isinstance(axis, AxisHunt) and isinstance(axis.ends(), Difference)
        }
        return swapping.leg(hunt, culprit, axes_of)

    def again(self, standing: Standing) -> Leg | None:
        """The leg that searches anew where the swap refuted a culprit: its launches count from now on."""
        hunt = [one for one in standing.hunts if isinstance(one, FactorHunt)][-1]
        ends = hunt.ends()
        if not isinstance(ends, Difference):
            return None
        searched = [one for one in standing.hunts if isinstance(one, FactorHunt)]
        same = [one for one in searched if one.leg.held == hunt.leg.held]
        refuted = {one.culprit(differ) for one in same if isinstance(differ := one.ends(), Difference)}
        note = f"{hunt.name(hunt.culprit(ends))} was refuted by the swap"
        leg = replace(hunt.leg, places=_known(standing, hunt, hunt.everything), notes=(note,))
        stacks = {place.stack for place in leg.places}
        seen = tuple(one for one in standing.seen if one.stack in stacks)
        return None if replace(hunt, leg=leg, observed=seen).culprit(ends) in refuted else leg

    def rest(self, standing: Standing, held: Combination) -> Leg | None:
        """The leg over what is left when culprits have the good stack's values; None where nothing is."""
        first = next(hunt for hunt in standing.hunts if isinstance(hunt, FactorHunt))
        left = first.everything - held
        if not left:
            return None
        note = f"{', '.join(first.leg.factors[at] for at in sorted(held))} as in the good stack"
        places = _known(standing, first, left)
        return replace(first.leg, places=places, held=tuple(sorted(held)), notes=(note,))

    def _axis(self, standing: Standing, hunt: FactorHunt, culprit: Combination) -> Leg | None:
        """The versions in between of the next culprit that has any."""
        question = standing.state.question
        factors = next(one for one in standing.state.legs if one.kind == "factors")
        found = self.differences(standing, factors)
        for index in sorted(culprit):
            name, good, bad = _ordered(found.factors[index], self.stacks, question)
            base = _next_base(standing, index, len(culprit), question)
            if not name or not base:
                continue
            try:
                laid = axes.lay_out(name, good, bad, self.stacks[question.bad], self.choice)
            except HarnessError:  # no index, no clone: the factor is the answer then
                continue
            if len(laid.places) > 2:
                others = hunt.name(culprit - {index})
                told = (f"{name} acts only together with {others}",) if len(culprit) > 1 else ()
                inside = self._joined if base == question.bad else self._in_good
                places = inside(hunt, name, laid.places, index)
                return Leg("axis", name, base, places, notes=(*told, *laid.notes), factor=index)
        return None

    def _joined(
        self, hunt: FactorHunt, name: str, places: tuple[Place, ...], index: int
    ) -> tuple[Place, ...]:
        """The axis's points in the bad stack, its ends under the names that they have as combinations."""
        members = tuple(hunt.active) if hunt.leg.held else ()
        named = [replace(place, stack=f"{name} {place.label}", members=members) for place in places]
        named[0] = replace(named[0], stack=hunt.place(hunt.everything - {index}).stack)
        named[-1] = replace(named[-1], stack=hunt.bad.stack)
        return tuple(named)

    def _in_good(
        self, hunt: FactorHunt, name: str, places: tuple[Place, ...], index: int
    ) -> tuple[Place, ...]:
        """The same in the good stack."""
        named = [replace(place, stack=f"{hunt.good.label} + {name} {place.label}") for place in places]
        named[0] = replace(named[0], stack=hunt.good.stack)
        named[-1] = replace(named[-1], stack=hunt.place(Combination({index})).stack)
        return tuple(named)


def _known(standing: Standing, hunt: FactorHunt, left: Combination) -> tuple[Place, ...]:
    """The good stack, that with all that is left, and what was launched of the combinations between."""
    everything = [place for leg in standing.state.legs if leg.kind != "axis" for place in leg.places]
    everything += [hunt.place(hunt.everything - {at}) for at in hunt.active]
    launched = {one.stack for one in standing.seen}
    ends = (hunt.good, hunt.place(left))
    between = {
        place.members: place
        for place in everything
        if not place.settings and place.stack in launched and left.issuperset(place.members)
    }
    return (*ends, *(place for members, place in between.items() if members not in ((), ends[1].members)))


def _next_base(standing: Standing, index: int, size: int, question: Question) -> str:
    """The stack in which a factor's axis is searched: the bad one, then the good one; empty after that.

    Where another factor is enough as well, the bad stack shows nothing of this one. A factor that acts only
    together with others shows nothing in the good stack.
    """
    legs = zip(standing.state.legs, standing.hunts, strict=True)
    tried = {
        leg.base: hunt
        for leg, hunt in legs
        if leg.factor == index and leg.inside is None and leg.part is None
    }
    if question.bad not in tried:
        return question.bad
    hunt = tried[question.bad]
    failed = isinstance(hunt, AxisHunt) and not isinstance(hunt.ends(), Difference)
    return question.good if failed and size == 1 and question.good not in tried else ""


def _ordered(factor: Factor, stacks: Mapping[str, Stack], question: Question) -> tuple[str, str, str]:
    """Axis and ends of a factor that can be bisected; an empty name where it can't."""
    nothing = ("", "", "")
    if factor.name == "source":
        good, bad = stacks[question.good].source, stacks[question.bad].source
        if good.repo and good.repo == bad.repo and not (good.patch or bad.patch):
            return (COMMIT, good.commit, bad.commit) if good.commit and bad.commit else nothing
        return (RELEASE, good.release, bad.release) if good.release and bad.release else nothing
    values = factor.good.get(factor.name), factor.bad.get(factor.name)
    if all(isinstance(value, str | int | float) for value in values):
        return (factor.name, str(values[0]), str(values[1]))
    return nothing
