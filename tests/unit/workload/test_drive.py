"""The client against real sockets: counting (T4, T5), failures with their reasons, loads, and ends."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from sse_server import END, HEAD, Connection, SseServer, answer, chunk, event, sglang_event, sglang_stream

from benchharness.errors import UsageError
from benchharness.records import Endpoint, Failure, RequestTrace, Workload
from benchharness.workload import client, kernel_transport, transport
from benchharness.workload.achieved import achieved
from benchharness.workload.aiohttp_transport import AiohttpTransport
from benchharness.workload.kernel_transport import KernelTransport
from benchharness.workload.prompts import as_prompt, for_workload
from benchharness.workload.transport import Transport

WIRES = {"kernel": KernelTransport, "user": AiohttpTransport}
ONE = Workload(8, 4, 1, warmup_requests=0, timeout_s=10)


@pytest.fixture(params=WIRES)
def wire_of(request: pytest.FixtureRequest) -> Callable[..., Transport]:
    """Makes either transport for a URL."""
    kind = WIRES[request.param]
    return lambda url, **options: kind(transport.target_of(url), **options)


def drive(
    url: str, workload: Workload = ONE, dialect: str = "sglang", **options: object
) -> tuple[RequestTrace, ...]:
    return client.drive(
        Endpoint(url, dialect), workload, prompts=lambda _: (1, 2, 3, 4, 5, 6, 7, 8), **options
    )


def send_cut(connection: Connection, data: bytes, seed: int) -> None:
    """Send in pieces that have nothing to do with chunks or events."""
    generator = random.Random(seed)
    while data:
        size = generator.choice((1, 3, 17, 200, 2000))
        connection.send(data[:size], gap_s=generator.choice((0, 0, 0.002)))
        data = data[size:]


# --- T4, T5 ---


@pytest.mark.parametrize("a_chunk", [1, 2, 3, 8])
def test_token_interval_is_right_however_many_tokens_a_chunk_carries(
    a_chunk: int, wire_of: Callable[..., Transport]
) -> None:
    """T4: token interval within 2 % of the server's own clock, chunk gap apart from it, mean below peak."""
    sends: list[tuple[int, int]] = []

    def script(connection: Connection) -> None:
        connection.send(HEAD)
        for one in sglang_stream(96, a_chunk):
            before = time.monotonic_ns()
            connection.send(chunk(one))
            sends.append((before, time.monotonic_ns()))
            time.sleep(0.006 * a_chunk)
        connection.send(END)

    with SseServer(script) as server:
        (seen,) = drive(server.url, wire=wire_of(server.url))
    chunks, intervals = 96 // a_chunk, 96 - a_chunk
    assert seen.failure is None
    assert seen.chunk_tokens == (a_chunk,) * chunks
    # The true times lie between both stamps of a send: the thread may lose the CPU between them.
    first, last = sends[0], sends[chunks - 1]
    shortest_ns, longest_ns = (last[0] - first[1]) / intervals, (last[1] - first[0]) / intervals
    span_ns = seen.chunk_ns[-1] - seen.chunk_ns[0]
    assert 0.98 * shortest_ns <= span_ns / intervals <= 1.02 * longest_ns
    assert 0.98 * shortest_ns <= span_ns / (chunks - 1) / a_chunk <= 1.02 * longest_ns
    fastest = min(b - a for a, b in pairwise(seen.chunk_ns))
    assert a_chunk / fastest >= intervals / span_ns, "the peak is never below the mean"


