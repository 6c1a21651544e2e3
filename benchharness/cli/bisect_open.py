"""A campaign to begin, or one to go on with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchharness import plan as plans
from benchharness.bisect.session import priors, state
from benchharness.bisect.session.axes import Choice
from benchharness.bisect.session.campaign import Campaign
from benchharness.bisect.session.legs import Legs
from benchharness.bisect.session.question import Question
from benchharness.bisect.session.standing import Standing
from benchharness.bisect.session.state import Leg, State
from benchharness.cli import run_start
from benchharness.errors import UsageError
from benchharness.records import Plan, Stack
from benchharness.report import console
from benchharness.spec import Experiment, parse
from benchharness.store import RunFolder, find, open_run, runs, unwritten

SUFFIX = "-bisect"


def legs_of(declared: Experiment, question: Question, results: Path) -> Legs:
    """What the experiment means to a campaign."""
    stacks = {stack.name: stack for stack in declared.stacks}
    return Legs(stacks, choice_of(declared, question), priors.of_store(results, question))


def choice_of(declared: Experiment, question: Question) -> Choice:
    """What counts as a point of an axis."""
    return Choice(declared.axes, question.paths, question.prereleases, question.yanked)


def begin(
    declared: Experiment, question: Question, leg: Leg, legs: Legs, results: Path, cache: Path
) -> Campaign:
    """A new campaign with its run folder; UsageError where its ends can be seen to be wrong."""
    from benchharness import execute

    lines = console.progress()

    def tell(text: str) -> None:
        lines.print(text, markup=False)

    made = plans.make(declared)
    ends = tuple(legs.end(leg, place) for place in (leg.places[0], leg.places[-1]))
    empty = replace(made, experiment=f"{declared.name}{SUFFIX}", stacks=ends, launches=())
    execute.check(empty)
    resolved = execute.resolve(empty, cache, tell)
    folder = run_start.folder(results, resolved, declared.source, resume=False)
    folder.keep_diffs(execute.diffs(resolved, cache))
    begun = State(folder.run.id, question, (leg,))
    state.write(folder.path, begun)
    return Campaign(folder, begun, legs, cache, tell)


def resumed(declared: Experiment, question: Question, results: Path) -> tuple[RunFolder, State]:
    """The last campaign that asked the same; UsageError where there is none."""
    found = known(declared, question, results)
    if found is not None:
        return found
    others = _campaigns(declared, results)
    if others:
        raise UsageError(
            f"the last campaign of {declared.name}, {others[0][1].id}, asks {others[0][1].question.title}",
            "ask the same, or begin anew without --resume",
        )
    raise UsageError(f"{results} holds no campaign of {declared.name} to resume", "leave --resume out")


def known(declared: Experiment, question: Question, results: Path) -> tuple[RunFolder, State] | None:
    """The last campaign that asked the same, open for writing."""
    for path, found in _campaigns(declared, results):
        if _same(found.question, question):
            return _writable(path, declared.stacks), found
    return None


def _campaigns(declared: Experiment, results: Path) -> list[tuple[Path, State]]:
    """All campaigns of an experiment, newest first."""
    name = f"{declared.name}{SUFFIX}"
    paths = [one.path for one in runs(results) if one.experiment == name]
    return [(path, state.read(path)) for path in reversed(paths) if (path / state.FILE).is_file()]


def _same(one: Question, other: Question) -> bool:
    """Budgets may grow while a campaign rests, and all culprits be wanted in the end."""
    free: dict[str, Any] = {"most_launches": 0, "most_hours": None, "every": False}
    return replace(one, **free) == replace(other, **free)


def opened(results: Path, name: str, cache: Path) -> Campaign:
    """A campaign by name, with the experiment that its run keeps; UsageError where it can't go on."""
    path = find(results, name)
    found, declared = _with_experiment(path)
    hidden = [stack.name for stack in declared.stacks if unwritten.has_masks(stack)]
    if hidden:
        raise UsageError(
            f"stack {hidden[0]} needs a secret, which was not stored",
            "go on with `benchharness bisect run EXPERIMENT ... --resume`",
        )
    legs = legs_of(declared, found.question, results)
    lines = console.progress()
    folder = _writable(path, declared.stacks)
    return Campaign(folder, found, legs, cache, lambda text: lines.print(text, markup=False))


def looked_at(results: Path, name: str) -> Standing:
    """A campaign by name, to be read only."""
    path = find(results, name)
    found, declared = _with_experiment(path)
    return Standing.of(path, legs_of(declared, found.question, results))


def _with_experiment(path: Path) -> tuple[State, Experiment]:
    found = state.read(path)
    source = open_run(path).run.experiment
    declared = parse(str(source.get("text", "")), str(source.get("file", "experiment")), _sets(source))
    if declared.name != found.question.experiment:
        raise UsageError(
            f"{path} is a campaign of {found.question.experiment}, and its experiment is {declared.name}",
            "begin a new campaign",
        )
    return found, declared


def _sets(source: Mapping[str, Any]) -> Sequence[str]:
    return [str(one) for one in source.get("sets", ())]


def _writable(path: Path, stacks: Sequence[Stack]) -> RunFolder:
    """The run of a campaign, open for writing, with the secrets of the experiment put back."""
    run = open_run(path).run
    return RunFolder(path, replace(run, plan=_with_secrets(run.plan, stacks)))


def _with_secrets(plan: Plan, stacks: Sequence[Stack]) -> Plan:
    """Variables whose values were not written down get them from the experiment's stacks."""
    values = {name: value for stack in stacks for name, value in stack.env.items()}
    return replace(
        plan,
        stacks=tuple(
            replace(
                stack,
                env={
                    **stack.env,
                    **{name: values[name] for name in unwritten.has_masks(stack) if name in values},
                },
            )
            for stack in plan.stacks
        ),
    )
