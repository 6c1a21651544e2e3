"""What is stored of launches and runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from benchharness.records.attestation import Attestation
from benchharness.records.declared import Plan
from benchharness.records.ready import Environment

FORMAT_VERSION = 1


class LaunchStatus(StrEnum):
    """How a launch ended."""

    DONE = "done"
    FAILED = "failed"
    UNBUILDABLE = "unbuildable"
    INVALID = "invalid"


@dataclass(frozen=True)
class ServerExit:
    """How the engine's process ended.

    Attributes:
        exit_code: as the operating system reports it; negative for a signal.
        cpu_s: user and system CPU seconds of the engine and its reaped children.
        max_rss_bytes: largest resident set of any one process among them.
        forced: it had to be killed after the shutdown deadline.
    """

    exit_code: int | None
    cpu_s: float
    max_rss_bytes: int
    forced: bool


@dataclass(frozen=True)
class ScriptEnd:
    """How the user's program ended that was run against the engine.

    Attributes:
        exit_code: negative for a signal; None if it took too long.
        value: the last number in the last line that it printed; None where there was none.
        output: the end of what it printed.
    """

    exit_code: int | None
    value: float | None
    output: str = ""


@dataclass(frozen=True)
class Launch:
    """One start of one stack, as stored when it is over.

    Attributes:
        index, block, stack, seed: as planned.
        status, reason, last_lines: how it ended; reason and log lines where it did not go well.
        started_at: wall-clock start, ISO 8601 with offset.
        command, env: the argument list, and the variables that the harness set.
        environment: key and exact packages; None if it could not be built.
        attestation: what really ran; with a mismatch in it the launch is invalid and nothing was timed.
        start_s, requests_s, stop_s: seconds from process creation to readiness, under load, to end.
        server_exit: how the process ended.
        script: how `measure.script` ended; None without one.
    """

    index: int
    block: int
    stack: str
    seed: int
    status: LaunchStatus
    started_at: str
    reason: str = ""
    last_lines: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str | None] = field(default_factory=dict)
    environment: Environment | None = None
    attestation: Attestation = field(default_factory=Attestation)
    start_s: float = 0.0
    requests_s: float = 0.0
    stop_s: float = 0.0
    server_exit: ServerExit | None = None
    script: ScriptEnd | None = None


@dataclass(frozen=True)
class Run:
    """One execution of one experiment, as stored in run.json.

    Attributes:
        id: its folder's name.
        created_at: ISO 8601 with offset.
        harness_version: version of this package.
        experiment: the experiment document after `--set`, as plain data.
        plan: what was to be done.
        salt: makes this run's prompts differ from every other run's, so that no cache helps.
        machine: what the machine is (see `machine.py`).
        client: the client's self-test on this machine just before (see `workload/selftest.py`).
        finished: every planned launch has ended, well or not.
        synthetic: the engine is a stand-in, so no figure here says anything of a real one.
    """

    id: str
    created_at: str
    harness_version: str
    experiment: Mapping[str, Any]
    plan: Plan
    salt: str
    machine: Mapping[str, Any] = field(default_factory=dict)
    client: Mapping[str, Any] = field(default_factory=dict)
    finished: bool = False
    synthetic: bool = False
    format_version: int = FORMAT_VERSION
