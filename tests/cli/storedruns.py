"""Runs that never ran, written by the store itself: for tests that need many, or values to the point."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from commandline import Ended

from benchharness.cli.group import run
from benchharness.records import (
    Attestation,
    Cycle,
    Failure,
    Finding,
    Launch,
    LaunchStatus,
    Plan,
    PlannedLaunch,
    RequestTrace,
    Run,
    Source,
    Stack,
    Trial,
    Workload,
)
from benchharness.store import create

WORK = Workload(context_tokens=16, output_tokens=4, requests=1, warmup_requests=0)
MACHINE = {"cpu": "a processor", "usable_cpus": 2, "memory_bytes": 2**34, "kernel": "6.1", "gpus": []}


def stored(
    results: Path,
    name: str,
    values: Mapping[str, Sequence[float]],
    *,
    work: Workload = WORK,
    commit: str | None = None,
    packages: Mapping[str, str] | None = None,
    machine: Mapping[str, object] = MACHINE,
    verify_ms: float | None = None,
    failure: Failure | None = None,
    findings: tuple[Finding, ...] = (),
    **run_parts: object,
) -> Path:
    """A finished run of stacks, with the cycle of each of their launches in ms (also its request's time).

    `verify_ms` is of each cycle; with `failure` every request fails so.
    """
    source = Source(repo="/clone", commit=commit) if commit else Source()
    stacks = tuple(Stack(stack, "sglang", source) for stack in values)
    pairs = [(block, stack) for block in range(len(next(iter(values.values())))) for stack in values]
    planned = tuple(PlannedLaunch(i, block, stack, (0,), 1) for i, (block, stack) in enumerate(pairs))
    plan = Plan("stored", stacks, (work,), planned, "interleaved", 1)
    created = f"2026-{name[4:6]}-{name[6:8]}T00:00:00+00:00" if name[:8].isdigit() else "2026-01-01T00:00:00"
    made = Run(
        name, created, "0", {"file": "stored it.yaml", "text": "", "sets": []}, plan, "s", dict(machine)
    )
    attested = Attestation("1", packages={"torch": "2.1", **(packages or {})})
    with create(results, replace(made, **run_parts)) as folder:  # type: ignore[arg-type]
        for launch in planned:
            value = values[launch.stack][launch.block]
            folder.begin_launch(launch.index)
            done = int(1e6 * value)
            request = RequestTrace(0, False, 16, 0, 0, done, (1, done), (1, 3), output_tokens=4)
            cycles = tuple(Cycle(0, i, 3, value, None, verify_ms, None, "log", "host") for i in range(2))
            trial = Trial(
                launch.index, 0, work, (replace(request, failure=failure),), cycles, findings=findings
            )
            folder.append_trial(trial)
            place = (launch.index, launch.block, launch.stack, 1)
            folder.end_launch(Launch(*place, LaunchStatus.DONE, "2026", attestation=attested))
        folder.finish()
    return folder.path


def called(*arguments: str | Path) -> Ended:
    """A command in this process: as `bench`, but for the second that a start takes."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([str(argument) for argument in arguments])
    return Ended(status, out.getvalue(), err.getvalue())
