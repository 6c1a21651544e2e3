"""Invariants of a measurement: one function each, each with the sentence that it prints.

A grave finding makes a trial invalid: it is shown, never judged. The others are shown beside the
figures. Every function takes a trial and yields findings.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

from benchharness.records import Finding, RequestTrace, Trial

MOST_CACHED_TOKENS = 16
"""Prompt tokens that may come from a cache without being called a hit: the start-of-text token, a
shared template, one page of a paged cache."""

NOTED_LATE_SHARE, MOST_LATE_SHARE = 0.05, 0.4
"""Shares of late samples from which on it is said, and from which on the trial is not judged."""

NOTED_SPAN_SHARE, LEAST_SPAN_SHARE = 0.95, 0.8
"""The client's span of the answers over the server's: below them it is said, or the trial not judged."""

MOST_EXCESS = 0.03
"""How much faster than its cycles a stream may seem: the first stamp hides part of the first cycle."""

NOTED_OVERHEAD, MOST_OVERHEAD = 0.25, 0.6
"""Loss outside of cycles from which on it is said, and from which on the trial is not judged. The articles'
own two runs lose 6 and 10 %; a tiny model on a CPU, whose cycles take 2 ms, up to 20 %."""

MOST_THROTTLED_SHARE = 0.01
"""Share of a trial's time for which a clock may be held down without a word."""


def findings(trial: Trial) -> tuple[Finding, ...]:
    """All findings of a trial, grave ones first."""
    found = [finding for check in CHECKS for finding in check(trial)]
    return tuple(sorted(found, key=lambda finding: not finding.grave))


def _measured(trial: Trial) -> list[RequestTrace]:
    return [trace for trace in trial.requests if not trace.warmup]


def _whole(trial: Trial) -> list[RequestTrace]:
    return [trace for trace in _measured(trial) if trace.failure is None]


def requests_succeeded(trial: Trial) -> Iterator[Finding]:
    """Every measured request got its whole answer."""
    failed = [trace for trace in _measured(trial) if trace.failure is not None]
    if failed:
        reason, count = Counter(str(trace.failure) for trace in failed).most_common(1)[0]
        text = next(trace.failure_text for trace in failed if str(trace.failure) == reason)
        yield Finding(
            "requests-succeeded",
            True,
            f"{len(failed)} of {len(_measured(trial))} requests failed ({count} x {reason}: {text})",
        )
    elif not _measured(trial):
        yield Finding("requests-succeeded", True, "no request was measured")


def output_length_reached(trial: Trial) -> Iterator[Finding]:
    """Every answer is as long as was asked for."""
    asked = [trace for trace in _whole(trial) if trace.asked_tokens and not trace.tokens_estimated]
    wrong = [trace for trace in asked if trace.output_tokens != trace.asked_tokens]
    if wrong:
        yield Finding(
            "output-length-reached",
            True,
            f"{len(wrong)} answers are not as long as was asked for "
            f"(one has {wrong[0].output_tokens} tokens of {wrong[0].asked_tokens})",
        )


def context_as_declared(trial: Trial) -> Iterator[Finding]:
    """The server saw each prompt as long as it was made."""
    counts = Counter(
        (trace.prompt_tokens, trace.server_prompt_tokens)
        for trace in _whole(trial)
        if trace.prompt_tokens and trace.server_prompt_tokens not in (None, trace.prompt_tokens)
    )
    if counts:
        (wanted, seen), _ = counts.most_common(1)[0]
        yield Finding(
            "context-as-declared", True, f"the server counted {seen} prompt tokens where {wanted} were sent"
        )


def tokens_counted_by_server(trial: Trial) -> Iterator[Finding]:
    """Token counts come from the server, not from an estimate."""
    estimated = sum(trace.tokens_estimated for trace in _whole(trial))
    if estimated:
        yield Finding(
            "tokens-counted-by-server",
            False,
            f"the server gave no token count for {estimated} answers: one token a chunk is assumed",
        )


def token_counts_agree(trial: Trial) -> Iterator[Finding]:
    """The server's token counts agree with each other and with the chunks that it sent."""
    wrong = [trace for trace in _whole(trial) if trace.tokens_mismatch]
    if wrong:
        yield Finding(
            "token-counts-agree",
            False,
            f"in {len(wrong)} answers the server's token count differs from what its chunks carried "
            f"(one: {wrong[0].output_tokens} tokens, {wrong[0].text_chunks} text chunks); the count holds",
        )


def no_prefix_hits(trial: Trial) -> Iterator[Finding]:
    """No more of a prompt was served from a prefix cache than the workload declares to be shared."""
    if trial.workload.turns > 1:
        return
    most = trial.workload.shared_prefix_tokens + MOST_CACHED_TOKENS
    cached = [trace.cached_tokens or 0 for trace in _whole(trial)]
    hits = [tokens for tokens in cached if tokens > most]
    if hits:
        yield Finding(
            "no-prefix-hits",
            True,
            f"{len(hits)} prompts were served from a prefix cache (up to {max(hits)} tokens) that the "
            "workload does not declare",
        )