@pytest.mark.parametrize("a_chunk", [1, 2, 3, 8])
def test_chunks_split_and_merged_on_tcp_lose_nothing(a_chunk: int, wire_of: Callable[..., Transport]) -> None:
    """T4: the cuts of TCP change stamps a little, and tokens not at all."""
    data = HEAD + b"".join(chunk(one) for one in sglang_stream(48, a_chunk)) + END

    with SseServer(lambda connection: send_cut(connection, data, a_chunk)) as server:
        (seen,) = drive(server.url, wire=wire_of(server.url))
    assert (seen.failure, seen.output_tokens, seen.chunk_tokens) == (None, 48, (a_chunk,) * (48 // a_chunk))
    assert list(seen.chunk_ns) == sorted(seen.chunk_ns)
    assert seen.sent_ns < seen.chunk_ns[0] <= seen.chunk_ns[-1] <= seen.finished_ns


def test_the_servers_count_wins_over_the_text(wire_of: Callable[..., Transport]) -> None:
    """T5: usage says 2048, the text makes 887; then the same without usage."""

    def script(connection: Connection) -> None:
        words = [event({"choices": [{"text": "w", "finish_reason": None}]}) for _ in range(886)]
        words.append(event({"choices": [{"text": "w", "finish_reason": "length"}]}))
        if connection.body["max_tokens"] == 2048:
            words.append(event({"choices": [], "usage": {"completion_tokens": 2048, "prompt_tokens": 8}}))
        connection.stream([*words, b"data: [DONE]\n\n"])

    with SseServer(script) as server:
        wire = wire_of(server.url)
        (counted,) = drive(server.url, replace(ONE, output_tokens=2048), "openai-completions", wire=wire)
        (guessed,) = drive(server.url, replace(ONE, output_tokens=887), "openai-completions", wire=wire)
    assert (counted.output_tokens, counted.text_chunks, counted.tokens_mismatch) == (2048, 887, True)
    assert not counted.tokens_estimated
    assert (guessed.output_tokens, guessed.tokens_estimated, guessed.failure) == (887, True, None)


# --- framing ---


def test_every_framing_of_the_body_is_read_to_its_end(wire_of: Callable[..., Transport]) -> None:
    body = b"".join(sglang_stream(4))
    plain = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    trailer = HEAD + chunk(body) + b"0\r\nX-Time: 1\r\n\r\n"
    framings = [
        HEAD + chunk(body) + END,
        trailer,
        plain + b"Content-Length: %d\r\n\r\n" % len(body) + body,
        plain + b"Connection: close\r\n\r\n" + body,
        HEAD + chunk(body.replace(b"\n", b"\r\n")) + END,
    ]
    for framing in framings:
        with SseServer(lambda connection, data=framing: connection.send(data)) as server:
            (seen,) = drive(server.url, wire=wire_of(server.url))
        assert (seen.failure, seen.output_tokens) == (None, 4), framing


@pytest.mark.parametrize("declared", [False, True])
def test_the_end_is_seen_on_connections_that_stay_open(
    declared: bool, wire_of: Callable[..., Transport]
) -> None:
    """A server that ignores `Connection: close` must not hold the client until its timeout."""
    body = b"".join(sglang_stream(4))
    release = threading.Event()

    def script(connection: Connection) -> None:
        if declared:
            text = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"
            connection.send(text % len(body), body[:50], body[50:], gap_s=0.02)
        else:
            connection.send(HEAD + chunk(body), *(bytes((byte,)) for byte in END), gap_s=0.002)
        release.wait(20)

    with SseServer(script) as server:
        (seen,) = drive(server.url, replace(ONE, timeout_s=15), wire=wire_of(server.url))
        release.set()
    assert (seen.failure, seen.output_tokens) == (None, 4)


# --- failures ---

PART = HEAD + chunk(sglang_event(1)) + chunk(sglang_event(2))


def half_close(connection: Connection) -> None:
    connection.send(PART)
    connection.sock.shutdown(socket.SHUT_WR)
    time.sleep(0.1)


def broken(connection: Connection) -> None:
    connection.send(PART)
    time.sleep(0.05)
    connection.reset()


def silent(connection: Connection) -> None:
    connection.send(PART)
    time.sleep(1)


FAILURES = {
    "reset": (broken, Failure.RESET, "connection"),
    "half-closed": (half_close, Failure.TRUNCATED, "mid-stream"),
    "closed at once": (lambda connection: None, Failure.TRUNCATED, "headers"),
    "timeout": (silent, Failure.TIMEOUT, "within 0.3 s"),
    "status": (
        lambda c: c.send(answer("500 Oops", b'{"error":{"message":"boom"}}')),
        Failure.HTTP_STATUS,
        "500: boom",
    ),
    "redirect": (
        lambda c: c.send(answer("302 Found", more="Location: http://127.0.0.1:1/\r\n")),
        Failure.REDIRECT,
        "302",
    ),
    "type": (lambda c: c.send(answer("200 OK", b"<p>hi", "text/html")), Failure.CONTENT_TYPE, "text/html"),
    "engine": (lambda c: c.stream([sglang_event(1), event({"error": "oom"})]), Failure.ENGINE_ERROR, "oom"),
    "not http": (lambda c: c.send(b"SSH-2.0-nope\r\n\r\n"), Failure.MALFORMED, "not HTTP"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_are_recorded_with_their_reason(name: str, wire_of: Callable[..., Transport]) -> None:
    """The failed one says why, and the others of the trial are not touched by it."""
    script, failure, text = FAILURES[name]

    def one_fails(connection: Connection) -> None:
        if connection.body["sampling_params"]["max_new_tokens"] == 4 and len(server.seen) == 2:
            script(connection)
        else:
            connection.stream(sglang_stream(4))

    workload = replace(ONE, requests=3, timeout_s=0.3 if name == "timeout" else 10)
    with SseServer(one_fails) as server:
        first, second, third = drive(server.url, workload, wire=wire_of(server.url))
    assert (first.failure, third.failure) == (None, None)
    assert (second.failure, text in second.failure_text) == (failure, True), second.failure_text
    assert second.finished_ns >= second.sent_ns > 0


def test_nothing_listens(wire_of: Callable[..., Transport]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    seen = drive(url, replace(ONE, requests=2), wire=wire_of(url))
    assert [one.failure for one in seen] == [Failure.CONNECT] * 2
    assert "no connection to 127.0.0.1" in seen[0].failure_text
    (unknown,) = drive("http://no-such-host.invalid:80")
    assert unknown.failure == Failure.CONNECT


def test_a_name_with_several_addresses_is_tried_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """localhost may mean ::1 first, where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        dead = free.getsockname()

    async def both(target: transport.Target) -> list[tuple[int, object]]:
        return [(socket.AF_INET, dead), (socket.AF_INET, (target.host, target.port))]

    monkeypatch.setattr(kernel_transport, "_addresses", both)
    with SseServer(lambda connection: connection.stream(sglang_stream(4))) as server:
        seen = drive(server.url, replace(ONE, requests=2))
    assert [one.failure for one in seen] == [None, None]


def test_names_are_resolved(wire_of: Callable[..., Transport]) -> None:
    with SseServer(lambda connection: connection.stream(sglang_stream(4))) as server:
        url = server.url.replace("127.0.0.1", "localhost")
        (seen,) = drive(url, wire=wire_of(url))
    assert seen.failure is None


def test_a_redirect_is_not_followed(wire_of: Callable[..., Transport]) -> None:
    def script(connection: Connection) -> None:
        connection.send(answer("307 Temporary Redirect", more="Location: /elsewhere\r\n"))

    with SseServer(script) as server:
        (seen,) = drive(server.url, wire=wire_of(server.url))
    assert (seen.failure, len(server.seen)) == (Failure.REDIRECT, 1)


@pytest.mark.parametrize("close", ["in order", "at once"])
def test_a_refusal_before_the_request_was_read_is_still_read(close: str) -> None:
    """A large prompt is refused early; the answer counts, not the broken pipe."""
    listener = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        sock, _ = listener.accept()
        sock.recv(100)
        sock.sendall(answer("413 Too Large", b'{"error":"prompt too long"}'))
        if close == "in order":
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1 << 20):
                pass
        sock.close()

    thread = threading.Thread(target=refuse)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    (seen,) = client.drive(Endpoint(url, "sglang"), ONE, prompts=lambda _: (12345,) * 1_000_000)
    thread.join()
    listener.close()
    assert (seen.failure, seen.failure_text) == (Failure.HTTP_STATUS, "HTTP 413: prompt too long")


# --- bounds ---


def endless(block: bytes, head: bytes = HEAD) -> Callable[[Connection], None]:
    def script(connection: Connection) -> None:
        connection.send(head)
        for _ in range(2000):
            connection.send(block)

    return script


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (endless(chunk(b"data: {}\n\n" * 5000)), "response is larger than 1000000"),
        (endless(chunk(b"x" * 50_000)), "response is larger than 1000000"),
        (endless(b"X-More: " + b"y" * 5000 + b"\r\n", b"HTTP/1.1 200 OK\r\n"), "headers are larger than"),
    ],
    ids=["events", "one event", "headers"],
)
def test_memory_is_bounded(
    script: Callable[[Connection], None],
    text: str,
    wire_of: Callable[..., Transport],
    request: pytest.FixtureRequest,
) -> None:
    with SseServer(script) as server:
        wire = _Keeping(wire_of(server.url, response_limit=1_000_000))
        (seen,) = drive(server.url, wire=wire)
    held = wire.recordings[0].held
    assert held <= 1_000_000 + 2 * 65536 * 4
    if "headers" in text and wire.name == AiohttpTransport.name:
        assert seen.failure in (Failure.TOO_LARGE, Failure.TRUNCATED), "aiohttp has a limit of its own"
        return
    assert seen.failure == Failure.TOO_LARGE
    assert text in seen.failure_text


def test_open_responses_share_one_bound_of_memory(wire_of: Callable[..., Transport]) -> None:
    """Eight streams of 200 KB stay open together: some break the bound of 1 MB, and any others are whole."""
    streams, ready = 8, threading.Semaphore(0)
    go = threading.Event()

    def script(connection: Connection) -> None:
        try:
            connection.send(HEAD, *(chunk(b": " + b"x" * 5000 + b"\n\n") for _ in range(40)))
            time.sleep(0.2)  # until the client has read it
        finally:
            ready.release()
        go.wait(10)
        connection.send(*(chunk(one) for one in sglang_stream(4)), END)

    def let_go() -> None:
        for _ in range(streams):
            ready.acquire(timeout=10)
        go.set()

    with SseServer(script) as server:
        wire = _Keeping(wire_of(server.url, open_limit=1_000_000))
        waiter = threading.Thread(target=let_go)
        waiter.start()
        seen = drive(server.url, replace(ONE, requests=streams, concurrency=streams), wire=wire)
        waiter.join()
        (after,) = drive(server.url, wire=wire)
    failed = [one for one in seen if one.failure is not None]
    assert failed, "how many break it before the first has given its room back is a matter of timing"
    assert {one.failure for one in failed} == {Failure.TOO_LARGE}
    assert "all open responses together are larger than 1000000 bytes" in failed[0].failure_text
    whole = [one for one in wire.recordings[:streams] if one.failure is None]
    assert sum(one.held for one in whole) <= 1_000_000
    assert after.failure is None, "what has ended takes no room any more"


def test_small_reads_count_for_what_keeping_them_takes(wire_of: Callable[..., Transport]) -> None:
    """2000 reads of 20 bytes are 40 KB on the wire and 1 MB in memory."""
    sends = 0

    def script(connection: Connection) -> None:
        nonlocal sends
        connection.send(HEAD)
        for _ in range(12_000):
            connection.send(chunk(b": x\n\n"), gap_s=0.0001)
            sends += 1
        connection.send(END)

    with SseServer(script) as server:
        (seen,) = drive(
            server.url, replace(ONE, timeout_s=30), wire=wire_of(server.url, open_limit=1_000_000)
        )
    assert seen.failure == Failure.TOO_LARGE
    assert seen.reads <= 1_000_000 / 512 + 2
    assert sends < 12_000


def test_what_was_parsed_is_freed_while_the_drive_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector is off then: what only it could free would pile up."""
    left: list[weakref.ref] = []

    class Watched:
        name = "watched"

        async def exchange(self, path: str, body: bytes, timeout_s: float) -> transport.Recording:
            recording = await wire.exchange(path, body, timeout_s)
            left.append(weakref.ref(recording.http))
            return recording

    monkeypatch.setattr(client, "HELD_BYTES", 100_000)
    body = [event({"text": "x" * 150_000, "meta_info": {"completion_tokens": 1}}), *sglang_stream(4)]
    with SseServer(lambda connection: connection.stream(body)) as server:
        wire = transport.make(server.url)
        alive: list[int] = []
        workload = replace(ONE, requests=8)
        drive(
            server.url,
            workload,
            wire=Watched(),
            progress=lambda _, __: alive.append(sum(one() is not None for one in left)),
        )
    assert len(left) == 8
    assert max(alive) <= 2, alive


def test_a_stream_that_never_ends_is_cut_off_by_its_timeout(wire_of: Callable[..., Transport]) -> None:
    def script(connection: Connection) -> None:
        connection.send(HEAD)
        for number in range(1, 10_000):
            connection.send(chunk(sglang_event(number)), gap_s=0.001)

    with SseServer(script) as server:
        (seen,) = drive(server.url, replace(ONE, timeout_s=0.5), wire=wire_of(server.url))
    assert seen.failure == Failure.TIMEOUT
    assert seen.output_tokens > 0, "what came is kept, and marked"


class _Keeping:
    """A transport that keeps its recordings."""

    def __init__(self, wire: Transport) -> None:
        self.wire, self.name, self.recordings = wire, wire.name, []

    async def exchange(self, path: str, body: bytes, timeout_s: float) -> transport.Recording:
        self.recordings.append(await self.wire.exchange(path, body, timeout_s))
        return self.recordings[-1]


# --- stamps ---


def test_kernel_stamps_do_not_wait_for_the_client() -> None:
    """The client is held up while an event comes: its stamp tells when it came, not when it was read."""
    sent: list[int] = []

    def script(connection: Connection) -> None:
        connection.send(HEAD)
        for number in (1, 2, 3):
            sent.append(time.monotonic_ns())
            connection.send(chunk(sglang_event(number, last=number == 3)))
            time.sleep(0.1)
        connection.send(END)

    def hold_up(_: int, __: int) -> None:
        time.sleep(0.06)

    def quick(connection: Connection) -> None:
        if connection.body["sampling_params"]["max_new_tokens"] == 1:
            time.sleep(0.17)
            connection.stream(sglang_stream(1))
        else:
            script(connection)

    lengths = {0: 4, 1: 1}
    with SseServer(quick) as server:
        endpoint = Endpoint(server.url, "sglang")
        prompt = as_prompt((1,), endpoint)
        seen, _ = client.drive(
            endpoint,
            replace(ONE, requests=2, concurrency=2),
            prompts=lambda index: replace(prompt, output_tokens=lengths[index]),
            progress=hold_up,
        )
    errors_us = [(stamp - true) / 1e3 for stamp, true in zip(seen.chunk_ns, sent, strict=True)]
    assert seen.transport == "kernel-stamps"
    assert seen.read_delay_max_ns > 10_000_000, "one read really came late"
    assert max(errors_us) < 10_000, errors_us
    assert seen.unstamped_reads <= 1


def test_the_record_says_which_clock_took_the_stamps() -> None:
    with SseServer(lambda connection: connection.stream(sglang_stream(4))) as server:
        (kernel,) = drive(server.url)
        (user,) = drive(server.url, wire=AiohttpTransport(transport.target_of(server.url)))
    assert (kernel.transport, user.transport) == ("kernel-stamps", "aiohttp-user-clock")
    assert kernel.unstamped_reads < kernel.reads
    assert kernel.read_delay_median_ns >= 0
    assert (user.unstamped_reads, user.read_delay_median_ns) == (user.reads, -1)


# --- loads ---


def served(tokens: int = 2, hold_s: float = 0.0) -> Callable[[Connection], None]:
    def script(connection: Connection) -> None:
        time.sleep(hold_s)
        connection.stream(sglang_stream(tokens))

    return script


def test_a_closed_loop_keeps_its_streams_open_and_no_more() -> None:
    with SseServer(served(hold_s=0.03)) as server:
        workload = replace(ONE, requests=20, concurrency=5, warmup_requests=2)
        told: list[tuple[int, int]] = []
        seen = drive(server.url, workload, progress=lambda done, total: told.append((done, total)))
    assert achieved(seen, 5).streams_peak == 5
    assert [one.index for one in seen] == list(range(22))
    assert [one.warmup for one in seen] == [True] * 2 + [False] * 20
    assert max(one.finished_ns for one in seen[:2]) <= min(one.sent_ns for one in seen[2:])
    assert told == [(number, 22) for number in range(1, 23)]
    assert all(one.due_ns == one.sent_ns for one in seen)


def test_an_open_loop_sends_when_due_whatever_the_server_does() -> None:
    with SseServer(served(hold_s=0.3)) as server:
        workload = replace(ONE, requests=20, concurrency=None, rate_rps=200.0, arrivals="constant")
        seen = drive(server.url, workload)
    assert server.open_most == 20, "a slow server doesn't slow the load down"
    due = [one.due_ns - seen[0].due_ns for one in seen]
    assert due == pytest.approx([number * 5_000_000 for number in range(20)], abs=1000)
    assert all(one.sent_ns >= one.due_ns for one in seen)


def test_the_warmup_is_one_request_unless_declared() -> None:
    with SseServer(served()) as server:
        assert [one.warmup for one in drive(server.url, replace(ONE, warmup_requests=None))] == [True, False]


def test_turns_of_a_conversation_follow_each_other() -> None:
    with SseServer(served(hold_s=0.01)) as server:
        endpoint = Endpoint(server.url, "sglang", token_pool=tuple(range(50)))
        workload = replace(ONE, requests=6, turns=3, concurrency=2)
        prompts = for_workload(endpoint, workload, seed=1, salt="a")
        seen = client.drive(endpoint, workload, prompts=prompts)
    assert achieved(seen, 2).streams_peak == 2
    assert seen[3].sent_ns < seen[0].finished_ns, "both streams have a conversation from the start"
    for first in (0, 3):
        for turn in (1, 2):
            assert seen[first + turn].sent_ns >= seen[first + turn - 1].finished_ns
    lengths = sorted(len(body["input_ids"]) for body in server.seen)
    assert lengths == [8, 8, 20, 20, 32, 32]


# --- ends ---


def test_unusable_urls_and_dialects_are_refused() -> None:
    for url in ("ftp://127.0.0.1", "127.0.0.1:80", "http://", "http://127.0.0.1:x"):
        with pytest.raises(UsageError):
            drive(url)
    with pytest.raises(UsageError, match="did you mean 'sglang'"):
        drive("http://127.0.0.1:1", dialect="sglan")


def test_an_interrupt_ends_the_requests_and_is_raised() -> None:
    """Ctrl-C in mid-stream: KeyboardInterrupt comes out, and the sockets are closed."""
    gone = threading.Event()

    def script(connection: Connection) -> None:
        connection.send(PART)
        connection.sock.settimeout(20)
        if connection.sock.recv(1) == b"":
            gone.set()

    program = textwrap.dedent("""
        import sys
        from benchharness.records import Endpoint, Workload
        from benchharness.workload import client
        try:
            client.drive(Endpoint(sys.argv[1], "sglang"), Workload(8, 4, 1), prompts=lambda _: (1,))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            sys.stdin.read()
    """)
    with SseServer(script) as server:
        argv = [sys.executable, "-c", program, server.url]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                for _ in range(500):
                    if server.seen:
                        break
                    time.sleep(0.02)
                time.sleep(0.1)
                os.kill(process.pid, signal.SIGINT)
                assert process.stdout.readline() == b"interrupted\n"
                assert gone.wait(5), "the connection is closed while the process lives on"
            finally:
                process.kill()


def sockets() -> int:
    found = 0
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(path.readlink()).startswith("socket:")
    return found


@pytest.fixture(autouse=True)
def no_sockets_are_left() -> Iterator[None]:
    before = sockets()
    yield
    for _ in range(50):
        if sockets() <= before:
            return
        time.sleep(0.02)
    raise AssertionError("a test left sockets open")


def test_what_is_called_before_each_request_comes_before_it_and_marks_its_trace() -> None:
    called: list[tuple[int, int]] = []

    def before_send(index: int) -> bool:
        called.append((index, time.monotonic_ns()))
        return index % 2 == 0

    def serve(connection: Connection) -> None:
        connection.send(answer([event({"text": "x", "meta_info": {"completion_tokens": 1}}), END]))

    workload = replace(ONE, output_tokens=1, requests=3, warmup_requests=1)
    with SseServer(serve) as server:
        traces = drive(server.url, workload, before_send=before_send)
        plain = drive(server.url, workload)

    assert [index for index, _ in called] == [0, 1, 2, 3]
    assert [trace.probed for trace in traces] == [True, False, True, False]
    assert all(at <= trace.sent_ns for (_, at), trace in zip(called, traces, strict=True))
    assert all(before.finished_ns <= at for before, (_, at) in zip(traces, called[1:], strict=False))
    assert {trace.probed for trace in plain} == {None}
