"""From a recording of bytes to a `RequestTrace`: everything that is put off until the stream is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchharness.records import Failure, RequestTrace
from benchharness.workload import clock
from benchharness.workload.dialects import DONE, Answer, Dialect, StampedEvent, error_text, excerpt, fold
from benchharness.workload.pulse import Gap, held_off
from benchharness.workload.sse import EVENT_LIMIT, SseParser
from benchharness.workload.transport import Recording

LATE_NS = 1_000_000
"""A read is late when its client was starved and its stamps suffer from it. Kernel stamps suffer when it
completed several events, of which the earlier ones then carry the last one's arrival time; the client
counts as starved when the read came more than this (1 ms) after its stamp, or when the client had been
held off (see `pulse`) since the read before. The user clock's stamps suffer whenever it was held off."""

_EXCERPT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Sent:
    """What was asked for.

    Attributes:
        index, warmup, due_ns: as in `RequestTrace`; `due_ns` is 0 where the load named no time.
        prompt_tokens: length of the prompt; 0 where only the server can tell.
        asked_tokens: length of the answer that was asked for; 0 where none was.
    """

    index: int
    warmup: bool
    prompt_tokens: int
    asked_tokens: int = 0
    due_ns: int = 0


@dataclass(slots=True)
class _Reading:
    """What is learnt of the reads while their events are taken out."""

    stamps: list[int] = field(default_factory=list)
    delays: list[int] = field(default_factory=list)
    events: int = 0
    crowded: set[int] = field(default_factory=set)
    too_large: bool = False


def trace_of(recording: Recording, dialect: Dialect, sent: Sent, gaps: Sequence[Gap] = ()) -> RequestTrace:
    """Parse a finished recording; never raises on what a server sent.

    Args:
        recording: the exchange.
        dialect: what the events mean.
        sent: what was asked for.
        gaps: times in which the client was held off.
    """
    reading = _read(recording)
    answer = Answer()
    failure, text = _refusal(recording)
    if failure is None or recording.http.status == 200:
        answer = fold(dialect, _events(recording, reading))
    if failure is None:
        failure, text = _verdict(recording, reading, answer)
    return _assemble(recording, reading, answer, sent, gaps, failure, text)


def events_of(recording: Recording) -> list[StampedEvent]:
    """The events of a finished recording, each with its arrival stamp (monotonic ns)."""
    return list(_events(recording, _read(recording)))


def _read(recording: Recording) -> _Reading:
    recording.feed_http()
    reading = _Reading()
    for index in range(len(recording.reads)):
        stamp, delay = recording.stamp(index)
        reading.stamps.append(stamp)
        reading.delays.append(delay)
    return reading


def _events(recording: Recording, reading: _Reading) -> Iterator[StampedEvent]:
    """The events, each with the stamp of the read that completed it."""
    parser = SseParser()
    stamps = reading.stamps
    index = 0
    for index, body in recording.http.bodies:
        events = parser.feed(body)
        if not events:
            continue
        reading.events += len(events)
        # The end marker comes with the last token and has no time of its own to lose.
        if len(events) - (events[-1][1] == DONE) > 1:
            reading.crowded.add(index)
        ns = stamps[index]
        for name, data in events:
            yield ns, name, data
    for name, data in parser.finish() if recording.http.complete else ():
        reading.events += 1
        yield stamps[index], name, data
    reading.too_large = parser.too_large


def _refusal(recording: Recording) -> tuple[Failure | None, str]:
    """Why an answer can't be a stream at all: its status, its type, or what broke before."""
    http = recording.http
    if http.header_complete and http.status != 200:
        body = b"".join(body for _, body in http.bodies)[:_EXCERPT_BYTES]
        if 300 <= http.status < 400:
            return Failure.REDIRECT, f"HTTP {http.status} to {http.headers.get('location', 'nowhere')}"
        return Failure.HTTP_STATUS, f"HTTP {http.status}: {_said(body)}"
    if recording.failure is not None:
        return recording.failure, recording.text
    if http.error:
        return Failure.MALFORMED, http.error
    if not http.header_complete:
        return Failure.TRUNCATED, "the connection ended before the response's headers did"
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "text/event-stream":
        body = b"".join(body for _, body in http.bodies)[:_EXCERPT_BYTES]
        return (
            Failure.CONTENT_TYPE,
            f"{kind or 'no content type'} in place of text/event-stream: {_said(body)}",
        )
    if http.headers.get("content-encoding", "identity").lower() != "identity":
        return Failure.CONTENT_TYPE, f"a body compressed with {http.headers['content-encoding']}"
    return None, ""


