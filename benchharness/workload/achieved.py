"""What the client really drove, against what was declared: its own limits must not pass for the engine's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchharness.records import Finding, RequestTrace, Workload

ENOUGH = 0.9
"""Share of the declared streams or rate that must be reached."""

NEAR_CEILING = 0.5
"""Share of the client's ceiling above which it may itself be what is measured."""

SEND_DELAY_MS = 10.0

GAP_MS = 20.0
"""Mean time between a stream's end and its next send from which on the client is at fault. Connecting
and building a record take some ms, which is much of a short request and yet no lack of streams."""


@dataclass(frozen=True)
class Achieved:
    """What was driven, over the measured requests of one trial.

    Attributes:
        requests, failed: measured requests, and those among them that failed.
        wall_s: from the first send to the last end.
        streams_peak: most requests open at a moment.
        streams_mean: requests open on average, from when all streams could be open to the last send;
            equal to the peak where there is no such time.
        gap_ms_mean: from a stream's end to its next send, over the same time; 0.0 in an open loop.
        rate_rps: requests sent a second, between the first and the last send; 0.0 for a single one.
        due_rps: the same of the times at which they were due.
        send_delay_ms_p50, send_delay_ms_max: from when a request was due to when it was sent.
        events_per_s: events taken a second, over the whole time.
        late_share, crowded_share: shares of the reads that came late, and that held several events.
    """

    requests: int
    failed: int
    wall_s: float
    streams_peak: int
    streams_mean: float
    rate_rps: float
    due_rps: float
    send_delay_ms_p50: float
    send_delay_ms_max: float
    events_per_s: float
    late_share: float
    crowded_share: float
    gap_ms_mean: float = 0.0


