"""One launch of a prepared stack: start, attest, drive, check, store, stop."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchharness import machine
from benchharness.errors import EngineError, InvalidMeasurementError, UsageError
from benchharness.execute import scripting
from benchharness.execute.logwatch import LogWatch
from benchharness.execute.measuring import Measuring
from benchharness.execute.observer import Observer
from benchharness.execute.prepared import Prepared
from benchharness.records import (
    Attestation,
    Command,
    Endpoint,
    EngineFacts,
    Finding,
    Launch,
    LaunchStatus,
    Plan,
    PlannedLaunch,
    Workload,
)
from benchharness.stack import absence, attestation, probing, server
from benchharness.store import RunFolder
from benchharness.timings import log_findings, probe_file
from benchharness.timings.logs import nccl_ranks

TOLD_MISMATCHES = 4
DEATH_REPORT_S = 1.0

Trouble = (InvalidMeasurementError, EngineError, UsageError)
"""What makes a launch a result of its own; all else ends the run."""


Further = Callable[[Launch], Sequence[int]]
"""What to drive once more in a launch that runs: indices of workloads; none ends it."""


class Serving:
    """One launch of a prepared stack: start, trials, stop.

    Attributes:
        launch: the record so far.
        running, endpoint: the engine and how to talk to it; they are there while `up` lasts.
        settings, on_device: what the engine told of itself at its start.
    """

    launch: Launch
    running: server.Server
    endpoint: Endpoint

    def __init__(
        self,
        plan: Plan,
        planned: PlannedLaunch,
        prepared: Prepared,
        folder: RunFolder,
        place: Path,
        observer: Observer,
    ) -> None:
        self.plan = plan
        self.planned = planned
        self.prepared = prepared
        self.folder = folder
        self.place = place
        self.observer = observer
        self.log = place / "server.log"
        probed = plan.probe and prepared.engine.probed(prepared.stack)
        self.probe_folder = place / "probe" if probed else None
        self.unseen: tuple[str, ...] = ()
        self.settings: Mapping[str, Any] = {}
        self.on_device: tuple[Finding, ...] = ()
        self.started = False
        self._driven: Counter[int] = Counter()

    def measure(self, launch: Launch, further: Further | None = None) -> Launch:
        """Carry the launch out; engine trouble becomes its status, trouble with the store goes up.

        Args:
            launch: the record so far.
            further: asked after the planned trials, again and again, which workloads to drive once more.
        """
        self.launch = launch
        with suppress(*Trouble), self.up(), self.blamed():
            self._drive(self.planned.workloads)
            while further is not None and (more := further(self.launch)):
                self._drive(more)
            self._run_script()
        return self.ended()

    def _drive(self, workloads: Sequence[int]) -> None:
        """One trial after the other; a workload that comes again gets other prompts than before."""
        for index in workloads:
            began = time.monotonic()
            Measuring(
                self, self._driven.total(), self.plan.workloads[index], round_=self._driven[index]
            ).drive()
            self._driven[index] += 1
            self.driven(time.monotonic() - began)

    def _run_script(self) -> None:
        if self.plan.script:
            self.observer.step(f"running {Path(self.plan.script[0]).name}")
            arguments, url = self.plan.script, self.running.base_url
            timeout_s = self.plan.start_timeout_s
            ended = scripting.carry_out(arguments, url, self.planned.stack, self.planned.index, timeout_s)
            self.launch = replace(self.launch, script=ended)

    @contextmanager
    def up(self) -> Iterator[None]:
        """The engine started, attested and found fit for the work, for as long as the block lasts."""
        with ExitStack() as held:
            with self.blamed():
                port, command = self._command()
                self.launch = replace(self.launch, command=command.argv, env=command.env)
                self.observer.step("starting the engine")
                self.running = held.enter_context(self._running(command, port))
                self.started = True
                self._greet(command)
            yield
            self.observer.step("stopping the engine")

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Engine trouble in this block is this launch's: it becomes its status, and is raised again."""
        try:
            yield
        except Trouble as error:
            told = self._explained(error)
            lines = told.last_lines if isinstance(told, EngineError) else ()
            invalid = isinstance(told, InvalidMeasurementError)
            self.failed(LaunchStatus.INVALID if invalid else LaunchStatus.FAILED, str(told), lines)
            refused = nccl_ranks.refused_in(self.log) if isinstance(told, EngineError) else ""
            if refused:  # What a library refuses is a point of the matrix that can't be, and no failure.
                self.failed(LaunchStatus.UNBUILDABLE, refused, lines)
            raise

    def driven(self, seconds: float) -> None:
        """Note more time under load."""
        self.launch = replace(self.launch, requests_s=self.launch.requests_s + seconds)

    def failed(self, status: LaunchStatus, reason: str, last_lines: tuple[str, ...] = ()) -> None:
        """Note why this launch is none to be judged."""
        self.launch = replace(self.launch, status=status, reason=reason, last_lines=last_lines)

    def ended(self) -> Launch:
        """The record, with how the engine ended where it had begun."""
        if self.started:
            self.launch = replace(self.launch, server_exit=self.running.exit, stop_s=self.running.stop_s)
        return self.launch

    def _explained(self, error: Exception) -> Exception:
        """An engine that stopped answering because it died is told as dead: exit code and last lines."""
        # A death may take a moment to be reported.
        if isinstance(error, EngineError) and self.started and self.running.wait(DEATH_REPORT_S):
            try:
                self.running.check()
            except EngineError as death:
                return death
        return error

    def _greet(self, command: Command) -> None:
        """Ask the engine what it is, and refuse one that isn't what was declared."""
        self.endpoint, facts = self.prepared.engine.connect(self.prepared.stack, self.running.base_url)
        started = self.prepared.engine.start_facts(self.log)
        facts = replace(facts, settings=_resolved(self.prepared.floors, started, facts.settings))
        self.settings = facts.settings
        if self.prepared.engine.wants_gpu(self.prepared.stack):
            start = LogWatch(self.log).rows()
            self.on_device = tuple(log_findings.device_used(start, facts.settings.get("device")))
        attested = self._attest(command, facts)
        self.launch = replace(self.launch, attestation=attested, start_s=self.running.start_s)
        _refuse_mismatches(attested)
        _refuse_too_long(self.plan.workloads, self.endpoint)

    def _attest(self, command: Command, facts: EngineFacts) -> Attestation:
        """Ask the engine's processes what really reached them."""
        stack = self.prepared.stack
        # The command's variables hold the stack's own, where need be joined with ours (PYTHONPATH).
        wanted = {**stack.env, **command.env}
        reports = attestation.processes(self.running.pid, self.running.process_ids(), wanted)
        files: tuple[probe_file.ProbeFile, ...] = ()
        if self.probe_folder is not None:
            files = probe_file.read_folder(self.probe_folder)
            reports += probing.reports(files)
            self.unseen = absence.sentences(
                files, self.running.pid, self.running.process_ids(), stack.model.tp
            )
        explain = partial(self.prepared.engine.who_changes, stack)
        taken = attestation.take(stack, command.env, facts, self.prepared.environment, reports, explain)
        hooks = sorted({hook for file in files for hook in file.report.hooks})
        ruler = {"hooks": ", ".join(hooks)} if hooks else {}
        return replace(taken, machine=machine.conditions(), notes=self.unseen, ruler=ruler)

    def _command(self) -> tuple[int, Command]:
        declared = self.prepared.stack.args.get("port")
        port = declared if isinstance(declared, int) else server.free_port()
        if declared is not None and not server.port_is_free(port):
            raise EngineError(
                f"port {port} is taken", "end what listens there, or leave `port` to the harness"
            )
        prepared = self.prepared
        command = prepared.engine.command(
            prepared.stack, prepared.model, prepared.environment, port, self.plan.workloads
        )
        if self.probe_folder is not None:
            command = probing.with_probe(command, self.probe_folder)
        return port, command

    def _running(self, command: Command, port: int) -> AbstractContextManager[server.Server]:
        readiness = self.prepared.engine.readiness(self.prepared.stack)
        return server.running(
            command,
            replace(readiness, timeout_s=self.plan.start_timeout_s),
            base_url=f"http://127.0.0.1:{port}",
            log_path=self.log,
            on_wait=self.observer.waiting,
        )


