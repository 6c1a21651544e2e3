"""The legs of a hunt over the differences of two stacks: the factors, the axis of the culprit, the swap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchharness.bisect import order
from benchharness.bisect.factors import Combination
from benchharness.bisect.factors.differences import Differences, Factor, combined, differences
from benchharness.bisect.session import axes, observed
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
        if leg.kind != "factors" or leg.attested or len(leg.places) > 2:
            return leg
        if observed.attestations_of(standing.stored, [place.stack for place in leg.places]) is None:
            return leg
        found = self.differences(standing, replace(leg, attested=True))
        return _leg(question, found, attested=True) if found.factors else replace(leg, attested=True)

    def stack(self, standing: Standing, leg: Leg, place: Place) -> Stack:
        """The stack of a combination, or of a side of a swap."""
        question = standing.state.question
        ends = self.stacks[question.good], self.stacks[question.bad]
        factors = next(one for one in standing.state.legs if one.kind == "factors")
        made = combined(*ends, self.differences(standing, factors), Combination(place.members))
        return replace(order.applied(made, place.settings), name=place.stack)

    def following(self, standing: Standing) -> Leg | None:
        """What comes after the leg that is over: the culprit's own axis, then the swap."""
        last = standing.state.legs[-1]
        hunt = next(one for one in standing.hunts if isinstance(one, FactorHunt))
        ends = hunt.ends()
        if last.kind == "swap" or not isinstance(ends, Difference):
            return None
        culprit = hunt.belief(ends).best if hunt.count > 1 else Combination((0,))
        further = self._axis(standing, hunt, culprit)
        if further is not None:
            return further
        if not found_axes(standing):
            return self._plain_swap(hunt, culprit)
        return self._axis_swap(standing, hunt, culprit)

    def _axis(self, standing: Standing, hunt: FactorHunt, culprit: Combination) -> Leg | None:
        """The versions in between of the next culprit that has any."""
        question = standing.state.question
        factors = next(one for one in standing.state.legs if one.kind == "factors")
        found = self.differences(standing, factors)
        done = {leg.factor for leg in standing.state.legs}
        for index in sorted(culprit - done):
            name, good, bad = _ordered(found.factors[index], self.stacks, question)
            if not name:
                continue
            base = self.stacks[question.bad]
            try:
                laid = axes.lay_out(name, good, bad, base, self.choice)
            except HarnessError:  # no index, no clone: the factor is the answer then
                continue
            if len(laid.places) > 2:
                others = hunt.name(culprit - {index})
                told = (f"{name} acts only together with {others}",) if len(culprit) > 1 else ()
                places = self._joined(hunt, name, laid.places, index)
                return Leg("axis", name, base.name, places, notes=(*told, *laid.notes), factor=index)
        return None

    def _joined(
        self, hunt: FactorHunt, name: str, places: tuple[Place, ...], index: int
    ) -> tuple[Place, ...]:
        """The axis's points, those that were measured as combinations under the name that they had."""
        everything = Combination(range(hunt.count))
        without = hunt.place(everything - {index})
        known = {place.stack for place in hunt.leg.places}
        named = [replace(place, stack=f"{name} {place.label}") for place in places]
        if without.stack in known:
            named[0] = replace(named[0], stack=without.stack)
        named[-1] = replace(named[-1], stack=hunt.bad.stack)
        return tuple(named)

    def _plain_swap(self, hunt: FactorHunt, culprit: Combination) -> Leg:
        """The whole culprit set into the good stack, and out of the bad one."""
        everything = Combination(range(hunt.count))
        pairs = [hunt.good, hunt.place(culprit)]
        if culprit != everything:
            pairs += [hunt.place(everything - culprit), hunt.bad]
        return Leg("swap", "", hunt.good.label, tuple(pairs))

    def _axis_swap(self, standing: Standing, hunt: FactorHunt, culprit: Combination) -> Leg:
        """Parents against culprits of all axes: in the good stack, and in the bad one."""
        found = found_axes(standing)
        parents = {k: v for parent, _ in found.values() for k, v in parent.settings.items()}
        culprits = {k: v for _, first_bad in found.values() for k, v in first_bad.settings.items()}
        others = tuple(sorted(culprit - set(found)))
        into_good = [
            _sides(hunt.good.label, words, settings, others)
            for words, settings in (("last good", parents), ("first bad", culprits))
        ]
        if len(found) == 1:  # confirmed in the bad stack already
            ((parent, first_bad),) = found.values()
            return Leg("swap", "", hunt.good.label, (*into_good, parent, first_bad))
        everything = tuple(range(hunt.count))
        into_bad = [
            _sides(hunt.bad.label, words, settings, everything)
            for words, settings in (("last good", parents), ("first bad", culprits))
        ]
        return Leg("swap", "", hunt.good.label, (*into_good, *into_bad))


def found_axes(standing: Standing) -> dict[int, tuple[Place, Place]]:
    """Last good and first bad of each culprit factor that was bisected (in a merge, if one was entered)."""
    found = {}
    for leg, hunt in zip(standing.state.legs, standing.hunts, strict=True):
        if leg.factor is not None and isinstance(hunt, AxisHunt) and isinstance(hunt.ends(), Difference):
            found[leg.factor] = hunt.suspects()
    return found


def _sides(stack: str, words: str, settings: Mapping[str, Any], members: tuple[int, ...]) -> Place:
    label = f"{stack} with {words}"
    return Place(label, label, settings, members)


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