def achieved(traces: Sequence[RequestTrace], streams: int | None = None, turns: int = 1) -> Achieved:
    """Compute what was driven from the traces of one trial; warm-up requests are left out.

    Args:
        traces: the trial's requests.
        streams: declared concurrency; None in an open loop.
        turns: requests of one conversation; its stream sends them one after the other.
    """
    measured = sorted((trace for trace in traces if not trace.warmup), key=lambda trace: trace.sent_ns)
    if not measured:
        return Achieved(0, 0, 0.0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    sent = [trace.sent_ns for trace in measured]
    wall_s = (max(trace.finished_ns for trace in measured) - sent[0]) / 1e9
    delays = sorted((trace.sent_ns - trace.due_ns) / 1e6 for trace in measured)
    peak = _peak(measured)
    window = _window(measured, streams or 1, turns)
    own_ns = _own_ns(measured, *window)
    mean = _mean_open(measured, *window, own_ns, peak)
    reads = max(1, sum(trace.reads for trace in measured))
    return Achieved(
        requests=len(measured),
        failed=sum(trace.failure is not None for trace in measured),
        wall_s=wall_s,
        streams_peak=peak,
        streams_mean=mean,
        rate_rps=_rate(sent),
        due_rps=_rate(sorted(trace.due_ns for trace in measured)),
        send_delay_ms_p50=delays[len(delays) // 2],
        send_delay_ms_max=delays[-1],
        events_per_s=sum(trace.events for trace in measured) / max(wall_s, 1e-9),
        late_share=sum(trace.late_reads for trace in measured) / reads,
        crowded_share=sum(trace.crowded_reads for trace in measured) / reads,
        gap_ms_mean=0.0 if streams is None else _gap_ms(sent, window, (streams - mean) * own_ns),
    )


def _rate(times_ns: Sequence[int]) -> float:
    span_s = (times_ns[-1] - times_ns[0]) / 1e9
    return (len(times_ns) - 1) / span_s if span_s > 0 else 0.0


def _peak(traces: Sequence[RequestTrace]) -> int:
    # At one moment an end counts before a beginning: a stream that goes on is one stream.
    moments = sorted([(trace.sent_ns, 1) for trace in traces] + [(trace.finished_ns, -1) for trace in traces])
    now = most = 0
    for _, step in sorted(moments):
        now += step
        most = max(most, now)
    return most


def _window(traces: Sequence[RequestTrace], streams: int, turns: int) -> tuple[int, int]:
    """(ns, ns): from when all streams could be open to when the last conversation began.

    After that, streams end one by one because nothing is left to send, which is nobody's fault.
    """
    first = min(trace.index for trace in traces)
    begun = [trace.sent_ns for trace in traces if (trace.index - first) % turns == 0]
    return begun[min(streams, len(begun)) - 1], begun[-1]


def _own_ns(traces: Sequence[RequestTrace], start_ns: int, end_ns: int) -> int:
    """A time less what the client spent on the other server of a duet: it could not drive this one then."""
    elsewhere_ns = sum(trace.partner_ns for trace in traces if start_ns < trace.sent_ns <= end_ns)
    return end_ns - start_ns - elsewhere_ns


def _gap_ms(sent: Sequence[int], window: tuple[int, int], idle_ns: float) -> float:
    """Stream-time without a request, spread over the sends that ended it."""
    start_ns, end_ns = window
    sends = sum(start_ns < ns <= end_ns for ns in sent)
    return max(0.0, idle_ns) / 1e6 / sends if sends else 0.0


def _mean_open(traces: Sequence[RequestTrace], start_ns: int, end_ns: int, own_ns: int, peak: int) -> float:
    if own_ns <= 0:
        return float(peak)
    open_ns = sum(max(0, min(trace.finished_ns, end_ns) - max(trace.sent_ns, start_ns)) for trace in traces)
    return open_ns / own_ns


def findings(
    workload: Workload, traces: Sequence[RequestTrace], ceiling_events_per_s: float | None = None
) -> tuple[Finding, ...]:
    """What the client fell short of: `client-under-drives` is grave.

    Where requests failed, nothing is said: their times are not those of the load, and the check that
    all requests succeeded names them.

    Args:
        workload: what was declared.
        traces: what was done.
        ceiling_events_per_s: the client's own ceiling, from its self-test; None where not measured.
    """
    open_loop = workload.rate_rps is not None or workload.trace_file is not None
    got = achieved(traces, None if open_loop else workload.concurrency or 1, workload.turns)
    if not got.requests or got.failed:
        return ()
    found = [*_streams(workload, got), *_arrivals(workload, got)]
    if ceiling_events_per_s and got.events_per_s > NEAR_CEILING * ceiling_events_per_s:
        found.append(
            f"the engine sent {got.events_per_s:,.0f} events/s, "
            f"and the client can take {ceiling_events_per_s:,.0f}"
        )
    return tuple(Finding("client-under-drives", True, f"client under-drives: {text}") for text in found)


def _streams(workload: Workload, got: Achieved) -> Iterator[str]:
    if workload.rate_rps is not None or workload.trace_file is not None:
        return
    declared = workload.concurrency or 1
    if got.streams_peak < ENOUGH * declared:
        yield f"{min(float(got.streams_peak), got.streams_mean):.1f} streams were open of {declared} declared"
    elif got.streams_mean < ENOUGH * declared and got.gap_ms_mean > GAP_MS:
        yield (
            f"{got.streams_mean:.1f} streams were open of {declared} declared, "
            f"each idle for {got.gap_ms_mean:.0f} ms between requests"
        )


def _arrivals(workload: Workload, got: Achieved) -> Iterator[str]:
    if (workload.rate_rps is None and workload.trace_file is None) or workload.turns > 1:
        return
    if got.rate_rps < ENOUGH * got.due_rps:
        yield f"{got.rate_rps:.2f} requests/s were sent of {got.due_rps:.2f} declared"
    elif got.send_delay_ms_p50 > SEND_DELAY_MS:
        yield f"requests were sent {got.send_delay_ms_p50:.0f} ms after they were due"
