"""One culprit told: its size, its phase, its proof, its share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchharness import metrics
from benchharness.bisect.session import effects, observed, phase, remaining
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.effects import Effect
from benchharness.bisect.session.findings import Finding
from benchharness.bisect.session.question import Question
from benchharness.bisect.session.state import Place
from benchharness.bisect.session.swap_hunt import INTO_BAD, SwapHunt
from benchharness.bisect.session.verdict import Culprit, Swapped

if TYPE_CHECKING:
    from benchharness.bisect.session.standing import Standing

WORTH = 0.01
"""Change of a context from which on it counts as affected."""


def told(standing: Standing, finding: Finding) -> Culprit:
    """All that is to be said of it."""
    question = standing.state.question
    first, second, _ = finding.pair(standing)
    found = finding.difference(standing)
    seen = _effects(standing, first, second)
    timed = observed.named(question.metric) is not None
    change, low, high = (
        (math.expm1(found.mean), math.expm1(found.low), math.expm1(found.high))
        if found is not None and timed
        else (math.nan,) * 3
    )
    goods, bads = finding.sides
    return Culprit(
        name=finding.name,
        reason="" if finding.ended is None else finding.ended.reason,
        range_=(_labels(goods), _labels(bads)),
        stacks=(first.stack, second.stack),
        texts=(_texts(goods), _texts(bads)),
        confidence=finding.confidence,
        change=change,
        low=low,
        high=high,
        better=found is not None and _is_better(question.metric, found.mean),
        phase=_phase(question, seen),
        effects=seen,
        contexts=tuple(
            one.context_tokens
            for one in seen
            if one.metric == question.metric and one.sure and abs(one.change) > WORTH
        ),
        swaps=() if finding.swap is None else _swaps(finding.swap, 1 - question.confidence),
        share=remaining.share(standing, finding) if finding.told else None,
        masked=finding.swap is not None and finding.swap.masked,
    )


def _labels(places: Sequence[Place]) -> str:
    return " & ".join(place.label for place in places)


def _texts(places: Sequence[Place]) -> str:
    """What more there is to say of them."""
    return " & ".join(place.text for place in places)


def _effects(standing: Standing, first: Place, second: Place) -> tuple[Effect, ...]:
    """The two that tell the size, metric by metric."""
    if first == second:
        return ()
    question = standing.state.question
    row = observed.named(question.metric)
    wanted = [metrics.named(name) for name in phase.PHASES]
    wanted += [row] if row is not None and row not in wanted else []
    return effects.between(
        standing.stored, first.stack, second.stack, wanted, question.metric, question.confidence
    )


def _phase(question: Question, seen: Sequence[Effect]) -> str:
    """The part of the cycle that makes the difference, or acceptance, or what comes before it."""
    if question.metric in (observed.FAILED, "start_s"):
        return "start"
    if question.metric.startswith("ttft"):
        return "prefill"
    if question.metric in phase.OWN:
        return phase.OWN[question.metric]
    row = observed.named(question.metric)
    is_told = row is not None and phase.is_told(row)
    return phase.main_phase(seen, question.contexts) if is_told else ""


def _swaps(hunt: SwapHunt, level: float) -> tuple[Swapped, ...]:
    found = []
    for name, without, with_ in hunt.pairs:
        one = hunt.difference(without, with_)
        if one is not None:
            found.append(_swapped(name, without, with_, one, level))
    return tuple(found)


def _swapped(name: str, without: Place, with_: Place, one: Difference, level: float) -> Swapped:
    """One direction, told as what the swap does: the fix takes the culprit's effect away again."""
    before, after, ends = without, with_, (one.mean, one.low, one.high)
    if name == INTO_BAD:
        before, after, ends = with_, without, (-one.mean, -one.high, -one.low)
    change, low, high = (math.expm1(value) for value in ends)
    return Swapped(name, before.label, after.label, change, low, high, one.decided(level))


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
