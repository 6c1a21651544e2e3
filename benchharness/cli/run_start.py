"""A new run's folder, or the one to go on with."""

from __future__ import annotations

import secrets
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchharness import __version__, machine
from benchharness import plan as plans
from benchharness.errors import UsageError
from benchharness.plan import Cost
from benchharness.records import Plan, Run, Source
from benchharness.report import console as consoles
from benchharness.stack import engines
from benchharness.store import RunFolder, costs, create, open_run, runs, unwritten
from benchharness.workload import selftest

SELFTEST_S = 1.0
OPEN_LOOP_STREAMS = 8
"""Streams of the self-test where a rate drives: how many will be open isn't known beforehand."""


def folder(results: Path, plan: Plan, source: Mapping[str, Any], *, resume: bool) -> RunFolder:
    """Create a run, or open the last one that set out to do the same.

    Args:
        results: folder of all runs.
        plan: what is to be done.
        source: file name, text and `--set` arguments of the experiment, to be kept with the run.
        resume: open a run instead of creating one.

    Raises UsageError if there is none to resume, or none that set out to carry out this plan.
    """
    if resume:
        return _reopened(results, plan)
    now = datetime.now(UTC).astimezone()
    synthetic = any(engines.named(stack.engine).synthetic for stack in plan.stacks)
    run = Run(
        id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
        created_at=now.isoformat(timespec="seconds"),
        harness_version=__version__,
        experiment=dict(source),
        plan=plan,
        salt=secrets.token_hex(8),
        machine=machine.describe(),
        client=_selftest(plan),
        synthetic=synthetic,
    )
    return create(results, run)


def known_costs(results: Path, experiment: str) -> dict[str, Cost]:
    """What launches of this experiment took in its last run."""
    return costs.of_stacks(results, experiment)


def _selftest(plan: Plan) -> dict[str, Any]:
    """A short self-test of the client at the plan's concurrency, kept with the run."""
    streams = max((workload.concurrency or OPEN_LOOP_STREAMS for workload in plan.workloads), default=1)
    consoles.progress().print(f"measuring the client's own error at {streams} streams", markup=False)
    began = time.monotonic()
    measured = asdict(selftest.measure(concurrency=streams, duration_s=SELFTEST_S))
    return {**measured, "took_s": time.monotonic() - began}


@contextmanager
def resumable() -> Iterator[None]:
    """An interrupt in this block is passed on with the command that goes on with the run."""
    try:
        yield
    except KeyboardInterrupt:
        again = [argument for argument in sys.argv[1:] if argument != "--resume"]
        command = shlex.join(["benchharness", *again, "--resume"])
        raise KeyboardInterrupt(f"what was measured is stored; go on with: {command}") from None


def _reopened(results: Path, plan: Plan) -> RunFolder:
    of_experiment = [summary for summary in runs(results) if summary.experiment == plan.experiment]
    if not of_experiment:
        raise UsageError(f"{results} holds no run of {plan.experiment} to resume", "run it without --resume")
    for summary in reversed(of_experiment):
        stored = open_run(summary.path)
        if plans.is_grown_from(stored.run.plan, unwritten.plan(plan)):
            # Secrets are in the experiment alone, and not in what was stored of it.
            grown = replace(plan, launches=stored.run.plan.launches)
            return RunFolder(stored.path, replace(stored.run, plan=grown))
    last = open_run(of_experiment[-1].path).run
    moved = _moved(last.plan, unwritten.plan(plan))
    if moved:
        raise UsageError(
            f"the code of {moved} is not what the last run, {last.id}, set out with",
            "bring the clone back to it (uncommitted work is kept under sources/ in the run's folder), "
            "or run it without --resume",
        )
    raise UsageError(
        f"the last run, {of_experiment[-1].run}, set out to do something else than this experiment does now",
        "undo the changes of the file or of --set, or run it without --resume",
    )


def _moved(before: Plan, now: Plan) -> str:
    """Names of the stacks whose code alone sets two plans apart; empty where more does."""

    def without_code(plan: Plan) -> Plan:
        plain = (replace(stack, source=Source(repo=stack.source.repo)) for stack in plan.stacks)
        return replace(plan, stacks=tuple(plain))

    if without_code(before) != without_code(now):
        return ""
    pairs = zip(before.stacks, now.stacks, strict=True)
    return ", ".join(one.name for one, other in pairs if one.source != other.source)
