"""The loop that everything goes through: launch, drive, check, store.

`run` carries out what is left of a plan. A launch that fails is a result (it is stored with its
reason) and the loop goes on; a failure of the store ends it, since nothing more could be kept.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from benchharness import machine, validity
from benchharness import plan as plans
from benchharness.errors import EngineError, UnbuildableError, UsageError
from benchharness.plan import Cost
from benchharness.records import (
    Command,
    Endpoint,
    EngineCounters,
    Environment,
    EnvironmentSpec,
    Launch,
    LaunchStatus,
    Model,
    Plan,
    PlannedLaunch,
    Stack,
    Trial,
    Workload,
)
from benchharness.stack import engines, environments, models, server
from benchharness.stack.engines.adapter import Engine
from benchharness.store import RunFolder
from benchharness.timings import cycles
from benchharness.workload import client, prompts

MOST_FAILED_STARTS = 2
"""Failed starts of one stack after which its other launches are not tried: a start can take minutes."""


class Observer(Protocol):
    """Who wants to hear how the loop gets on. All calls come from the loop's own thread."""

    def launch_begins(self, planned: PlannedLaunch) -> None:
        """A launch is next."""

    def step(self, text: str) -> None:
        """What is being done now, in a few words."""

    def waiting(self, seconds: float) -> None:
        """Still waiting for the engine, since so many seconds."""

    def request_ends(self, done: int, total: int) -> None:
        """Requests of the present trial that are over."""

    def trial_ends(self, trial: Trial) -> None:
        """A trial is stored."""

    def launch_ends(self, launch: Launch) -> None:
        """A launch is stored."""


@dataclass(frozen=True)
class Prepared:
    """A stack that is ready to be launched."""

    engine: Engine
    stack: Stack
    environment: Environment | None
    model: Model


def check(plan: Plan) -> None:
    """Refuse what can be seen to be wrong before anything is built; UsageError."""
    for stack in plan.stacks:
        engines.named(stack.engine).check(stack, plan.workloads)


def environments_of(plan: Plan) -> dict[str, EnvironmentSpec | None]:
    """The environment that each stack needs, by stack name; None where the harness's own serves."""
    return {stack.name: engines.named(stack.engine).environment(stack) for stack in plan.stacks}


def guessed_costs(plan: Plan) -> dict[str, Cost]:
    """What launches will cost as far as can be said before anything was measured."""
    starts = {stack.name: engines.named(stack.engine).usual_start_s(stack) for stack in plan.stacks}
    return plans.guessed_costs(plan, starts)


def run(folder: RunFolder, cache: Path, observer: Observer) -> None:
    """Carry out the launches of a run that are not over yet.

    Raises InfrastructureError if results can't be stored, KeyboardInterrupt when interrupted; in
    both cases what was stored is whole and `run` can be called again for the rest.
    """
    plan = folder.run.plan
    done = folder.done()
    failed_starts: Counter[str] = Counter()
    for planned in plan.launches:
        if planned.index in done:
            continue
        observer.launch_begins(planned)
        place = folder.begin_launch(planned.index)
        if failed_starts[planned.stack] >= MOST_FAILED_STARTS:
            launch = _not_tried(planned)
        else:
            launch = _launch(plan, planned, folder, place, cache, observer)
        if launch.status == LaunchStatus.FAILED:
            failed_starts[planned.stack] += 1
        folder.end_launch(launch)
        observer.launch_ends(launch)
    folder.finish()


def _now() -> str:
    return datetime.now(UTC).astimezone().isoformat(timespec="milliseconds")


def _not_tried(planned: PlannedLaunch) -> Launch:
    return Launch(
        index=planned.index,
        block=planned.block,
        stack=planned.stack,
        seed=planned.seed,
        status=LaunchStatus.FAILED,
        started_at=_now(),
        reason=f"not tried: {MOST_FAILED_STARTS} launches of this stack failed before",
    )


