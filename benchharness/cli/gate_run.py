"""What a gate judges: which stacks against which, a run of both side by side, and where the answer goes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchharness.cli.stack_name import Side
from benchharness.errors import InfrastructureError, UsageError, nearest
from benchharness.records import LaunchStatus, Stack
from benchharness.records.bound import Thresholds
from benchharness.store import StoredRun, open_run, unwritten

BASELINE = "baseline"
MOST_REASONS = 5


def refuse_unknown_cells(stored: StoredRun, thresholds: Thresholds) -> None:
    """Refuse stacks and context lengths that the run doesn't have; UsageError."""
    stacks = [stack.name for stack in stored.run.plan.stacks]
    contexts = [workload.context_tokens for workload in stored.run.plan.workloads]
    for bound in thresholds.bounds:
        for stack in bound.stacks:
            if stack not in stacks:
                raise UsageError(f"{bound.metric}: the run has no stack {stack!r}{nearest(stack, stacks)}")
        for context in bound.contexts:
            if context not in contexts:
                known = ", ".join(map(str, contexts))
                raise UsageError(f"{bound.metric}: the run has no context {context} (it has {known})")


def pairs(
    stored: StoredRun,
    thresholds: Thresholds,
    results: Path,
    baseline: str | None,
    *,
    allow: Sequence[str],
    relaunch: bool,
) -> dict[str, Side]:
    """The candidate's stacks, each with what it is held against; empty without relative bounds.

    Raises UsageError without a baseline where one is needed, for stacks that it doesn't have, for other
    work, and for other machines unless the condition is allowed by name or both are launched anew.
    """
    if not any(bound.limit.relative for bound in thresholds.bounds):
        return {}
    if baseline is None:
        raise UsageError(
            "the thresholds hold changes against a baseline, but none is given", "add --baseline RUN"
        )
    sides = _sides(stored, results, baseline, itself=relaunch)
    if not sides:
        raise UsageError(
            f"{baseline} is the run itself and has no other stack", "use --relaunch, or another baseline"
        )
    for stack, side in sides.items():
        _refuse_other_work(Side(stored, stack), side)
        if not relaunch:
            _refuse_other_conditions(Side(stored, stack), side, allow)
    return sides


def _sides(stored: StoredRun, results: Path, baseline: str, *, itself: bool) -> dict[str, Side]:
    """Each stack with its baseline; one that would be held against `itself` only where that is wanted."""
    names = [stack.name for stack in stored.run.plan.stacks]
    try:
        only = Side.of(results, baseline)
    except UsageError as error:
        # A run with several stacks: each of the candidate's is held against its namesake.
        if "name one" not in error.advice:
            raise
        return {name: Side.of(results, f"{baseline}:{name}") for name in names}
    same_run = only.stored.path.resolve() == stored.path.resolve()
    return {name: only for name in names if itself or not (same_run and name == only.stack)}


def _refuse_other_work(candidate: Side, baseline: Side) -> None:
    from benchharness.plan import refuse_other_work

    refuse_other_work(baseline.stored.run.plan.workloads, candidate.stored.run.plan.workloads)


def _refuse_other_conditions(candidate: Side, baseline: Side, allow: Sequence[str]) -> None:
    apart = {name: both for name, both in baseline.conditions(candidate).items() if name not in allow}
    if apart:
        name, (there, here) = next(iter(apart.items()))
        more = f" (and {len(apart) - 1} more)" if len(apart) > 1 else ""
        raise UsageError(
            f"baseline and candidate were measured on different machines: {name} is {there} and {here}{more}",
            f"use --relaunch, or allow it by name: {' '.join(f'--allow {one}' for one in apart)}",
        )


