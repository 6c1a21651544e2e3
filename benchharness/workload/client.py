"""Drives a workload through an endpoint and says what was seen: one `RequestTrace` a request.

While anything streams, bytes are stored with their stamps and nothing else happens: bodies are built
before, responses are parsed after.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from benchharness.records import Endpoint, RequestTrace, Workload
from benchharness.workload import clock, transport
from benchharness.workload.dialects import Dialect, dialect
from benchharness.workload.load import arrivals
from benchharness.workload.prompts import Prompts, as_prompt, warmups
from benchharness.workload.pulse import Gap, Pulse
from benchharness.workload.traces import Sent, trace_of
from benchharness.workload.transport import Recording, Transport

HELD_BYTES = 512 * 1024 * 1024
"""Finished responses wait to be parsed until nothing streams any more, or until they take this much."""

Progress = Callable[[int, int], None]
"""Called with (requests ended, requests in all), warm-up included."""

BeforeSend = Callable[[int], bool | None]
"""Called with a request's index just before it is sent; what it returns is the trace's `probed`."""


@dataclass(frozen=True, slots=True)
class Job:
    """One request, ready to be sent; `due_s` counts from the start of the measured part."""

    sent: Sent
    body: bytes
    due_s: float | None = None
    after: int | None = None


async def fetch(
    endpoint: Endpoint,
    body: bytes,
    *,
    prompt_tokens: int = 0,
    timeout_s: float = 300.0,
    index: int = 0,
    warmup: bool = False,
    wire: Transport | None = None,
) -> RequestTrace:
    """Send one request and return what came of it; a failure is in the trace, not raised.

    Args:
        endpoint: where to.
        body: the request body, as the endpoint's dialect builds it.
        prompt_tokens: length of the prompt in it.
        timeout_s: longest time from connecting to the last byte.
        index, warmup: go into the trace.
        wire: the transport; by default the one that suits the endpoint's URL.
    """
    speech = dialect(endpoint.dialect)
    wire = wire or transport.make(endpoint.base_url)
    recording = await wire.exchange(speech.path, body, timeout_s)
    return trace_of(recording, speech, Sent(index, warmup, prompt_tokens))


def drive(
    endpoint: Endpoint,
    workload: Workload,
    *,
    prompts: Prompts,
    progress: Progress | None = None,
    seed: int = 0,
    wire: Transport | None = None,
    before_send: BeforeSend | None = None,
) -> tuple[RequestTrace, ...]:
    """Drive `workload` through `endpoint`; warm-up requests come first and are in the result too.

    A request that fails is in the result with its reason. Ctrl-C ends the requests under way and is
    raised as KeyboardInterrupt.

    Args:
        endpoint: where to, and in which dialect.
        workload: how many requests, how long, in which load.
        prompts: the prompt of each request by its index, warm-up included (see `prompts.for_workload`).
        progress: told of every request that ends.
        seed: seeds Poisson arrivals.
        wire: the transport; by default the one that suits the endpoint's URL.
        before_send: called before each request is sent. It holds up whatever streams at that moment.

    Returns:
        One trace a request, in the order of their indices.

    Raises:
        UsageError: the workload or the endpoint can't be used.
    """
    speech = dialect(endpoint.dialect)
    first, measured = jobs_of(endpoint, workload, speech, prompts, seed)
    session = Drive(speech, workload, wire or transport.make(endpoint.base_url), progress)
    session.before_send = before_send
    session.total = len(first) + len(measured)
    with undisturbed() as runner:
        runner.run(session.run(first, measured))
    return session.finished()


@contextmanager
def undisturbed() -> Iterator[asyncio.Runner]:
    """An event loop to drive on, with the garbage collector off."""
    with _quiet_collector(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        yield runner


def jobs_of(
    endpoint: Endpoint, workload: Workload, speech: Dialect, prompts: Prompts, seed: int
) -> tuple[list[Job], list[Job]]:
    """All requests, with their bodies built: building one takes long enough to make a read late."""
    count = warmups(workload)
    due = arrivals(workload, seed)
    jobs: list[Job] = []
    for index in range(count + workload.requests):
        prompt = as_prompt(prompts(index), endpoint)
        asked = prompt.output_tokens or workload.output_tokens
        body = speech.body(prompt, asked, endpoint.extra_body)
        warmup = index < count
        due_s = None if warmup or due is None else due[index - count].due_s
        jobs.append(Job(Sent(index, warmup, prompt.tokens, asked), body, due_s, prompt.after))
    return jobs[:count], jobs[count:]


class Drive:
    """One drive: sends jobs, keeps recordings, parses them when nothing streams.

    Args:
        speech: the endpoint's dialect.
        workload: its concurrency and its longest time of a request are used.
        wire: to the endpoint.
        progress: told of every request that ends.
        pulse: shared by drives of one loop; a new one by default.
    """

    def __init__(
        self,
        speech: Dialect,
        workload: Workload,
        wire: Transport,
        progress: Progress | None,
        pulse: Pulse | None = None,
    ) -> None:
        self._speech = speech
        self._workload = workload
        self._wire = wire
        self._progress = progress
        self._pulse = pulse or Pulse()
        self._held: list[tuple[Recording, Sent]] = []
        self._held_bytes = 0
        self._traces: list[RequestTrace] = []
        self._ended: dict[int, asyncio.Event] = {}
        self._probed: dict[int, bool | None] = {}
        self.total = 0
        self.before_send: BeforeSend | None = None
        self._count = 0

    async def run(self, first: Sequence[Job], measured: Sequence[Job]) -> None:
        """Send the warm-up requests, then the measured ones."""
        self.expect((*first, *measured))
        streams = self._workload.concurrency or 1
        self._pulse.start()
        try:
            await self._closed(first, streams)
            if any(job.due_s is not None for job in measured):
                await self._open(measured)
            else:
                await self._closed(measured, streams)
        finally:
            self._pulse.stop()

    def expect(self, jobs: Sequence[Job]) -> None:
        """Know of the jobs that will be sent, before any of them is."""
        self._ended = {job.sent.index: asyncio.Event() for job in jobs}

    def finished(self) -> tuple[RequestTrace, ...]:
        """The traces of all requests that ended."""
        self._parse()
        return tuple(sorted(self._traces, key=lambda trace: trace.index))

    async def _closed(self, jobs: Sequence[Job], streams: int) -> None:
        """Keep `streams` requests open until the jobs run out; a stream keeps to its conversation."""
        chains = _chains(jobs)
        left = iter(chains)

        async def stream() -> None:
            for chain in left:
                for job in chain:
                    await self.send(job)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(streams, len(chains))):
                group.create_task(stream())

    async def _open(self, jobs: Sequence[Job]) -> None:
        """Send each job when it is due, however many are open."""
        start_ns = clock.now_ns()
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                due_ns = start_ns + round((job.due_s or 0.0) * 1e9)
                # uvloop's timers count milliseconds and may end early by half of one.
                while (left_ns := due_ns - clock.now_ns()) > 0:
                    await asyncio.sleep(left_ns / 1e9)
                group.create_task(self.send(job, due_ns))

    async def send(self, job: Job, due_ns: int = 0) -> None:
        """Send one request to its end, once the one that it goes on from has ended."""
        if job.after is not None and job.after in self._ended:
            await self._ended[job.after].wait()
        if self.before_send is not None:
            self._probed[job.sent.index] = self.before_send(job.sent.index)
        recording = await self._wire.exchange(self._speech.path, job.body, self._workload.timeout_s)
        sent = replace(job.sent, due_ns=due_ns)
        self._held.append((recording, sent))
        self._held_bytes += recording.held
        if self._held_bytes > HELD_BYTES:
            self._parse()
        self._ended[sent.index].set()
        self._count += 1
        if self._progress is not None:
            self._progress(self._count, self.total)

    def _parse(self) -> None:
        gaps: tuple[Gap, ...] = tuple(self._pulse.gaps)
        while self._held:
            recording, sent = self._held.pop()
            trace = trace_of(recording, self._speech, sent, gaps)
            self._traces.append(replace(trace, probed=self._probed.get(sent.index)))
            recording.http.close()
        self._held_bytes = 0


def _chains(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs, with those together that wait for each other."""
    chains: list[list[Job]] = []
    for job in jobs:
        if job.after is not None and chains and chains[-1][-1].sent.index == job.after:
            chains[-1].append(job)
        else:
            chains.append([job])
    return chains


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's loop where it is installed; None lets asyncio choose."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Keep the garbage collector from running while anything streams."""
    enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if enabled:
            gc.enable()
