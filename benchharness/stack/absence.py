"""Where the probe was wanted and is not: which process left no file, and why, as far as can be seen."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from benchharness.records import Finding
from benchharness.stack import procfs
from benchharness.stack.probing import FOLDER, PROBE
from benchharness.timings.probe_file import ProbeFile

MOST_NAMED = 4


def sentences(files: Sequence[ProbeFile], main_pid: int, pids: Sequence[int], ranks: int) -> tuple[str, ...]:
    """What the probe does not see of a launch, one sentence each; empty where it is everywhere.

    Args:
        files: what the processes left so far.
        main_pid: the engine's own process.
        pids: all processes of its tree, as they are now.
        ranks: how many processes run a model.
    """
    have = {file.report.pid for file in files}
    silent = [pid for pid in procfs.engine_processes(main_pid, pids) if pid not in have]
    reasons = {pid: reason for pid in silent if (reason := _reason(pid))}
    if not files:
        why = _listed(reasons) or (
            "none of them imported the engine, or another sitecustomize stands before the probe's"
        )
        return (f"the probe was wanted, but no process left a file: {why}",)
    return tuple(_missing(files, reasons, ranks))


def _missing(files: Sequence[ProbeFile], reasons: dict[int, str], ranks: int) -> Iterator[str]:
    seen = {file.report.rank for file in files}
    # One that has recorded passes and doesn't know its rank may be any of them.
    unknown = any(file.rows for file in files if file.report.rank is None)
    missing = [str(rank) for rank in range(ranks) if rank not in seen and not unknown]
    if missing:
        why = f": {_listed(reasons)}" if reasons else ""
        yield f"the probe was wanted, but rank {' and '.join(missing)} left no file{why}"
    elif reasons:
        yield f"the probe was wanted, but not all processes left a file: {_listed(reasons)}"


def _reason(pid: int) -> str:
    """Why the probe can't have come into that process; empty where nothing is seen."""
    options = procfs.python_options(procfs.arguments(pid))
    for letter in "IE":
        if letter in options:
            return f"its interpreter runs isolated (-{letter}), which ignores PYTHONPATH"
    if "S" in options:
        return "its interpreter runs with -S, without a sitecustomize"
    env = procfs.environ(pid)
    if env and FOLDER not in env:
        return f"{FOLDER} is not in its environment"
    if env and str(PROBE) not in env.get("PYTHONPATH", "").split(os.pathsep):
        return "the probe is not on its PYTHONPATH"
    return ""


def _listed(reasons: dict[int, str]) -> str:
    told = [f"process {pid}: {reason}" for pid, reason in sorted(reasons.items())]
    more = f"; and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else ""
    return "; ".join(told[:MOST_NAMED]) + more


def deaths(files: Sequence[ProbeFile]) -> tuple[Finding, ...]:
    """Processes that ran a model and have ended; what they recorded until then was read."""
    return tuple(
        Finding(
            "workers-alive",
            True,
            f"{file.report.process.name} has died; the {len(file.rows)} passes that it had recorded "
            "in this trial were read",
        )
        for file in files
        if file.report.rank is not None and procfs.is_dead(file.report.pid)
    )
