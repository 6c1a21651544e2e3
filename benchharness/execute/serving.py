"""One launch of a prepared stack: start, attest, drive, check, store, stop."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchharness import machine, validity
from benchharness.errors import EngineError, InvalidMeasurementError, UsageError
from benchharness.execute.logwatch import LogWatch
from benchharness.execute.observer import Observer
from benchharness.execute.prepared import Prepared
from benchharness.records import (
    Attestation,
    Command,
    Cycle,
    Endpoint,
    EngineCounters,
    EngineFacts,
    Finding,
    Launch,
    LaunchStatus,
    Plan,
    PlannedLaunch,
    RequestTrace,
    Trial,
    Workload,
)
from benchharness.stack import absence, attestation, probing, server
from benchharness.stats import steadiness
from benchharness.store import RunFolder
from benchharness.timings import cycles, log_cycles, log_findings, probe_cycles, probe_file
from benchharness.workload import achieved, client, load, prompts

TOLD_MISMATCHES = 4
DEATH_REPORT_S = 1.0


class Serving:
    """One launch of a prepared stack: start, trials, stop."""

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
        probed = plan.probe and prepared.engine.probed
        self.probe_folder = place / "probe" if probed else None
        self.unseen: tuple[str, ...] = ()
        self.settings: Mapping[str, Any] = {}
        self.on_device: tuple[Finding, ...] = ()

    def measure(self, launch: Launch) -> Launch:
        """Carry the launch out; engine trouble becomes its status, trouble with the store goes up."""
        running = None
        try:
            port, command = self._command()
            launch = replace(launch, command=command.argv, env=command.env)
            self.observer.step("starting the engine")
            with self._running(command, port) as running, _death_explains(running):
                endpoint, facts = self.prepared.engine.connect(self.prepared.stack, running.base_url)
                started = self.prepared.engine.start_facts(self.place / "server.log")
                facts = replace(facts, settings=_resolved(self.prepared.floors, started, facts.settings))
                self.settings = facts.settings
                if self.prepared.engine.wants_gpu(self.prepared.stack):
                    start = LogWatch(self.place / "server.log").rows()
                    self.on_device = tuple(log_findings.device_used(start, facts.settings.get("device")))
                attested = self._attest(command, facts, running)
                launch = replace(launch, attestation=attested, start_s=running.start_s)
                _refuse_mismatches(attested)
                _refuse_too_long(self.plan.workloads, endpoint)
                driven = time.monotonic()
                for position, index in enumerate(self.planned.workloads):
                    self._trial(position, self.plan.workloads[index], endpoint, running)
                    launch = replace(launch, requests_s=time.monotonic() - driven)
                self.observer.step("stopping the engine")
        except InvalidMeasurementError as error:
            launch = replace(launch, status=LaunchStatus.INVALID, reason=str(error))
        except (EngineError, UsageError) as error:
            lines = error.last_lines if isinstance(error, EngineError) else ()
            launch = replace(launch, status=LaunchStatus.FAILED, reason=str(error), last_lines=lines)
        if running is not None:
            launch = replace(launch, server_exit=running.exit, stop_s=running.stop_s)
        return launch

    def _attest(self, command: Command, facts: EngineFacts, running: server.Server) -> Attestation:
        """Ask the engine's processes what really reached them."""
        stack = self.prepared.stack
        # The command's variables hold the stack's own, where need be joined with ours (PYTHONPATH).
        wanted = {**stack.env, **command.env}
        reports = attestation.processes(running.pid, running.process_ids(), wanted)
        files: tuple[probe_file.ProbeFile, ...] = ()
        if self.probe_folder is not None:
            files = probe_file.read_folder(self.probe_folder)
            reports += probing.reports(files)
            self.unseen = absence.sentences(files, running.pid, running.process_ids(), stack.model.tp)
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
            log_path=self.place / "server.log",
            on_wait=self.observer.waiting,
        )

    def _trial(self, position: int, workload: Workload, endpoint: Endpoint, running: server.Server) -> None:
        """Drive one workload and store what came of it, also when the engine died of it."""
        self.observer.step(f"context {workload.context_tokens}")
        engine, stack = self.prepared.engine, self.prepared.stack
        # What an earlier trial left in a prefix cache takes room and, with a shared prefix, time.
        engine.flush_cache(stack, running.base_url)
        seed, run = self.planned.seed, self.folder.run
        sent = prompts.for_workload(endpoint, workload, seed=seed, salt=run.salt)
        before = engine.counters(stack, running.base_url)
        watch, log = machine.GpuWatch(running.process_ids), LogWatch(self.place / "server.log")

        def ended_one(done: int, total: int) -> None:
            watch.sample()
            log.mark()
            self.observer.request_ends(done, total)

        began = time.monotonic_ns()
        with self._switching(workload) as before_send:
            traces = client.drive(
                endpoint,
                workload,
                prompts=sent,
                progress=ended_one,
                seed=seed,
                before_send=before_send,
            )
        over = time.monotonic_ns()
        after, trouble = self._counters_after(running)
        timed, shortcomings = self._cycles(traces, began, over)
        if not timed:
            since = min((trace.sent_ns for trace in traces if not trace.warmup), default=began)
            timed = log_cycles.cycles(log.rows_since(since), self._log_interval())
        trial = Trial(
            launch=self.planned.index,
            position=position,
            workload=workload,
            requests=traces,
            cycles=timed,
            counters=difference(before, after),
            achieved=asdict(achieved.achieved(traces, workload.concurrency, workload.turns)),
            gpus=watch.states(),
            started_ns=began,
            finished_ns=over,
        )
        ceiling = run.client.get("events_per_s")
        found = (
            *validity.findings(trial),
            *achieved.findings(workload, traces, ceiling),
            *shortcomings,
            *steadiness.findings(trial),
            *log_findings.findings(log.rows_since(_measured_from(trial))),
            *log_findings.graph_hazard(self.settings, workload.concurrency),
            *log_findings.graphs_as_captured(self.settings, timed),
            *self.on_device,
        )
        trial = replace(trial, findings=tuple(sorted(found, key=lambda finding: not finding.grave)))
        self.folder.append_trial(trial)
        self.observer.trial_ends(trial)
        if trouble is not None:
            raise trouble
        running.check()

    def _switching(self, workload: Workload) -> AbstractContextManager[client.BeforeSend | None]:
        """Where the probe alternates, what switches it before each request; it is on for warm-up ones."""
        if self.plan.probe != "alternate" or self.probe_folder is None:
            return nullcontext()
        order = load.alternation(workload.requests, self.planned.seed)
        return probing.alternating(self.probe_folder, (True,) * prompts.warmups(workload) + order)

    def _cycles(
        self, traces: tuple[RequestTrace, ...], began_ns: int, ended_ns: int
    ) -> tuple[tuple[Cycle, ...], tuple[Finding, ...]]:
        """Cycles by the probe where it told of some, else by what came with the answers."""
        streamed = tuple(cycle for trace in traces for cycle in cycles.from_trace(trace))
        if self.probe_folder is None:
            return streamed, ()
        files = probing.files(self.probe_folder, began_ns, ended_ns)
        probed = probe_cycles.cycles(files, [trace for trace in traces if trace.probed is not False])
        shortcomings = probe_cycles.findings(files, self.prepared.stack.model.tp, self.unseen)
        return probed or streamed, (*absence.deaths(files), *shortcomings)

    def _log_interval(self) -> int:
        """Cycles of a window of the engine's log."""
        declared = self.settings.get("decode_log_interval")
        return declared if isinstance(declared, int) and declared > 0 else log_cycles.USUAL_INTERVAL

    def _counters_after(self, running: server.Server) -> tuple[EngineCounters, EngineError | None]:
        """The counters once more, or why the engine doesn't tell them: the trial is stored all the same."""
        try:
            return self.prepared.engine.counters(self.prepared.stack, running.base_url), None
        except EngineError as error:
            return EngineCounters(), error


