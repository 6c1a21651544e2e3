"""Puts a verdict together from all that is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchharness.bisect.session import (
    disturbances,
    eliminated,
    findings,
    levels,
    observed,
    remaining,
    telling,
)
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.deciding import Ended
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.factor_hunt import FactorHunt
from benchharness.bisect.session.findings import Finding
from benchharness.bisect.session.question import FACTORS, Question
from benchharness.bisect.session.remaining import Rest
from benchharness.bisect.session.standing import Standing
from benchharness.bisect.session.swap_hunt import SwapHunt
from benchharness.bisect.session.verdict import Culprit, Eliminated, Verdict
from benchharness.plan import differences
from benchharness.records import Launch
from benchharness.stack import attestation


def verdict(standing: Standing, ended: Ended) -> Verdict:
    """The answer, by all that is stored."""
    question = standing.state.question
    found = findings.of(standing)
    rest = remaining.rest(standing, found)
    culprits = [telling.told(standing, one) for one in found]
    first = culprits[0]
    row = observed.named(question.metric)
    return Verdict(
        outcome=ended.outcome,
        reason=ended.reason,
        culprit=first.name,
        range_=first.range_,
        stacks=first.stacks,
        texts=first.texts,
        confidence=first.confidence,
        metric=question.metric,
        unit=row.unit if row is not None else "",
        change=first.change,
        low=first.low,
        high=first.high,
        better=first.better,
        phase=first.phase,
        effects=first.effects,
        contexts=first.contexts,
        declared=_declared(standing, first),
        effective=_effective(standing, first),
        swaps=first.swaps,
        eliminated=_eliminated(standing, found, rest),
        unusable={label: why for hunt in standing.hunts for label, why in _unusable(hunt).items()},
        launches=standing.launches,
        hours=standing.hours,
        warnings=(*_other_changes(standing, found), *_disturbances(standing)),
        notes=tuple(dict.fromkeys(note for leg in standing.state.legs for note in leg.notes)),
        culprits=tuple(one for one, by in zip(culprits, found, strict=True) if by.told),
        rest=rest,
        every=question.every,
        asked=_asked(standing),
    )


def _disturbances(standing: Standing) -> Iterator[str]:
    trials = [trial for _, trial in standing.stored.trials]
    return disturbances.told(trials, len({trial.launch for trial in trials}))


def _asked(standing: Standing) -> tuple[str, ...]:
    question, plan = standing.state.question, standing.stored.run.plan
    experiment = standing.stored.run.experiment
    ask = ["benchharness", "bisect", "run", str(experiment.get("file", "EXPERIMENT"))]
    ask += ["--factors"] if question.kind == FACTORS else ["--axis", question.axis]
    ask += ["--good", question.good, "--bad", question.bad, "--metric", question.metric]
    ask += ["--stack", question.stack] if question.stack else []
    if set(question.contexts) != {workload.context_tokens for workload in plan.workloads}:
        ask += [word for context in question.contexts for word in ("--context", str(context))]
    for name, usual in (("confidence", Question.confidence), ("repeats", Question.repeats)):
        value = getattr(question, name)
        ask += [f"--{name}", f"{value:g}"] if value != usual else []
    ask += [word for path in question.paths for word in ("--path", path)]
    ask += [f"--{name}" for name in ("merges", "prereleases", "yanked") if getattr(question, name)]
    ask += [word for one in experiment.get("sets", ()) for word in ("--set", str(one))]
    return tuple(ask)


def _effective(standing: Standing, found: Culprit) -> dict[str, tuple[str, str]]:
    """What really ran differently, but for what differs between launches of one stack as well."""
    sides = [
        [one.attestation for one in standing.stored.launches if _is_timed(one, stack)]
        for stack in found.stacks
    ]
    if not (sides[0] and sides[1]):
        return {}
    apart = attestation.difference(sides[0][0], sides[1][0])
    for side in sides:
        for other in side[1:]:
            apart = {k: v for k, v in apart.items() if k not in attestation.difference(side[0], other)}
    return apart


def _is_timed(launch: Launch, stack: str) -> bool:
    return launch.stack == stack and bool(launch.attestation.processes)


def _declared(standing: Standing, found: Culprit) -> dict[str, tuple[str, ...]]:
    known = {stack.name: stack for stack in standing.stored.run.plan.stacks}
    good, bad = found.stacks
    if good not in known or bad not in known:
        return {}
    return differences((known[good], known[bad]))


def _eliminated(standing: Standing, found: Sequence[Finding], rest: Rest | None) -> tuple[Eliminated, ...]:
    """Suspects that it was not; of an axis with several changes no side is free of them."""
    told: list[Eliminated] = []
    culprits = frozenset[int]().union(*(one.culprit for one in found))
    for at, (leg, hunt) in enumerate(zip(standing.state.legs, standing.hunts, strict=True)):
        if isinstance(hunt, SwapHunt) or not isinstance(hunt.ends(), Difference):
            continue
        if isinstance(hunt, FactorHunt):
            told += eliminated.other_factors(hunt, culprits) if hunt is found[0].factors else ()
        elif leg.part is None and rest is None and len(remaining.culprits_of(standing, at)) < 2:
            told += eliminated.other_points(hunt)
    return tuple(told)


def _other_changes(standing: Standing, found: Sequence[Finding]) -> Iterator[str]:
    """A sentence for each stretch between culprits in which a point is not as that stretch's end is."""
    metric = standing.state.question.metric
    legs = standing.state.legs
    shown = [leg for one in found for leg, _ in one.axes]
    for at, (leg, hunt) in enumerate(zip(legs, standing.hunts, strict=True)):
        searched = isinstance(hunt, AxisHunt) and isinstance(hunt.ends(), Difference)
        if not (searched and isinstance(hunt, AxisHunt)) or leg.part is not None or leg not in shown:
            continue
        values = remaining.values_of(standing, hunt)
        pairs = remaining.culprits_of(standing, at)
        if not pairs:
            good, bad = hunt.suspects()
            pairs = [(hunt.places.index(good), hunt.places.index(bad))]
        for point, end in levels.unlike_their_end(values, pairs):
            here, there = (observed.plain(metric, float(values[one].mean())) for one in (point, end))
            yield (
                f"more than one change: {hunt.places[point].label} has {metric} {here:.4g}, and "
                f"{hunt.places[end].label}, the end of its side, {there:.4g}; "
                "bisect between these two as well"
            )


def _unusable(hunt: AxisHunt | FactorHunt | SwapHunt) -> Mapping[str, str]:
    return {} if isinstance(hunt, SwapHunt) else hunt.unusable
