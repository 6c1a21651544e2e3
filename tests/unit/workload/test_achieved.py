"""T15: a client that doesn't drive what was declared is named, whichever way it falls short."""

import asyncio
from dataclasses import replace

import pytest
from sse_server import SseServer, sglang_stream

from benchharness.records import Endpoint, Failure, RequestTrace, Workload
from benchharness.workload import client, selftest, transport
from benchharness.workload.achieved import achieved, findings
from benchharness.workload.transport import Recording, Transport

WORK = Workload(8, 4, 16, warmup_requests=0, concurrency=8, timeout_s=20)


class OneAtATime:
    """A transport that holds the client to a single stream, whatever is declared."""

    def __init__(self, wire: Transport) -> None:
        self.wire, self.name = wire, wire.name
        self.turn = asyncio.Semaphore(1)

    async def exchange(self, path: str, body: bytes, timeout_s: float) -> Recording:
        async with self.turn:
            return await self.wire.exchange(path, body, timeout_s)


def drive(url: str, workload: Workload, wire: Transport | None = None) -> tuple[RequestTrace, ...]:
    return client.drive(Endpoint(url, "sglang"), workload, prompts=lambda _: (1,) * 8, wire=wire)


def slow_stream(connection) -> None:
    connection.stream(sglang_stream(4), gap_s=0.03)


def test_a_client_held_to_one_of_many_streams_is_named() -> None:
    with SseServer(slow_stream) as server:
        free = drive(server.url, WORK)
        held = drive(server.url, WORK, OneAtATime(transport.make(server.url)))
    assert achieved(free, 8).streams_peak == 8
    assert findings(WORK, free) == ()
    assert achieved(held, 8).streams_peak == 1
    (finding,) = findings(WORK, held)
    assert (finding.check, finding.grave) == ("client-under-drives", True)
    assert finding.sentence == "client under-drives: 1.0 streams were open of 8 declared"


def test_an_open_loop_that_cannot_keep_its_rate_is_named() -> None:
    workload = replace(WORK, requests=20, concurrency=None, rate_rps=50.0, arrivals="constant")
    with SseServer(slow_stream) as server:
        free = drive(server.url, workload)
        held = drive(server.url, workload, OneAtATime(transport.make(server.url)))
    assert findings(workload, free) == ()
    assert achieved(free).rate_rps == pytest.approx(50, rel=0.1)
    (finding,) = findings(workload, held)
    assert "requests/s were sent of 50.00 declared" in finding.sentence


def test_an_engine_faster_than_the_client_is_named_with_the_clients_ceiling() -> None:
    """A server at full speed drives the client to its ceiling, and the report says where that is."""
    with selftest.null_server() as url:
        full = selftest.against(url, 8, 4000, 0.0)
        paced = selftest.against(url, 8, 50, 5.0)
    ceiling = sum(len(trace.chunk_ns) for trace in full.traces) / full.wall_s
    workload = Workload(1, 4000, 8, warmup_requests=0, concurrency=8)
    found = findings(workload, full.traces, ceiling)
    assert [one.sentence for one in found if f"the client can take {ceiling:,.0f}" in one.sentence]
    assert findings(replace(workload, output_tokens=50), paced.traces, ceiling) == ()


def trace(index: int, sent_s: float, ended_s: float, due_s: float | None = None) -> RequestTrace:
    sent, due = round(sent_s * 1e9), round((sent_s if due_s is None else due_s) * 1e9)
    return RequestTrace(index, False, 8, due, sent, round(ended_s * 1e9), reads=10, events=20, late_reads=1)


def test_what_was_achieved_is_counted_over_the_measured_requests() -> None:
    warm = replace(trace(0, 0, 100), warmup=True)
    seen = achieved([warm, trace(1, 1, 3), trace(2, 2, 4, due_s=1.5), trace(3, 3, 5)], 2)
    assert (seen.requests, seen.streams_peak, seen.wall_s, seen.rate_rps) == (3, 2, 4.0, 1.0)
    assert seen.streams_mean == pytest.approx(2.0)
    assert (seen.send_delay_ms_max, seen.send_delay_ms_p50) == (500.0, 0.0)
    assert (seen.events_per_s, seen.late_share) == (15.0, 0.1)
    assert achieved([warm]).requests == 0
    assert findings(WORK, [warm]) == ()


def test_some_idle_milliseconds_between_short_requests_are_no_fault_of_the_client() -> None:
    short = [trace(number, number * 0.010, number * 0.010 + 0.006) for number in range(10)]
    assert achieved(short, 1).streams_mean < 0.7
    assert findings(replace(WORK, concurrency=1), short) == ()
    slow = [trace(number, number * 1.0, number * 1.0 + 0.6) for number in range(10)]
    assert len(findings(replace(WORK, concurrency=1), slow)) == 1
    (finding,) = findings(replace(WORK, concurrency=1), slow)
    assert finding.sentence.endswith(
        "0.6 streams were open of 1 declared, each idle for 400 ms between requests"
    )


def test_some_idle_milliseconds_of_many_streams_are_no_fault_either_but_streams_never_opened_are() -> None:
    workload = replace(WORK, concurrency=4)
    short = [trace(number, number // 4 * 0.010, number // 4 * 0.010 + 0.006) for number in range(40)]
    assert achieved(short, 4).gap_ms_mean == pytest.approx(4.0)
    assert findings(workload, short) == ()
    one_stream = [trace(number, number * 0.002, number * 0.002 + 0.002) for number in range(40)]
    assert achieved(one_stream, 4).gap_ms_mean < 20, "each stream is idle for a short time only"
    (finding,) = findings(workload, one_stream)
    assert "1.0 streams were open of 4 declared" in finding.sentence


def test_fewer_requests_than_streams_are_under_driving() -> None:
    (finding,) = findings(replace(WORK, concurrency=8), [trace(number, 0, 1) for number in range(4)])
    assert "4.0 streams were open of 8 declared" in finding.sentence
    conversations = [trace(number, number % 3, number % 3 + 1) for number in range(6)]
    (finding,) = findings(replace(WORK, concurrency=4, turns=3), conversations)
    assert "2.0 streams were open of 4 declared" in finding.sentence


def test_the_last_conversation_may_go_on_alone() -> None:
    """Three conversations of three turns on two streams: one of them can't have company to its end."""
    sent = [0, 1, 2, 0, 1, 2, 3, 4, 5]
    alone = [trace(number, at, at + 1) for number, at in enumerate(sent)]
    assert findings(replace(WORK, concurrency=2, turns=3), alone) == ()


def test_requests_that_failed_say_nothing_of_the_client() -> None:
    gaps = [trace(number, number * 1.0, number * 1.0 + 0.1) for number in range(10)]
    assert findings(replace(WORK, concurrency=1), gaps) != ()
    failed = [replace(gaps[0], failure=Failure.RESET), *gaps[1:]]
    assert findings(replace(WORK, concurrency=1), failed) == ()
    late = [replace(one, due_ns=0) for one in failed]
    assert findings(replace(WORK, concurrency=None, rate_rps=9.0), late) == ()
