"""Puts a verdict together from all that is stored."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchharness import metrics
from benchharness.bisect.session import deciding, effects, eliminated, levels, observed, phase
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.deciding import Ended, Outcome
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.effects import Effect
from benchharness.bisect.session.factor_hunt import FactorHunt
from benchharness.bisect.session.legs import Hunt
from benchharness.bisect.session.question import COMMIT
from benchharness.bisect.session.standing import Standing
from benchharness.bisect.session.state import Leg, Place, Role
from benchharness.bisect.session.swap_hunt import INTO_BAD, SwapHunt
from benchharness.bisect.session.verdict import Eliminated, Swapped, Verdict
from benchharness.plan import differences
from benchharness.records import Launch
from benchharness.stack import attestation

WORTH = 0.01
"""Change of a context from which on it counts as affected."""


def verdict(standing: Standing, ended: Ended) -> Verdict:
    """The answer, by all that is stored."""
    return _Answer(standing, ended).verdict()


@dataclass(frozen=True)
class _Answer:
    """Puts a verdict together."""

    standing: Standing
    ended: Ended

    def verdict(self) -> Verdict:
        question = self.standing.state.question
        good, bad, _ = self._pair()
        culprit, confidence = self._culprit()
        seen = self._effects()
        found = self._difference()
        row = observed.named(question.metric)
        change, low, high = (
            (math.expm1(found.mean), math.expm1(found.low), math.expm1(found.high))
            if found is not None and row is not None
            else (math.nan,) * 3
        )
        return Verdict(
            outcome=self.ended.outcome,
            reason=self.ended.reason,
            culprit=culprit,
            range_=self._sides(),
            stacks=(good.stack, bad.stack),
            texts=self._texts(),
            confidence=confidence,
            metric=question.metric,
            unit=row.unit if row is not None else "",
            change=change,
            low=low,
            high=high,
            better=found is not None and _is_better(question.metric, found.mean),
            phase=self._phase(seen),
            effects=seen,
            contexts=tuple(
                one.context_tokens
                for one in seen
                if one.metric == question.metric and one.sure and abs(one.change) > WORTH
            ),
            declared=self._declared(good, bad),
            effective=self._effective(good, bad),
            swaps=self._swaps(),
            eliminated=self._eliminated(),
            unusable={label: why for hunt in self.standing.hunts for label, why in _unusable(hunt).items()},
            launches=self.standing.launches,
            hours=self.standing.hours,
            warnings=tuple(one for _, hunt in self._axes for one in _other_changes(hunt, question.metric)),
            notes=tuple(note for leg in self.standing.state.legs for note in leg.notes),
        )

    def _searched(self, hunt: AxisHunt | FactorHunt) -> bool:
        """The ends differ, so that there is something to search."""
        return isinstance(hunt.ends(), Difference)

    @property
    def _axes(self) -> list[tuple[Leg, AxisHunt]]:
        """The axes that hold the answer: each culprit factor's own, or the last one."""
        found: dict[int | None, tuple[Leg, AxisHunt]] = {}
        for leg, hunt in zip(self.standing.state.legs, self.standing.hunts, strict=True):
            if isinstance(hunt, AxisHunt) and (leg.factor is None or isinstance(hunt.ends(), Difference)):
                found[leg.factor] = (leg, hunt)
        return list(found.values())

    def _sides(self) -> tuple[str, str]:
        """Labels of the last good and the first bad."""
        both = [hunt.suspects() for _, hunt in self._axes]
        if not both:
            first = self.standing.first
            both = [(first.good, first.bad)]
        return " & ".join(one.label for one, _ in both), " & ".join(one.label for _, one in both)

    def _texts(self) -> tuple[str, str]:
        """What more there is to say of the two."""
        both = [hunt.suspects() for _, hunt in self._axes]
        return " & ".join(one.text for one, _ in both), " & ".join(one.text for _, one in both)

    def _culprit(self) -> tuple[str | None, float]:
        """Its name, None where it is a range only; and how likely that is."""
        if not self._searched(self.standing.first):
            return None, 0.0
        sure = self.ended.outcome is Outcome.FOUND
        confidence = 1.0
        for one in self.standing.hunts:
            differ = None if isinstance(one, SwapHunt) else one.ends()
            if isinstance(one, FactorHunt) and isinstance(differ, Difference):
                confidence *= one.belief(differ).confidence if one.count > 1 else 1 - differ.p
            elif isinstance(one, AxisHunt) and isinstance(differ, Difference):
                confidence *= _held(one, differ)
        return (self._name() if sure and self._next_to_each_other() else None), confidence

    def _next_to_each_other(self) -> bool:
        """No point that can't be measured lies between the last good and the first bad one of any axis."""
        both = [(hunt, hunt.suspects()) for _, hunt in self._axes]
        return all(hunt.places.index(bad) - hunt.places.index(good) == 1 for hunt, (good, bad) in both)

    def _name(self) -> str:
        """Of the culprit: what it is on each axis, or the factors that have none."""
        named = {leg.factor: _named(leg, hunt) for leg, hunt in self._axes}
        factors = [hunt for hunt in self.standing.hunts if isinstance(hunt, FactorHunt)]
        if not factors:
            return " & ".join(named.values())
        ends = factors[0].ends()
        best = frozenset(range(factors[0].count))
        if isinstance(ends, Difference) and factors[0].count > 1:
            best = factors[0].belief(ends).best
        return " & ".join(named.get(index, factors[0].leg.factors[index]) for index in sorted(best))

    def _pair(self) -> tuple[Place, Place, Role | None]:
        """Whose launches tell the size: fresh ones of parent and culprit, else of the swap, else the ends."""
        hunts = self._axes
        if len(hunts) == 1:
            good, bad = hunts[0][1].suspects()
            stacks = (good.stack, bad.stack)
            fresh = any(one.role == Role.CONFIRM and one.stack in stacks for one in self.standing.seen)
            return good, bad, Role.CONFIRM if fresh else None
        for hunt in self.standing.hunts:
            if isinstance(hunt, SwapHunt) and hunt.pairs:
                return (*hunt.pairs[-1][1:], Role.SWAP)
        return self.standing.first.good, self.standing.first.bad, None

    def _difference(self) -> Difference | None:
        level = 1 - self.standing.state.question.confidence
        first, second, role = self._pair()
        if role is not None:
            return deciding.pair(first, second, self.standing.seen, (role, Role.CONFIRM), level)
        ends = self.standing.main.ends()
        return ends if isinstance(ends, Difference) else None

    def _effects(self) -> tuple[Effect, ...]:
        """The two that tell the size, metric by metric."""
        first, second, _ = self._pair()
        if first == second:
            return ()
        question = self.standing.state.question
        row = observed.named(question.metric)
        wanted = [metrics.named(name) for name in phase.PHASES]
        wanted += [row] if row is not None and row not in wanted else []
        return effects.between(
            self.standing.stored, first.stack, second.stack, wanted, question.metric, question.confidence
        )

    def _phase(self, seen: Sequence[Effect]) -> str:
        """The part of the cycle that makes the difference, or acceptance, or what comes before it."""
        question = self.standing.state.question
        if question.metric in (observed.FAILED, "start_s"):
            return "start"
        if question.metric.startswith("ttft"):
            return "prefill"
        row = observed.named(question.metric)
        told = row is not None and phase.is_told(row)
        return phase.main_phase(seen, question.contexts) if told else ""

    def _effective(self, good: Place, bad: Place) -> dict[str, tuple[str, str]]:
        """What really ran differently, but for what differs between launches of one stack as well."""
        sides = [
            [one.attestation for one in self.standing.stored.launches if _is_timed(one, place.stack)]
            for place in (good, bad)
        ]
        if not (sides[0] and sides[1]):
            return {}
        found = attestation.difference(sides[0][0], sides[1][0])
        for side in sides:
            for other in side[1:]:
                found = {k: v for k, v in found.items() if k not in attestation.difference(side[0], other)}
        return found

    def _declared(self, good: Place, bad: Place) -> dict[str, tuple[str, ...]]:
        known = {stack.name: stack for stack in self.standing.stored.run.plan.stacks}
        if good.stack not in known or bad.stack not in known:
            return {}
        return differences((known[good.stack], known[bad.stack]))

    def _swaps(self) -> tuple[Swapped, ...]:
        level = 1 - self.standing.state.question.confidence
        found = []
        for hunt in self.standing.hunts:
            if not isinstance(hunt, SwapHunt):
                continue
            for name, without, with_ in hunt.pairs:
                one = hunt.difference(without, with_)
                if one is not None:
                    found.append(_swapped(name, without, with_, one, level))
        return tuple(found)

    def _eliminated(self) -> tuple[Eliminated, ...]:
        found: list[Eliminated] = []
        for hunt in self.standing.hunts:
            if isinstance(hunt, SwapHunt) or not self._searched(hunt):
                continue
            found += (
                eliminated.other_factors(hunt)
                if isinstance(hunt, FactorHunt)
                else eliminated.other_points(hunt)
            )
        return tuple(found)


