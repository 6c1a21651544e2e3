"""One workload measured in one launch: what comes before its requests, and what after them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from benchharness import machine, validity
from benchharness.errors import EngineError
from benchharness.execute.logwatch import LogWatch
from benchharness.records import Cycle, EngineCounters, Finding, RequestTrace, Trial, Workload
from benchharness.stack import absence, probing, procfs
from benchharness.stats import steadiness
from benchharness.timings import cycles, log_cycles, log_findings, probe_cycles
from benchharness.workload import achieved, client, load, prompts

if TYPE_CHECKING:
    from benchharness.execute.serving import Serving


class Measuring:
    """A trial of a launch whose engine serves.

    `begin`, then the requests with `request_ends` told of each, then `end`; `drive` does all three.

    Args:
        serving: the launch.
        position: the trial's place in it.
        workload: what is driven.
        engine_pids: all processes that may be on a GPU meanwhile; the engine's own by default.
        round_: how often this launch drove the workload before: each round has prompts of its own.
    """

    def __init__(
        self,
        serving: Serving,
        position: int,
        workload: Workload,
        engine_pids: Callable[[], Collection[int]] | None = None,
        round_: int = 0,
    ) -> None:
        self.serving = serving
        self.position = position
        self.workload = workload
        self._seed = serving.planned.seed + round_
        self._engine_pids = engine_pids or serving.running.process_ids

    def drive(self) -> None:
        """Measure it, one launch alone."""
        self.begin()
        with self._switching() as before_send:
            traces = client.drive(
                self.serving.endpoint,
                self.workload,
                prompts=self.prompts,
                progress=self.request_ends,
                seed=self._seed,
                before_send=before_send,
            )
        self.end(traces)

    def begin(self) -> None:
        """Make the prompts and note where everything stands."""
        serving = self.serving
        serving.observer.step(f"context {self.workload.context_tokens}")
        engine, stack = serving.prepared.engine, serving.prepared.stack
        # What an earlier trial left in a prefix cache takes room and, with a shared prefix, time.
        engine.flush_cache(stack, serving.running.base_url)
        salt = serving.folder.run.salt
        self.prompts = prompts.for_workload(serving.endpoint, self.workload, seed=self._seed, salt=salt)
        self._before = engine.counters(stack, serving.running.base_url)
        self._watch, self._log = machine.GpuWatch(self._engine_pids), LogWatch(serving.log)
        self._cpu_s = procfs.cpu_s(serving.running.process_ids())
        self._began = time.monotonic_ns()

    def request_ends(self, done: int, total: int) -> None:
        """Between two requests."""
        self._watch.sample()
        self._log.mark()
        self.serving.observer.request_ends(done, total)

    def end(self, traces: tuple[RequestTrace, ...]) -> None:
        """Store what came of it, also when the engine died of it; EngineError then."""
        over = time.monotonic_ns()
        spent_s = procfs.cpu_s(self.serving.running.process_ids()) - self._cpu_s
        after, trouble = self._counters_after()
        timed, shortcomings = self._cycles(traces, over)
        if not timed:
            since = min((trace.sent_ns for trace in traces if not trace.warmup), default=self._began)
            timed = log_cycles.cycles(self._log.rows_since(since), self._log_interval())
        trial = Trial(
            launch=self.serving.planned.index,
            position=self.position,
            workload=self.workload,
            requests=traces,
            cycles=timed,
            counters=difference(self._before, after),
            achieved=asdict(achieved.achieved(traces, self.workload.concurrency, self.workload.turns)),
            gpus=self._watch.states(),
            started_ns=self._began,
            finished_ns=over,
            engine_cpu_s=spent_s if spent_s > 0 else None,
        )
        found = self._findings(trial, shortcomings)
        trial = replace(trial, findings=tuple(sorted(found, key=lambda finding: not finding.grave)))
        self.serving.folder.append_trial(trial)
        self.serving.observer.trial_ends(trial)
        if trouble is not None:
            raise trouble
        self.serving.running.check()

    def _findings(self, trial: Trial, shortcomings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        workload, settings = self.workload, self.serving.settings
        ceiling = self.serving.folder.run.client.get("events_per_s")
        return (
            *validity.findings(trial),
            *achieved.findings(workload, trial.requests, ceiling),
            *shortcomings,
            *steadiness.findings(trial),
            *log_findings.findings(self._log.rows_since(_measured_from(trial))),
            *log_findings.graph_hazard(settings, workload.concurrency),
            *log_findings.graphs_as_captured(settings, trial.cycles),
            *self.serving.on_device,
        )

    def _switching(self) -> AbstractContextManager[client.BeforeSend | None]:
        """Where the probe alternates, what switches it before each request; it is on for warm-up ones."""
        folder = self.serving.probe_folder
        if self.serving.plan.probe != "alternate" or folder is None:
            return nullcontext()
        order = load.alternation(self.workload.requests, self.serving.planned.seed)
        return probing.alternating(folder, (True,) * prompts.warmups(self.workload) + order)

    def _cycles(
        self, traces: tuple[RequestTrace, ...], ended_ns: int
    ) -> tuple[tuple[Cycle, ...], tuple[Finding, ...]]:
        """Cycles by the probe where it told of some, else by what came with the answers."""
        streamed = tuple(cycle for trace in traces for cycle in cycles.from_trace(trace))
        if self.serving.probe_folder is None:
            return streamed, ()
        files = probing.files(self.serving.probe_folder, self._began, ended_ns)
        probed = probe_cycles.cycles(files, [trace for trace in traces if trace.probed is not False])
        shortcomings = probe_cycles.findings(files, self.serving.prepared.stack.model.tp, self.serving.unseen)
        return probed or streamed, (*absence.deaths(files), *shortcomings)

    def _log_interval(self) -> int:
        """Cycles of a window of the engine's log."""
        declared = self.serving.settings.get("decode_log_interval")
        return declared if isinstance(declared, int) and declared > 0 else log_cycles.USUAL_INTERVAL

    def _counters_after(self) -> tuple[EngineCounters, EngineError | None]:
        """The counters once more, or why the engine doesn't tell them: the trial is stored all the same."""
        prepared, base_url = self.serving.prepared, self.serving.running.base_url
        try:
            return prepared.engine.counters(prepared.stack, base_url), None
        except EngineError as error:
            return EngineCounters(), error


def _measured_from(trial: Trial) -> int:
    """When the first request that counts was sent."""
    sent = (trace.sent_ns for trace in trial.requests if not trace.warmup)
    return min(sent, default=trial.started_ns)


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
