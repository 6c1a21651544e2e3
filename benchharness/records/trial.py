"""What one trial measured: requests, cycles, GPU states, findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from benchharness.records.declared import Workload
from benchharness.records.ready import EngineCounters


class Failure(StrEnum):
    """Why a request doesn't count."""

    CONNECT = "connect"
    RESET = "reset"
    TIMEOUT = "timeout"
    HTTP_STATUS = "http-status"
    REDIRECT = "redirect"
    CONTENT_TYPE = "content-type"
    TRUNCATED = "truncated"
    MALFORMED = "malformed"
    ENGINE_ERROR = "engine-error"
    TOO_LARGE = "too-large"
    CLOCK = "clock"


@dataclass(frozen=True)
class RequestTrace:
    """One request as the client saw it. Times are CLOCK_MONOTONIC nanoseconds.

    The four `chunk_*` tuples have one entry for each streamed chunk that carried tokens.

    Attributes:
        index: position within the trial, warm-up requests included.
        warmup: its numbers don't count.
        prompt_tokens: length of the prompt that was sent.
        due_ns: when the load wanted it sent (open loop), else equal to `sent_ns`.
        sent_ns: just before the first byte of the request was handed to the kernel.
        finished_ns: arrival of the last byte, or when the failure was seen.
        chunk_ns: arrival of each chunk.
        chunk_tokens: tokens that came with each chunk.
        chunk_server_ms: the server's own cumulative decode time at each chunk; NaN where not given.
        asked_tokens: tokens that were asked for; 0 where no number was.
        output_tokens: tokens by the server's count, or an estimate (see `tokens_estimated`).
        tokens_estimated: the server gave no count.
        server_prompt_tokens, cached_tokens, drafted_tokens, accepted_tokens, verify_cycles: the
            server's own counts for this request; None where not given. `cached_tokens` is how much
            of the prompt came from a prefix cache; `accepted_tokens` excludes bonus tokens.
        failure: why it doesn't count; None when it does.
        failure_text: one line for people.
        transport: which transport and clock took the stamps.
        reads, late_reads, unstamped_reads: socket reads, those got late by a starved client, and
            those that carried no kernel stamp.
        events: events that came; more than `reads` where several came in one.
        crowded_reads: reads that completed more than one event.
        read_delay_median_ns, read_delay_max_ns: from the kernel's stamp to the read; -1 without stamps.
        text_chunks: chunks that carried text: the tokens that a client which counts chunks would see.
        tokens_mismatch: the server's counts disagree, or it gave only a total that differs from
            `text_chunks`: the total holds, but not how many tokens each chunk carried.
        probed: whether the probe was told to record during this request, where it was switched by
            request; None where it was not.
        partner_ns: how long the client was with the other launch of a duet since this one's request before;
            0 elsewhere.
    """

    index: int
    warmup: bool
    prompt_tokens: int
    due_ns: int
    sent_ns: int
    finished_ns: int
    chunk_ns: tuple[int, ...] = ()
    chunk_tokens: tuple[int, ...] = ()
    chunk_server_ms: tuple[float, ...] = ()
    asked_tokens: int = 0
    output_tokens: int = 0
    tokens_estimated: bool = False
    server_prompt_tokens: int | None = None
    cached_tokens: int | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    verify_cycles: int | None = None
    failure: Failure | None = None
    failure_text: str = ""
    transport: str = ""
    reads: int = 0
    late_reads: int = 0
    unstamped_reads: int = 0
    events: int = 0
    crowded_reads: int = 0
    read_delay_median_ns: int = -1
    read_delay_max_ns: int = -1
    text_chunks: int = 0
    tokens_mismatch: bool = False
    probed: bool | None = None
    partner_ns: int = 0