def _refuse_mismatches(attested: Attestation) -> None:
    """A launch that doesn't run what was declared is not timed."""
    if attested.mismatches:
        told = "; ".join(mismatch.sentence for mismatch in attested.mismatches[:TOLD_MISMATCHES])
        more = len(attested.mismatches) - TOLD_MISMATCHES
        raise InvalidMeasurementError(
            f"what runs is not what was declared: {told}" + (f"; and {more} more" if more > 0 else ""),
            "declare what is wanted, or find out who changes it",
        )


def _refuse_too_long(workloads: Sequence[Workload], endpoint: Endpoint) -> None:
    for workload in workloads:
        need = workload.context_tokens + workload.output_tokens
        from_file = workload.prompts_file or workload.trace_file
        if endpoint.context_limit is not None and not from_file and need > endpoint.context_limit:
            raise UsageError(
                f"context {workload.context_tokens} + output {workload.output_tokens} tokens is more than "
                f"the engine's limit of {endpoint.context_limit}",
                "lower context_tokens or output_tokens, or raise the engine's limit",
            )


def _resolved(
    floors: Mapping[str, Any], started: Mapping[str, Any], told: Mapping[str, Any]
) -> dict[str, Any]:
    """All that is known of the settings: the server's own word, but for what it leaves to its start."""
    open_still = {name for name, value in told.items() if value in (None, "auto")}
    return {**floors, **told, **{k: v for k, v in started.items() if k not in told or k in open_still}}
