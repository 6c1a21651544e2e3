"""The client's own error on this machine, measured against a server that tells when it really sent.

The error of an event is its arrival stamp minus the time of sending that it carries. It bounds what
any comparison on this machine may call an effect.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson

from benchharness.errors import InfrastructureError, UsageError
from benchharness.records import Endpoint, RequestTrace, Workload
from benchharness.workload import client, transport
from benchharness.workload.traces import events_of
from benchharness.workload.transport import Recording, Transport

CEILING_STREAMS = 8
CEILING_EVENTS = 60_000
"""Events of the run at full speed, in all."""


@dataclass(frozen=True)
class SelfTest:
    """What the client does to what it measures.

    Attributes:
        transport: which transport and clock took the stamps.
        concurrency, interval_ms, events: what was streamed: so many streams, one event an interval each.
        error_us_p50, error_us_p99, error_us_max: arrival stamp minus true time of sending.
        late_share: share of reads that a starved client got late.
        unstamped_share: share of reads without a kernel stamp.
        itl_error_fraction: error of the reported token interval, the larger one of mean and median.
        smallest_effect_fraction: the same error of the stream where it is largest; a smaller effect on a
            token interval can't be told from the client.
        smallest_ttft_effect_us: the same for a time to first token: the 99th percentile of the error.
        events_per_s: events taken and parsed in a second at full speed, in one process.
        cpu_s_per_million_events: CPU seconds for a million events at the interval, before parsing.
        parse_cpu_s_per_million_events: CPU seconds that parsing them takes when the streams are over.
    """

    transport: str
    concurrency: int
    interval_ms: float
    events: int
    error_us_p50: float
    error_us_p99: float
    error_us_max: float
    late_share: float
    unstamped_share: float
    itl_error_fraction: float
    smallest_effect_fraction: float
    smallest_ttft_effect_us: float
    events_per_s: float
    cpu_s_per_million_events: float
    parse_cpu_s_per_million_events: float


@dataclass(frozen=True)
class Measured:
    """One drive against a null server.

    Attributes:
        traces: one a stream.
        error_ns: stamp minus time of sending, float array, one array of shape (events,) a stream.
        sent_ns: true times of sending, likewise.
        wall_s: from the first request to the last parsed event.
        cpu_s, parse_cpu_s: CPU seconds of this process before and for parsing.
    """

    traces: tuple[RequestTrace, ...]
    error_ns: tuple[np.ndarray, ...]
    sent_ns: tuple[np.ndarray, ...]
    wall_s: float
    cpu_s: float
    parse_cpu_s: float


def measure(
    concurrency: int = 8,
    interval_ms: float = 5.0,
    duration_s: float = 2.0,
    *,
    user_clock: bool = False,
) -> SelfTest:
    """Measure the client's error with `concurrency` streams of one event every `interval_ms`.

    Args:
        concurrency: streams at a time.
        interval_ms: distance of the events of a stream.
        duration_s: how long they stream; the run at full speed takes about a second more.
        user_clock: measure the aiohttp transport, as used for https.

    Raises:
        UsageError: a value is out of its range.
        InfrastructureError: the null server didn't start, or a stream broke.
    """
    if not (1 <= concurrency <= 4096 and 0.05 <= interval_ms <= 10_000 and 0 < duration_s <= 3600):
        raise UsageError(
            f"no self-test of {concurrency} streams every {interval_ms:g} ms for {duration_s:g} s",
            "use 1 to 4096 streams, 0.05 to 10000 ms and at most an hour",
        )
    events = max(3, round(duration_s * 1e3 / interval_ms))
    with null_server() as base_url:
        paced = against(base_url, concurrency, events, interval_ms, user_clock=user_clock)
        full = against(
            base_url, CEILING_STREAMS, CEILING_EVENTS // CEILING_STREAMS, 0.0, user_clock=user_clock
        )
    return summary(paced, full, interval_ms)


def against(
    base_url: str, streams: int, events: int, interval_ms: float, *, user_clock: bool = False
) -> Measured:
    """Stream from the null server at `base_url`: `interval_ms` 0 is full speed.

    Raises:
        InfrastructureError: a stream broke.
    """
    witness = _Witness(_wire(base_url, user_clock))
    endpoint = Endpoint(base_url, "sglang", extra_body={"interval_us": round(interval_ms * 1e3)})
    workload = Workload(
        1,
        events,
        streams,
        warmup_requests=0,
        concurrency=streams,
        timeout_s=60 + 2 * events * interval_ms / 1e3,
    )
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    traces = client.drive(endpoint, workload, prompts=lambda _: (1,), wire=witness)
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time()
    for trace in traces:
        if trace.failure is not None or len(trace.chunk_ns) != events:
            raise InfrastructureError(
                f"a stream of the self-test broke: {trace.failure_text or 'events are missing'}",
                "run it again on a quieter machine",
            )
    errors, truths = witness.errors() if interval_ms else ((), ())
    return Measured(traces, errors, truths, wall_s, witness.cpu_s - began_cpu_s, cpu_s - witness.cpu_s)


def summary(paced: Measured, full: Measured, interval_ms: float) -> SelfTest:
    """Put one paced drive and one at full speed into figures."""
    error_us = np.concatenate(paced.error_ns) / 1e3
    reads = sum(trace.reads for trace in paced.traces)
    seen = [np.diff(np.array(trace.chunk_ns, dtype=np.int64)) for trace in paced.traces]
    true = [np.diff(sent) for sent in paced.sent_ns]
    each = [_interval_error(one, truth) for one, truth in zip(seen, true, strict=True)]
    itl_error = _interval_error(np.concatenate(seen), np.concatenate(true))
    p50, p99, most = (float(np.percentile(error_us, q)) for q in (50, 99, 100))
    return SelfTest(
        transport=paced.traces[0].transport,
        concurrency=len(paced.traces),
        interval_ms=interval_ms,
        events=len(error_us),
        error_us_p50=p50,
        error_us_p99=p99,
        error_us_max=most,
        late_share=sum(trace.late_reads for trace in paced.traces) / reads,
        unstamped_share=sum(trace.unstamped_reads for trace in paced.traces) / reads,
        itl_error_fraction=itl_error,
        smallest_effect_fraction=max(each),
        smallest_ttft_effect_us=p99,
        events_per_s=sum(len(trace.chunk_ns) for trace in full.traces) / full.wall_s,
        cpu_s_per_million_events=paced.cpu_s / len(error_us) * 1e6,
        parse_cpu_s_per_million_events=paced.parse_cpu_s / len(error_us) * 1e6,
    )


def _interval_error(seen: np.ndarray, true: np.ndarray) -> float:
    """Relative error of a typical interval: the larger one of mean and median."""
    mean = float(seen.mean() / true.mean())
    median = float(np.median(seen) / np.median(true))
    return max(abs(mean - 1.0), abs(median - 1.0))


class _Witness:
    """A transport that keeps the recordings, so that the times in them can be read."""

    def __init__(self, wire: Transport) -> None:
        self._wire = wire
        self._recordings: list[Recording] = []
        self.name = wire.name
        self.cpu_s = 0.0

    async def exchange(self, path: str, body: bytes, timeout_s: float) -> Recording:
        """See `transport.Transport`."""
        recording = await self._wire.exchange(path, body, timeout_s)
        self._recordings.append(recording)
        self.cpu_s = time.process_time()
        return recording

    def errors(self) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        """(stamp minus true time, true time), one array a stream, in the order of their ends."""
        errors, truths = [], []
        for recording in self._recordings:
            pairs = [
                (ns, orjson.loads(data)["meta_info"]["sent_ns"])
                for ns, _, data in events_of(recording)
                if data != b"[DONE]"
            ]
            both = np.array(pairs, dtype=np.int64)
            errors.append((both[:, 0] - both[:, 1]).astype(float))
            truths.append(both[:, 1])
        return tuple(errors), tuple(truths)


def _wire(base_url: str, user_clock: bool) -> Transport:
    if not user_clock:
        return transport.make(base_url)
    from benchharness.workload.aiohttp_transport import AiohttpTransport

    return AiohttpTransport(transport.target_of(base_url))


@contextmanager
def null_server(command: Sequence[str] = ()) -> Iterator[str]:
    """Run a null server while the block lasts; gives its base URL.

    Args:
        command: what to start; by default `null_server.py` with this interpreter.

    Raises:
        InfrastructureError: it didn't start.
    """
    argv = list(command) or [sys.executable, "-I", str(Path(__file__).with_name("null_server.py"))]
    # A session of its own: Ctrl-C is the harness's to answer. It ends when its standard input does.
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            line = process.stdout.readline() if process.stdout else b""
            if not line.strip().isdigit():
                raise InfrastructureError(
                    "the null server of the self-test didn't start", f"try: {' '.join(argv)}"
                )
            yield f"http://127.0.0.1:{int(line)}"
        finally:
            process.kill()