def relaunched(
    stored: StoredRun, sides: Mapping[str, Side], results: Path, cache: Path
) -> tuple[StoredRun, dict[str, Side]]:
    """Launch baseline and candidate anew, interleaved; the new run, and its own pairs."""
    from benchharness import execute, plan
    from benchharness.cli import run_start
    from benchharness.report import console, progress

    if not sides:
        raise UsageError("--relaunch needs relative bounds and a --baseline", "leave it out")
    names = {(side.stored.path, side.stack): f"{BASELINE} {side.stack}" for side in sides.values()}
    stacks = [replace(_declared(side), name=names[side.stored.path, side.stack]) for side in _each(sides)]
    candidate = stored.run.plan
    launches = max(1, len(candidate.launches) // len(candidate.stacks))
    _refuse_unwritten((*stacks, *candidate.stacks))
    made = plan.beside(candidate, stacks, launches)
    execute.check(made)
    lines = console.progress()
    made = execute.resolve(made, cache, lambda text: lines.print(text, markup=False))
    with run_start.folder(results, made, stored.run.experiment, resume=False) as folder:
        folder.keep_diffs(execute.diffs(made, cache))
        with progress.watching(folder.path, made, plan.Remaining(made, execute.guessed_costs(made))) as seen:
            execute.run(folder, cache, seen)
        fresh = open_run(folder.path)
    return fresh, {stack: Side(fresh, names[side.stored.path, side.stack]) for stack, side in sides.items()}


def _refuse_unwritten(stacks: Sequence[Stack]) -> None:
    for stack in stacks:
        names = unwritten.has_masks(stack)
        if names:
            raise UsageError(
                f"stack {stack.name} needs {', '.join(names)}, whose value is a secret and was not stored",
                "put both stacks into one experiment and gate that run",
            )


def _each(sides: Mapping[str, Side]) -> list[Side]:
    return list({(side.stored.path, side.stack): side for side in sides.values()}.values())


def _declared(side: Side) -> Stack:
    return side.stored.run.plan.stack(side.stack)


def cells(stored: StoredRun, sides: Mapping[str, Side]) -> list[tuple[str, int]]:
    """The candidate's stacks and contexts: a baseline that was launched beside them is judged by nothing."""
    own = {side.stack for side in sides.values() if side.stored.path.resolve() == stored.path.resolve()}
    beside = {name for name in own if name.startswith(f"{BASELINE} ") and name not in sides}
    return [
        (stack.name, workload.context_tokens)
        for stack in stored.run.plan.stacks
        if stack.name not in beside
        for workload in stored.run.plan.workloads
    ]


def invalid(stored: StoredRun) -> list[str]:
    """Why the run may not be judged: launches that failed or were unfit, grave findings of trials."""
    fine = (LaunchStatus.DONE, LaunchStatus.UNBUILDABLE)
    reasons = [
        f"launch {launch.index} ({launch.stack}) is {launch.status}: {launch.reason}"
        for launch in stored.launches
        if launch.status not in fine
    ]
    reasons += [
        f"launch {trial.launch}, context {trial.workload.context_tokens}: {finding.sentence}"
        for _, trial in stored.trials
        for finding in trial.findings
        if finding.grave
    ]
    if not stored.run.finished:
        reasons.append("the run is not finished: go on with it by `benchharness run --resume`")
    more = len(reasons) - MOST_REASONS
    return reasons[:MOST_REASONS] + ([f"and {more} more"] if more > 0 else [])


def write(path: Path, text: str, *, append: bool = False) -> None:
    """Write a file for somebody else, whole or not at all; InfrastructureError where it can't be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if append or (path.exists() and not path.is_file()):  # a device, or a pipe
            with path.open("a" if append else "w", encoding="utf-8") as file:
                file.write(text)
            return
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise InfrastructureError(f"cannot write {path}: {error.strerror}", "choose another place") from None


def annotate(lines: Sequence[str]) -> None:
    """Workflow commands, where GitHub Actions reads them (it reads both streams)."""
    if os.environ.get("GITHUB_ACTIONS") == "true":
        sys.stderr.writelines(f"{line}\n" for line in lines)