def prefix_hits_known(trial: Trial) -> Iterator[Finding]:
    """The server says how much of a prompt came from a cache."""
    silent = [trace for trace in _whole(trial) if trace.cached_tokens is None]
    if silent and trial.workload.turns == 1:
        yield Finding(
            "prefix-hits-known", False, "the server doesn't say whether prompts came from a prefix cache"
        )


def samples_not_late(trial: Trial) -> Iterator[Finding]:
    """The client read its samples in time."""
    reads = sum(trace.reads for trace in _whole(trial))
    late = sum(trace.late_reads for trace in _whole(trial))
    if reads and late / reads > NOTED_LATE_SHARE:
        yield Finding(
            "samples-not-late",
            late / reads > MOST_LATE_SHARE,
            f"the client read {late / reads:.0%} of its samples late (starved of CPU)",
        )


def arrivals_follow_the_server(trial: Trial) -> Iterator[Finding]:
    """Tokens arrived over as long a time as the server says that it took to make them."""
    server_ms = client_ms = 0.0
    for trace in _whole(trial):
        if len(trace.chunk_server_ms) > 1 and not any(math.isnan(ms) for ms in trace.chunk_server_ms):
            server_ms += trace.chunk_server_ms[-1] - trace.chunk_server_ms[0]
            client_ms += (trace.chunk_ns[-1] - trace.chunk_ns[0]) / 1e6
    if server_ms > 0 and client_ms < NOTED_SPAN_SHARE * server_ms:
        yield Finding(
            "arrivals-follow-the-server",
            client_ms < LEAST_SPAN_SHARE * server_ms,
            f"tokens that took the server {server_ms:.0f} ms arrived within {client_ms:.0f} ms: "
            "something held them up on the way, so gaps between tokens are too short",
        )


def cycles_known(trial: Trial) -> Iterator[Finding]:
    """Decode cycles can be told from what the server streams."""
    whole = [trace for trace in _whole(trial) if len(trace.chunk_ns) > 1]
    if whole and not trial.cycles:
        counted = whole[0].verify_cycles
        against = f" (one answer: {len(whole[0].chunk_ns)} chunks, {counted} cycles)" if counted else ""
        yield Finding(
            "cycles-known",
            False,
            f"chunks can't be taken for decode cycles{against}: accept length and cycle time are not known",
        )


def accept_length_agrees(trial: Trial) -> Iterator[Finding]:
    """Cycles hold as many accepted tokens, and are as many, as the server counted."""
    for trace in _whole(trial):
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
    decoded = [trace for trace in _whole(trial) if len(trace.chunk_ns) > 1 and not trace.tokens_estimated]
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


def clocks_held(trial: Trial) -> Iterator[Finding]:
    """Neither power nor heat held a GPU's clock down."""
    for gpu in trial.gpus:
        reasons = sorted(set(gpu.throttle) - {"clocks-set-by-user"})
        share = (gpu.throttled_ms or 0.0) / max(_wall_ms(trial), 1e-9)
        if reasons or share > MOST_THROTTLED_SHARE:
            clock = f"SM clock {gpu.sm_mhz_median} of {gpu.sm_mhz_limit} MHz as requests ended"
            why = f" ({', '.join(reasons)})" if reasons else ""
            counted = f" for {share:.0%} of the time by the driver's count" if gpu.throttled_ms else ""
            sentence = f"power or heat held the clock of GPU {gpu.index} down{counted}{why}; {clock}"
            yield Finding("clocks-held", False, sentence)


def clocks_known(trial: Trial) -> Iterator[Finding]:
    """Where cycles ran on a GPU, its clock was watched."""
    on_gpu = any(cycle.clock == "cuda-event" for cycle in trial.cycles)
    if on_gpu and not any(gpu.sm_mhz_median is not None for gpu in trial.gpus):
        why = "NVML does not answer" if not trial.gpus else "the driver doesn't tell them"
        yield Finding("clocks-known", False, f"GPU clocks unknown: {why}, so throttling would not be seen")


def gpu_alone(trial: Trial) -> Iterator[Finding]:
    """Nobody else computed on the engine's GPUs."""
    for gpu in trial.gpus:
        if gpu.other_pids:
            listed = ", ".join(str(pid) for pid in gpu.other_pids[:4])
            yield Finding("gpu-alone", False, f"other processes used GPU {gpu.index}: {listed}")


def _wall_ms(trial: Trial) -> float:
    return (trial.finished_ns - trial.started_ns) / 1e6


CHECKS: tuple[Callable[[Trial], Iterator[Finding]], ...] = (
    requests_succeeded,
    output_length_reached,
    context_as_declared,
    tokens_counted_by_server,
    token_counts_agree,
    no_prefix_hits,
    prefix_hits_known,
    samples_not_late,
    arrivals_follow_the_server,
    cycles_known,
    accept_length_agrees,
    counters_agree,
    client_within_cycles,
    graphs_replayed,
    no_capture,
    clocks_held,
    clocks_known,
    gpu_alone,
)