def _measured_from(trial: Trial) -> int:
    """When the first request that counts was sent."""
    sent = (trace.sent_ns for trace in trial.requests if not trace.warmup)
    return min(sent, default=trial.started_ns)


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


@contextmanager
def _death_explains(running: server.Server) -> Iterator[None]:
    """An engine that stopped answering because it died is told as dead, with its exit code and last lines."""
    try:
        yield
    except EngineError:
        # A death may take a moment to be reported.
        if running.wait(DEATH_REPORT_S):
            running.check()
        raise


def difference(before: EngineCounters, after: EngineCounters) -> EngineCounters:
    """What the counters moved by; None where either reading is missing."""

    def moved(name: str) -> int | None:
        first, second = getattr(before, name), getattr(after, name)
        return None if first is None or second is None else second - first

    return EngineCounters(
        output_tokens=moved("output_tokens"),
        drafted_tokens=moved("drafted_tokens"),
        accepted_tokens=moved("accepted_tokens"),
        cycles=moved("cycles"),
    )


def _resolved(
    floors: Mapping[str, Any], started: Mapping[str, Any], told: Mapping[str, Any]
) -> dict[str, Any]:
    """All that is known of the settings: the server's own word, but for what it leaves to its start."""
    open_still = {name for name, value in told.items() if value in (None, "auto")}
    return {**floors, **told, **{k: v for k, v in started.items() if k not in told or k in open_still}}
