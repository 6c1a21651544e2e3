"""Do the cycles hold together, with the answers, the counters and the client?"""

from __future__ import annotations

from collections.abc import Iterator

from benchharness.records import Finding, RequestTrace, Trial
from benchharness.validity.counted import whole

MOST_EXCESS = 0.03
"""How much faster than its cycles a stream may seem: the first stamp hides part of the first cycle."""

NOTED_OVERHEAD, MOST_OVERHEAD = 0.25, 0.6
"""Loss outside of cycles from which on it is said, and from which on the trial is not judged. The articles'
own two runs lose 6 and 10 %; a tiny model on a CPU, whose cycles take 2 ms, up to 20 %."""


def cycles_known(trial: Trial) -> Iterator[Finding]:
    """Decode cycles can be told from what the server streams."""
    decoded = [trace for trace in whole(trial) if len(trace.chunk_ns) > 1]
    if decoded and not trial.cycles:
        counted = decoded[0].verify_cycles
        against = f" (one answer: {len(decoded[0].chunk_ns)} chunks, {counted} cycles)" if counted else ""
        yield Finding(
            "cycles-known",
            False,
            f"chunks can't be taken for decode cycles{against}: accept length and cycle time are not known",
        )


def accept_length_agrees(trial: Trial) -> Iterator[Finding]:
    """Cycles hold as many accepted tokens, and are as many, as the server counted."""
    for trace in whole(trial):
        cycles = [c for c in trial.cycles if c.request == trace.index and not c.mark and not c.rank]
        if not cycles or trace.tokens_estimated:
            continue
        rebuilt = sum(cycle.tokens - 1 for cycle in cycles)
        if cycles[0].source == "server-timing" and trace.accepted_tokens not in (None, rebuilt):
            sentence = f"cycles hold {rebuilt} accepted tokens, the server counted {trace.accepted_tokens}"
            yield Finding("accept-length-agrees", True, sentence)
            return
        if trace.verify_cycles and abs(len(cycles) - trace.verify_cycles) > 1:
            sentence = f"{len(cycles)} cycles were told apart, the server counted {trace.verify_cycles}"
            yield Finding("accept-length-agrees", True, sentence)
            return


def counters_agree(trial: Trial) -> Iterator[Finding]:
    """The engine's own cumulative counters moved by what its answers add up to."""
    if any(trace.failure is not None or trace.tokens_estimated for trace in trial.requests):
        return
    for name in ("output_tokens", "drafted_tokens", "accepted_tokens"):
        moved = getattr(trial.counters, name)
        told = [getattr(trace, name) for trace in trial.requests]
        if moved is None or any(value is None for value in told):
            continue
        if moved != sum(told):
            yield Finding(
                "counters-agree",
                True,
                f"the engine's counter of {name.replace('_', ' ')} moved by {moved}, "
                f"its answers add up to {sum(told)}",
            )


def client_within_cycles(trial: Trial) -> Iterator[Finding]:
    """The client saw no more tokens than the cycles produce, and not far fewer.

    One stream's speed is accept length over cycle time, less an overhead. Cycles that the client's own
    arrivals made can't contradict it; for times that came with the stream see `arrivals_follow_the_server`.
    """
    told = [cycle for cycle in trial.cycles if cycle.source not in ("client-chunk", "server-timing")]
    cycles = [cycle for cycle in told if not cycle.mark and not cycle.rank and cycle.request >= 0]
    decoded = [trace for trace in whole(trial) if len(trace.chunk_ns) > 1 and not trace.tokens_estimated]
    counted = {trace.index for trace in decoded}
    cycles = [cycle for cycle in cycles if cycle.request in counted]
    span_ns = sum(trace.chunk_ns[-1] - trace.chunk_ns[0] for trace in decoded)
    spent_ms = sum(cycle.total_ms for cycle in cycles)
    if not cycles or len(decoded) != len({c.request for c in cycles}) or span_ns <= 0 or spent_ms <= 0:
        return
    arrived = sum(trace.output_tokens - _with_first_stamp(trace) for trace in decoded)
    seen, allowed = 1e9 * arrived / span_ns, 1000 * sum(cycle.tokens for cycle in cycles) / spent_ms
    overhead = 1 - seen / allowed
    if overhead < -MOST_EXCESS:
        yield Finding(
            "client-within-cycles",
            True,
            f"the client saw {seen:.1f} tok/s where the cycles allow {allowed:.1f}: client and cycles "
            "contradict each other",
        )
    elif overhead > NOTED_OVERHEAD:
        yield Finding(
            "client-within-cycles",
            overhead > MOST_OVERHEAD,
            f"{overhead:.0%} of what the cycles allow is lost outside of them ({seen:.1f} of {allowed:.1f} "
            "tok/s): the time is spent between cycles or on the way to the client",
        )


def _with_first_stamp(trace: RequestTrace) -> int:
    pairs = zip(trace.chunk_ns, trace.chunk_tokens, strict=True)
    return sum(tokens for arrival_ns, tokens in pairs if arrival_ns == trace.chunk_ns[0])


def graphs_replayed(trial: Trial) -> Iterator[Finding]:
    """Cycles replay a captured graph, or none does: a mixture means that some batches fit no graph."""
    known = [cycle.graph for cycle in trial.cycles if cycle.graph is not None and not cycle.mark]
    eager = sum(not graph for graph in known)
    if known and 0 < eager < len(known):
        yield Finding(
            "graphs-replayed",
            False,
            f"{eager / len(known):.1%} of the cycles ran without a captured graph, the others with one",
        )


def no_capture(trial: Trial) -> Iterator[Finding]:
    """No graph was captured while it was measured."""
    captured = sum(cycle.mark == "capture" for cycle in trial.cycles)
    if captured:
        yield Finding("no-capture", False, f"graphs were captured in {captured} cycles, which are left out")
