"""Getting the probe into an engine's processes, and its word out of them."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from benchharness.records import Command, ProcessReport
from benchharness.timings import probe_file
from benchharness.timings.probe_file import ProbeFile

PROBE = Path(__file__).parents[1] / "probe"
PLUGIN = PROBE / "plugin"
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
        "PYTHONPATH": os.pathsep.join([str(PROBE), str(PLUGIN), *([users] if users else [])]),
        FOLDER: str(folder.absolute()),
    }
    # Whatever is set for the engine is to be told back, beside the probe's own allow-list.
    return replace(command, env={**env, DECLARED: ",".join(sorted([*env, DECLARED]))})


@contextmanager
def alternating(folder: Path, order: Sequence[bool]) -> Iterator[Callable[[int], bool | None]]:
    """Switch the probe by request while the block lasts; on again afterwards.

    The engine's processes look at their byte once a cycle, so a switch holds from the next cycle on, and a
    cycle that runs at that moment is recorded whole or not at all.

    Args:
        folder: where the processes left their files.
        order: on or off for each request by its index.

    Yields:
        To be called with a request's index before it is sent: switches, and returns what it switched to;
        None where no process has a file, so that nothing can be switched.
    """
    with ExitStack() as stack:
        maps = [stack.enter_context(_mapped(path)) for path in sorted(folder.glob("*.probe*"))]

        def switch(on: bool) -> None:
            for mapped in maps:
                mapped[probe_file.SWITCH_AT] = on

        def before_send(index: int) -> bool | None:
            switch(order[index])
            return order[index] if maps else None

        try:
            yield before_send
        finally:
            switch(True)


def _mapped(path: Path) -> mmap.mmap:
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), probe_file.FIRST_RECORD)


def files(folder: Path, began_ns: int, ended_ns: int) -> tuple[ProbeFile, ...]:
    """Each process's file, with only those passes that began in a window of CLOCK_MONOTONIC."""
    return tuple(
        replace(file, rows=tuple(row for row in file.rows if began_ns <= row.start_ns <= ended_ns))
        for file in probe_file.read_folder(folder)
    )


def reports(files: Sequence[ProbeFile]) -> tuple[ProcessReport, ...]:
    """What the processes that run a model say of themselves."""
    told = (file.report for file in files)
    return tuple(report.process for report in told if report.rank is not None)