@dataclass(frozen=True)
class Cycle:
    """One decode cycle (see docs/glossary.md) of one request, or of a batch of them.

    Attributes:
        request: index of the request within the trial; -1 where it can't be told.
        index: position within the answer, from 0; within the process's cycles where `request` is -1.
        tokens: tokens that the cycle produced, bonus token included.
        total_ms: duration of the cycle; without speculation one decode step.
        draft_ms, verify_ms, draft_extend_ms: its phases; None where not known.
        source: where the figure comes from: `server-timing`, `client-chunk`, `log`, `probe`.
        clock: which clock took it: `host`, `client`, `cuda-event`.

    What only a probe tells; None, -1 or empty elsewhere and where it isn't known:

    Attributes:
        start_ns: when it began, CLOCK_MONOTONIC.
        period_ms: from its start to the next cycle's, by `clock`; None where no cycle followed at once.
        target_forward_ms: the target's forward, within verify.
        after_forward_ms: from there to the end of verify: sampling, acceptance, hidden states (without
            speculation, to the end of the cycle: sampling).
        host_total_ms, host_draft_ms, host_verify_ms, host_draft_extend_ms: the same phases by the host's
            clock. Beside CUDA events they say how long the host took to launch, not how long the GPU ran.
        batch_size: requests in the batch.
        accepted: tokens of each of them, bonus included.
        context_tokens: their sequence lengths at its start, added up.
        graph, draft_graph, draft_extend_graph: whether a captured graph was replayed.
        rank: of the process that timed it.
        window_cycles: cycles that the row stands for: more than one where a log tells of windows only.
        mark: empty, `capture` (a graph was captured in it) or `surplus` (the answer was complete by then:
            with overlap an engine launches one cycle more than it needs).
    """

    request: int
    index: int
    tokens: int
    total_ms: float
    draft_ms: float | None
    verify_ms: float | None
    draft_extend_ms: float | None
    source: str
    clock: str
    start_ns: int = -1
    period_ms: float | None = None
    target_forward_ms: float | None = None
    after_forward_ms: float | None = None
    host_total_ms: float | None = None
    host_draft_ms: float | None = None
    host_verify_ms: float | None = None
    host_draft_extend_ms: float | None = None
    batch_size: int | None = None
    accepted: tuple[int, ...] = ()
    context_tokens: int | None = None
    graph: bool | None = None
    draft_graph: bool | None = None
    draft_extend_graph: bool | None = None
    rank: int | None = None
    mark: str = ""
    window_cycles: int = 1


@dataclass(frozen=True)
class Finding:
    """One broken or doubtful invariant: its name, how grave it is, and the sentence to print."""

    check: str
    grave: bool
    sentence: str


@dataclass(frozen=True)
class GpuState:
    """What one GPU did during a trial, by NVML; None where it did not answer.

    Attributes:
        index: as NVML counts.
        sm_mhz_min, sm_mhz_median, sm_mhz_max: SM clock over the samples, taken as requests ended.
        sm_mhz_limit: the highest SM clock that the board allows.
        throttle: what held the clock down in any sample: `power-cap`, `thermal`, `hw-slowdown` ...
        throttled_ms: time for which power or heat held the clock down during the trial, by the
            driver's own counters.
        temperature_c, power_w, memory_bytes: highest sample; memory is all that is in use on the board.
        other_pids: processes on the GPU that are none of the engine's.
    """

    index: int
    sm_mhz_min: int | None = None
    sm_mhz_median: int | None = None
    sm_mhz_max: int | None = None
    sm_mhz_limit: int | None = None
    throttle: tuple[str, ...] = ()
    throttled_ms: float | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    memory_bytes: int | None = None
    other_pids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Trial:
    """One workload measured in one launch.

    Attributes:
        launch, position: the launch's index, and the trial's place in it.
        workload: what was driven.
        requests: every request, warm-up ones included.
        cycles: every decode cycle that could be told.
        counters: what the engine's own counters moved by.
        achieved: what the client really drove, against what was declared (`workload.achieved.Achieved`).
        gpus: what each GPU did meanwhile; empty where NVML or a GPU is missing.
        engine_cpu_s: CPU seconds of the engine's processes meanwhile; None where they can't be told.
        started_ns, finished_ns: CLOCK_MONOTONIC at both ends.
        findings: broken or doubtful invariants, grave ones first.
    """

    launch: int
    position: int
    workload: Workload
    requests: tuple[RequestTrace, ...]
    cycles: tuple[Cycle, ...]
    counters: EngineCounters = field(default_factory=EngineCounters)
    achieved: Mapping[str, float] = field(default_factory=dict)
    gpus: tuple[GpuState, ...] = ()
    started_ns: int = 0
    finished_ns: int = 0
    findings: tuple[Finding, ...] = ()
    engine_cpu_s: float | None = None

    @property
    def valid(self) -> bool:
        """No grave finding: the trial may be judged."""
        return not any(finding.grave for finding in self.findings)
