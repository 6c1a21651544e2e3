"""Getting the probe into an engine's processes, and its word out of them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from benchharness.records import Command, ProcessReport
from benchharness.timings import probe_file
from benchharness.timings.probe_file import ProbeFile

PROBE = Path(__file__).parents[1] / "probe"
FOLDER = "BENCHHARNESS_PROBE_DIR"
DECLARED = "BENCHHARNESS_PROBE_ENV"


def with_probe(command: Command, folder: Path) -> Command:
    """The command with the probe first on PYTHONPATH, before whatever stands there.

    Args:
        command: of the engine.
        folder: where each process leaves its file; made here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    users = command.env.get("PYTHONPATH", os.environ.get("PYTHONPATH"))
    env = {
        **command.env,
        "PYTHONPATH": os.pathsep.join([str(PROBE), *([users] if users else [])]),
        FOLDER: str(folder.absolute()),
    }
    # Whatever is set for the engine is to be told back, beside the probe's own allow-list.
    return replace(command, env={**env, DECLARED: ",".join(sorted([*env, DECLARED]))})


def files(folder: Path, began_ns: int, ended_ns: int) -> tuple[ProbeFile, ...]:
    """Each process's file, with only those passes that began in a window of CLOCK_MONOTONIC."""
    return tuple(
        replace(file, rows=tuple(row for row in file.rows if began_ns <= row.start_ns <= ended_ns))
        for file in probe_file.read_folder(folder)
    )


def reports(folder: Path) -> tuple[ProcessReport, ...]:
    """What the processes that run a model say of themselves."""
    told = (file.report for file in probe_file.read_folder(folder))
    return tuple(report.process for report in told if report.rank is not None)