def _named(leg: Leg, hunt: AxisHunt) -> str:
    """The first bad point with its axis, where its label alone would not say what it is."""
    label = hunt.suspects()[1].label
    return label if leg.axis == COMMIT else f"{leg.axis} {label}"


def _held(hunt: AxisHunt, ends: Difference) -> float:
    """How likely it is that the change lies between the two suspects."""
    if len(hunt.places) == 2:
        return 1 - ends.p
    good, bad = (hunt.places.index(place) for place in hunt.suspects())
    return float(hunt.probability()[good:bad].sum())


def _swapped(name: str, without: Place, with_: Place, one: Difference, level: float) -> Swapped:
    """One direction, told as what the swap does: the fix takes the culprit's effect away again."""
    before, after, ends = without, with_, (one.mean, one.low, one.high)
    if name == INTO_BAD:
        before, after, ends = with_, without, (-one.mean, -one.high, -one.low)
    change, low, high = (math.expm1(value) for value in ends)
    return Swapped(name, before.label, after.label, change, low, high, one.decided(level))


def _is_timed(launch: Launch, stack: str) -> bool:
    return launch.stack == stack and bool(launch.attestation.processes)


def _other_changes(hunt: AxisHunt, metric: str) -> Iterator[str]:
    """A sentence for each side of the suspects on which a point is not as that side's end is."""
    if not isinstance(hunt.ends(), Difference):
        return
    good, bad = (hunt.places.index(place) for place in hunt.suspects())
    for at, end in levels.unlike_their_end(hunt.values, good, bad):
        here, there = (observed.plain(metric, float(hunt.values[one].mean())) for one in (at, end))
        yield (
            f"more than one change: {hunt.places[at].label} has {metric} {here:.4g}, and "
            f"{hunt.places[end].label}, the end of its side, {there:.4g}; bisect between these two as well"
        )


def _unusable(hunt: Hunt) -> dict[str, str]:
    return {} if isinstance(hunt, SwapHunt) else hunt.unusable


def _is_better(metric: str, shift: float) -> bool:
    """Whether a shift of the bad end is an improvement after all."""
    if observed.is_predicate(metric):
        return shift < 0
    direction = metrics.named(metric).direction
    return (
        (shift < 0)
        if direction == metrics.Direction.LOWER
        else (shift > 0 and direction == metrics.Direction.HIGHER)
    )
