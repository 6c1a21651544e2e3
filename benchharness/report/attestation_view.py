"""What each launch really ran and on what, for programs that read its figures."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from benchharness.records import Launch, ProcessReport
from benchharness.store import StoredRun


def document(stored: StoredRun) -> list[dict[str, Any]]:
    """One object a launch: engine, machine, processes, what differs, what was not seen."""
    return [_launch(launch) for launch in stored.launches]


def _launch(launch: Launch) -> dict[str, Any]:
    attested = launch.attestation
    return {
        "launch": launch.index,
        "stack": launch.stack,
        "engine_version": attested.engine_version,
        "machine": dict(attested.machine),
        "processes": [_process(report) for report in attested.processes],
        "mismatches": [mismatch.sentence for mismatch in attested.mismatches],
        "notes": list(attested.notes),
    }


def _process(report: ProcessReport) -> dict[str, Any]:
    return {
        "pid": report.pid,
        "rank": report.rank,
        "gpu": report.gpu,
        "told_by": report.source,
        "probe_came_by": report.came_by or None,
        "nccl": report.versions.get("nccl"),
        "versions": dict(report.versions),
        "all_reduce": list(report.all_reduce),
        "libraries": {name: list(paths) for name, paths in report.libraries.items()},
        "env": dict(report.env),
    }


def gpus(stored: StoredRun) -> list[dict[str, Any]]:
    """What each GPU did in each trial: clocks, what held them down, other processes on it."""
    return [
        {"launch": trial.launch, "context_tokens": trial.workload.context_tokens, **asdict(gpu)}
        for _, trial in stored.trials
        for gpu in trial.gpus
    ]
