"""What launches of a campaign measured, as values that a search can stand on.

A launch's value is the mean of the logs over its trials and context lengths: logs, since stacks differ by
factors, and since all context lengths then weigh the same. Predicates are 0 or 1 as they are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from benchharness import metrics
from benchharness.bisect.session.state import Role, State
from benchharness.metrics import Metric
from benchharness.records import Attestation, Launch, LaunchStatus
from benchharness.store import StoredRun

FAILED = "failed"
"""A predicate: 1 where a launch didn't start or died, 0 where it served to the end."""

SCRIPT_FAILS = "script_fails"
"""A predicate: 1 where `measure.script` ended with a status other than 0, 0 where with 0."""

UNTESTABLE = 125
"""Exit status by which a script says that it can't tell, as `git bisect run` takes it."""

PREDICATES = (FAILED, SCRIPT_FAILS)


@dataclass(frozen=True)
class Observed:
    """One step of a campaign with what came of it.

    Attributes:
        step: its index among the steps.
        leg, role, place, block: as in the step.
        stack: its stack's name.
        launch: index in the run; None for a value entered by hand.
        value: mean over trials of the log of the metric (see above); None where nothing may be judged.
        repeats: trials that it stands on.
        scatter: sum of squared deviations of the trials from their mean.
        unknown: why there is no value; empty where there is one.
        unbuildable: another launch would end the same.
        spoiled: it served, but its measurement is invalid: another launch may well be valid.
    """

    step: int
    leg: int
    role: Role
    place: str
    block: int
    stack: str
    launch: int | None
    value: float | None
    repeats: int = 1
    scatter: float = 0.0
    unknown: str = ""
    unbuildable: bool = False
    spoiled: bool = False


def is_predicate(metric: str) -> bool:
    """The metric is 0 or 1 for a launch, and no measurement of it."""
    return metric in PREDICATES


def named(metric: str) -> Metric | None:
    """The metric of that name, None for a predicate; UsageError for an unknown one."""
    return None if is_predicate(metric) else metrics.named(metric)


def observe(state: State, stored: StoredRun) -> tuple[Observed, ...]:
    """Every step that is over, in order."""
    question = state.question
    launches = {launch.index: launch for launch in stored.launches}
    values = _values(stored, question.metric, question.contexts)
    grave = {
        trial.launch: finding.sentence
        for _, trial in stored.trials
        for finding in trial.findings
        if finding.grave
    }
    found = []
    for index, step in enumerate(state.steps):
        stack = state.legs[step.leg].place(step.place).stack
        common = (index, step.leg, step.role, step.place, step.block, stack, step.launch)
        if step.launch is None:
            found.append(Observed(*common, value=scaled(question.metric, step.value)))
        elif step.launch in launches:
            found.append(_of_launch(common, launches[step.launch], values, grave, question.metric))
    return tuple(found)


def _of_launch(
    common: tuple[int, int, Role, str, int, str, int | None],
    launch: Launch,
    values: Mapping[int, Sequence[float]],
    grave: Mapping[int, str],
    metric: str,
) -> Observed:
    if launch.status == LaunchStatus.UNBUILDABLE:
        return Observed(*common, value=None, unknown=f"unbuildable: {launch.reason}", unbuildable=True)
    if metric == FAILED and launch.status in (LaunchStatus.FAILED, LaunchStatus.DONE):
        return Observed(*common, value=float(launch.status == LaunchStatus.FAILED))
    if metric == SCRIPT_FAILS and launch.script is not None:
        code = launch.script.exit_code
        if code in (None, UNTESTABLE):
            return Observed(*common, value=None, unknown="the script could not tell")
        return Observed(*common, value=float(code != 0))
    if launch.status != LaunchStatus.DONE:
        return Observed(*common, value=None, unknown=f"{launch.status}: {launch.reason}")
    trials = values.get(launch.index, ())
    if not trials:
        why = grave.get(launch.index) or _of_script(launch, metric) or "nothing of it was measured"
        return Observed(*common, value=None, unknown=f"no valid {metric}: {why}", spoiled=True)
    mean = sum(trials) / len(trials)
    scatter = sum((value - mean) ** 2 for value in trials)
    return Observed(*common, value=mean, repeats=len(trials), scatter=scatter)


def _of_script(launch: Launch, metric: str) -> str:
    """Why a script gave no value; empty for another metric."""
    if launch.script is None or not metric.startswith("script"):
        return ""
    last = launch.script.output.strip().splitlines()[-1:] or ["nothing"]
    code = launch.script.exit_code
    ended = "took too long" if code is None else f"ended with status {code}"
    return f"the script {ended}, and its last line is {last[0][:60]!r}"


def scaled(metric: str, value: float | None) -> float | None:
    """A value in the metric's unit as a search takes it; None where it can't."""
    if value is None or is_predicate(metric):
        return value
    return math.log(value) if value > 0 and math.isfinite(value) else None


def plain(metric: str, value: float) -> float:
    """The other way: back into the metric's unit."""
    return value if is_predicate(metric) else math.exp(value)


def _values(stored: StoredRun, metric: str, contexts: Sequence[int]) -> dict[int, tuple[float, ...]]:
    """Launch -> one mean of logs a round of its trials, over those rounds in which every context has one."""
    row = named(metric)
    if row is None:
        return {}
    query = (
        f"SELECT launch, context_tokens, position, {row.sql} FROM {row.table} WHERE counted "  # noqa: S608
        "GROUP BY ALL ORDER BY launch, context_tokens, position"
    )
    rounds: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for launch, context, _, value in stored.connect().execute(query).fetchall():
        log = scaled(metric, None if value is None else float(value))
        if context in contexts and log is not None:
            rounds[launch][context].append(log)
    return {
        launch: tuple(sum(one) / len(one) for one in zip(*by_context.values(), strict=False))
        for launch, by_context in rounds.items()
        if len(by_context) == len(contexts)
    }


def attestations_of(stored: StoredRun, stacks: Sequence[str]) -> list[Attestation] | None:
    """What the first launch of each stack that was timed really ran; None where one has none.

    Settings and variables that the second launch of any of them had otherwise are left out of all: they
    differ at every start.
    """
    timed = [
        [one.attestation for one in stored.launches if one.stack == stack and one.attestation.processes]
        for stack in stacks
    ]
    if not all(timed):
        return None
    settings, variables = set[str](), set[str]()
    for first, second in (side[:2] for side in timed if len(side) > 1):
        settings |= {name for name, value in first.settings.items() if second.settings.get(name) != value}
        names = {name for one in first.processes for name in one.env}
        variables |= {name for name in names if _values_of(first, name) != _values_of(second, name)}
    return [_without(side[0], settings, variables) for side in timed]


def _without(attestation: Attestation, settings: Collection[str], variables: Collection[str]) -> Attestation:
    processes = tuple(
        replace(one, env={name: value for name, value in one.env.items() if name not in variables})
        for one in attestation.processes
    )
    kept = {name: value for name, value in attestation.settings.items() if name not in settings}
    return replace(attestation, settings=kept, processes=processes)


def _values_of(attestation: Attestation, variable: str) -> set[str | None]:
    return {one.env.get(variable) for one in attestation.processes}