def prepare(stack: Stack, cache: Path, observer: Observer) -> Prepared:
    """Build or find the environment and the model of a stack; UnbuildableError if it can't be."""
    engine = engines.named(stack.engine)
    spec = engine.environment(stack)
    environment = None
    if spec is not None:
        observer.step("environment")
        environment = environments.ensure(spec, cache, on_progress=observer.step)
    model = models.ensure(engine, stack, cache, on_progress=observer.step)
    return Prepared(engine, stack, environment, model)


def _launch(
    plan: Plan, planned: PlannedLaunch, folder: RunFolder, place: Path, cache: Path, observer: Observer
) -> Launch:
    """One launch from environment to end, as a record whatever happens in it."""
    stack = plan.stack(planned.stack)
    launch = Launch(
        index=planned.index,
        block=planned.block,
        stack=planned.stack,
        seed=planned.seed,
        status=LaunchStatus.DONE,
        started_at=_now(),
    )
    try:
        prepared = prepare(stack, cache, observer)
    except UnbuildableError as error:
        return replace(launch, status=LaunchStatus.UNBUILDABLE, reason=str(error))
    launch = replace(launch, environment=prepared.environment)
    return _Serving(plan, planned, prepared, folder, place, observer).measure(launch)


class _Serving:
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

    def measure(self, launch: Launch) -> Launch:
        """Carry the launch out; engine trouble becomes its status, trouble with the store goes up."""
        running = None
        try:
            port, command = self._command()
            launch = replace(launch, command=command.argv, env=command.env)
            self.observer.step("starting the engine")
            with self._running(command, port) as running:
                endpoint, facts = self.prepared.engine.connect(self.prepared.stack, running.base_url)
                launch = replace(launch, facts=facts, start_s=running.start_s)
                driven = time.monotonic()
                for position, index in enumerate(self.planned.workloads):
                    self._trial(position, self.plan.workloads[index], endpoint, running)
                    launch = replace(launch, requests_s=time.monotonic() - driven)
                self.observer.step("stopping the engine")
        except (EngineError, UsageError) as error:
            lines = error.last_lines if isinstance(error, EngineError) else ()
            launch = replace(launch, status=LaunchStatus.FAILED, reason=str(error), last_lines=lines)
        if running is not None:
            launch = replace(launch, server_exit=running.exit, stop_s=running.stop_s)
        return launch

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
        _refuse_too_long(workload, endpoint)
        self.observer.step(f"context {workload.context_tokens}")
        engine, stack = self.prepared.engine, self.prepared.stack
        before = engine.counters(stack, running.base_url)
        watch = machine.GpuWatch(running.process_ids)

        def ended_one(done: int, total: int) -> None:
            watch.sample()
            self.observer.request_ends(done, total)

        began = time.monotonic_ns()
        traces = client.drive(
            endpoint,
            workload,
            prompts=self._prompts(endpoint, workload),
            progress=ended_one,
            seed=self.planned.seed,
        )
        over = time.monotonic_ns()
        after = engine.counters(stack, running.base_url) if running.alive() else EngineCounters()
        trial = Trial(
            launch=self.planned.index,
            position=position,
            workload=workload,
            requests=traces,
            cycles=tuple(cycle for trace in traces for cycle in cycles.from_trace(trace)),
            counters=difference(before, after),
            gpus=watch.states(),
            started_ns=began,
            finished_ns=over,
        )
        trial = replace(trial, findings=validity.findings(trial))
        self.folder.append_trial(trial)
        self.observer.trial_ends(trial)
        running.check()

    def _prompts(self, endpoint: Endpoint, workload: Workload) -> Callable[[int], Sequence[int]]:
        salt, seed = self.folder.run.salt, self.planned.seed

        def of_request(request: int) -> Sequence[int]:
            return prompts.prompt_ids(
                endpoint, workload.context_tokens, seed=seed, salt=salt, request=request
            )

        return of_request


def _refuse_too_long(workload: Workload, endpoint: Endpoint) -> None:
    need = workload.context_tokens + workload.output_tokens
    if endpoint.context_limit is not None and need > endpoint.context_limit:
        raise UsageError(
            f"context {workload.context_tokens} + output {workload.output_tokens} tokens is more than the "
            f"engine's limit of {endpoint.context_limit}",
            "lower context_tokens or output_tokens, or raise the engine's limit",
        )


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