def _said(body: bytes) -> str:
    """What a body that is no stream says, on one line."""
    import orjson

    try:
        content = orjson.loads(body)
    except ValueError:
        return excerpt(body) or "(no body)"
    return error_text(content) if isinstance(content, dict) else excerpt(body)


def _verdict(recording: Recording, reading: _Reading, answer: Answer) -> tuple[Failure | None, str]:
    """Whether a stream that was folded counts."""
    shift = clock.moved(recording.offset_start, recording.offset_end)
    if answer.failure is not None:
        return answer.failure, answer.text
    if reading.too_large:
        return Failure.TOO_LARGE, f"an event is larger than {EVENT_LIMIT} bytes"
    if not recording.http.complete:
        return Failure.TRUNCATED, f"the connection ended in mid-stream, after {reading.events} events"
    if not answer.ended:
        return Failure.TRUNCATED, f"the stream ended without its final event, after {reading.events} events"
    if not answer.output_tokens:
        return Failure.TRUNCATED, "the stream ended without a single token"
    if shift and any(delay >= 0 for delay in reading.delays):
        return Failure.CLOCK, f"the system's time was moved by {shift / 1e6:.3f} ms during the request"
    return None, ""


def _late(recording: Recording, reading: _Reading, gaps: Sequence[Gap]) -> int:
    late = 0
    before = recording.sent_ns
    for index, (_, read_ns, _) in enumerate(recording.reads):
        delay = reading.delays[index]
        if index in reading.crowded or delay < 0:
            late += delay > LATE_NS or (bool(gaps) and held_off(gaps, before, read_ns))
        before = read_ns
    return late


def _assemble(
    recording: Recording,
    reading: _Reading,
    answer: Answer,
    sent: Sent,
    gaps: Sequence[Gap],
    failure: Failure | None,
    text: str,
) -> RequestTrace:
    delays = sorted(delay for delay in reading.delays if delay >= 0)
    sent_ns = recording.sent_ns or recording.ended_ns
    return RequestTrace(
        index=sent.index,
        warmup=sent.warmup,
        prompt_tokens=sent.prompt_tokens or answer.server_prompt_tokens or 0,
        asked_tokens=sent.asked_tokens,
        due_ns=sent.due_ns or sent_ns,
        sent_ns=sent_ns,
        finished_ns=recording.ended_ns if failure or not reading.stamps else reading.stamps[-1],
        chunk_ns=tuple(answer.chunk_ns),
        chunk_tokens=tuple(answer.chunk_tokens),
        chunk_server_ms=tuple(answer.chunk_server_ms),
        output_tokens=answer.output_tokens,
        tokens_estimated=answer.tokens_estimated,
        server_prompt_tokens=answer.server_prompt_tokens,
        cached_tokens=answer.cached_tokens,
        drafted_tokens=answer.drafted_tokens,
        accepted_tokens=answer.accepted_tokens,
        verify_cycles=answer.verify_cycles,
        failure=failure,
        failure_text=text,
        transport=recording.transport,
        reads=len(reading.stamps),
        late_reads=_late(recording, reading, gaps),
        unstamped_reads=len(reading.delays) - len(delays),
        events=reading.events,
        crowded_reads=len(reading.crowded),
        read_delay_median_ns=delays[len(delays) // 2] if delays else -1,
        read_delay_max_ns=delays[-1] if delays else -1,
        text_chunks=answer.text_chunks,
        tokens_mismatch=answer.tokens_mismatch,
    )
