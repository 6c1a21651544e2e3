"""The data that flows through the harness: frozen dataclasses, and the version of their stored form.

Everything here is plain data. Functions elsewhere take and return these records; `store.py` alone
turns them into files and back. Names carry their units (`_ns`, `_ms`, `_s`, `_tokens`, `_tok_s`).

History of the stored format:
    1  first version: run.json, launches/NNN/launch.json, trials as JSON beside Parquet tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

FORMAT_VERSION = 1

Scalar = str | int | float | bool | None
"""What an engine argument may be; None takes the argument away."""


# --- what is to be measured ---------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """Where the engine's code comes from: a `release` on the index, or `repo` at `commit`."""

    release: str | None = None
    repo: str | None = None
    commit: str | None = None
    patch: str | None = None


@dataclass(frozen=True)
class Model:
    """The model served: files on disk, or a `recipe` that the harness makes itself from `seed`."""

    path: str | None = None
    draft: str | None = None
    tp: int = 1
    recipe: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class Stack:
    """One declared configuration of everything that serves.

    Attributes:
        name: short and unique within an experiment, made from the matrix values.
        engine: name of the engine's adapter.
        python: version of the interpreter of its environment ("3.12"); None is the harness's own.
        packages: distribution name -> version; overrides of the engine's own pins.
        find_links: extra folders or pages with wheels.
        extra_index_urls: further package indexes.
        env: environment variable -> value, for the engine's processes.
        model: what is served.
        args: the engine's own argument names -> values.
    """

    name: str
    engine: str
    source: Source = Source()
    python: str | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    find_links: tuple[str, ...] = ()
    extra_index_urls: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    model: Model = Model()
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Workload:
    """One stream of work, all requests alike.

    Attributes:
        context_tokens: exact prompt length.
        output_tokens: tokens asked for; the end-of-sequence token is ignored where the engine can.
        requests: measured requests (warm-up ones come before and don't count).
        warmup_requests: requests whose numbers don't count; None lets the harness choose.
        concurrency: streams kept open (closed loop); None when `rate_rps` drives.
        rate_rps: requests a second (open loop); None when `concurrency` or `trace_file` drives.
        timeout_s: longest time one request may take.
        arrivals: how requests of an open loop arrive: `poisson`, `constant`, or `ramp` (constant steps
            from `rate_rps` to `ramp_to_rps`).
        ramp_to_rps: rate at the end of a ramp.
        trace_file: CSV or JSON lines with arrival times, input and output lengths (open loop).
        trace_speedup: how much faster than recorded the trace is played.
        prompts_file: JSON lines or a ShareGPT file with texts; None makes prompts of token ids.
        shared_prefix_tokens: first tokens that all requests of the trial have in common.
        turns: requests of one conversation; each has the ones before it as its beginning.
    """

    context_tokens: int
    output_tokens: int
    requests: int
    warmup_requests: int | None = None
    concurrency: int | None = 1
    rate_rps: float | None = None
    timeout_s: float = 300.0
    arrivals: str = "poisson"
    ramp_to_rps: float | None = None
    trace_file: str | None = None
    trace_speedup: float = 1.0
    prompts_file: str | None = None
    shared_prefix_tokens: int = 0
    turns: int = 1

    @property
    def name(self) -> str:
        """Short name of the cell, unique within an experiment: `ctx2048`."""
        return f"ctx{self.context_tokens}"


@dataclass(frozen=True)
class PlannedLaunch:
    """One launch to be made.

    Attributes:
        index: position in the run, from 0.
        block: launches of one block stand next to each other in time and are compared within it.
        stack: the stack's name.
        workloads: indices into `Plan.workloads`, in the order in which they are driven.
        seed: seeds the prompts; the same for all launches of a block, so that they do equal work.
    """

    index: int
    block: int
    stack: str
    workloads: tuple[int, ...]
    seed: int


@dataclass(frozen=True)
class Plan:
    """What a run will do, in order."""

    experiment: str
    stacks: tuple[Stack, ...]
    workloads: tuple[Workload, ...]
    launches: tuple[PlannedLaunch, ...]
    pairing: str
    seed: int
    start_timeout_s: float = 600.0

    def stack(self, name: str) -> Stack:
        """The stack of that name; KeyError if there is none."""
        for stack in self.stacks:
            if stack.name == name:
                return stack
        raise KeyError(name)


# --- what stands ready --------------------------------------------------------------------------


@dataclass(frozen=True)
class EnvironmentSpec:
    """What an environment must hold; its content hash is its identity.

    Attributes:
        python: interpreter version, or None for the harness's own.
        requirements: requirement lines, as pip writes them.
        no_deps: install just these lines and none of what they ask for.
        find_links: folders or pages with wheels.
        extra_index_urls: further package indexes.
        imports: modules that must import for the environment to count as built.
    """

    python: str | None = None
    requirements: tuple[str, ...] = ()
    no_deps: bool = False
    find_links: tuple[str, ...] = ()
    extra_index_urls: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class Environment:
    """A built environment: where it stands and exactly what it holds.

    Attributes:
        key: content hash of the specification.
        path: its folder.
        python_path: its interpreter.
        python: full version of that interpreter.
        packages: distribution name -> version of all that is installed.
        built_s: seconds that building took this time; 0.0 when it was reused.
    """

    key: str
    path: str
    python_path: str
    python: str
    packages: Mapping[str, str]
    built_s: float = 0.0


@dataclass(frozen=True)
class Command:
    """What to execute: an argument list (never a shell string) and variables to set or remove (None)."""

    argv: tuple[str, ...]
    env: Mapping[str, str | None] = field(default_factory=dict)
    cwd: str | None = None


@dataclass(frozen=True)
class Readiness:
    """The engine's own sign that it serves: a line of its log, then a 200 from a path."""

    log_line: str | None
    health_path: str | None
    timeout_s: float = 600.0


@dataclass(frozen=True)
class Endpoint:
    """How to talk to a running engine.

    Attributes:
        base_url: `http://127.0.0.1:PORT`.
        dialect: name of the streaming dialect (see `workload/dialects.py`).
        extra_body: fields that the engine wants in every request body.
        token_pool: token ids that prompts may be made of.
        bos_tokens: tokens that the engine adds in front by itself; they count as context.
        context_limit: most tokens (prompt + output) of one request; None if unknown.
        slots: requests that the engine works on at once; None if unknown.
    """

    base_url: str
    dialect: str
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    token_pool: tuple[int, ...] = ()
    bos_tokens: int = 0
    context_limit: int | None = None
    slots: int | None = None


@dataclass(frozen=True)
class EngineFacts:
    """What the running engine says of itself: version, settings, and its raw answers."""

    version: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineCounters:
    """Cumulative counters read from the engine; None where it has none."""

    output_tokens: int | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    cycles: int | None = None


# --- what was measured --------------------------------------------------------------------------


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


@dataclass(frozen=True)
class Cycle:
    """One decode cycle of one request (see docs/glossary.md).

    Attributes:
        request: index of the request within the trial.
        index: position within the answer, from 0.
        tokens: tokens that the cycle produced, bonus token included.
        total_ms: duration of the cycle; without speculation one decode step.
        draft_ms, verify_ms, draft_extend_ms: its phases; None where not known.
        source: where the figure comes from: `server-timing`, `client-chunk`, `log`, `probe`.
        clock: which clock took it: `host`, `client`, `cuda-event`.
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
        temperature_c, power_w: highest sample.
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
        gpus: what each GPU did meanwhile; empty where NVML or a GPU is missing.
        started_ns, finished_ns: CLOCK_MONOTONIC at both ends.
        findings: broken or doubtful invariants, grave ones first.
    """

    launch: int
    position: int
    workload: Workload
    requests: tuple[RequestTrace, ...]
    cycles: tuple[Cycle, ...]
    counters: EngineCounters = EngineCounters()
    gpus: tuple[GpuState, ...] = ()
    started_ns: int = 0
    finished_ns: int = 0
    findings: tuple[Finding, ...] = ()

    @property
    def valid(self) -> bool:
        """No grave finding: the trial may be judged."""
        return not any(finding.grave for finding in self.findings)


class LaunchStatus(StrEnum):
    """How a launch ended."""

    DONE = "done"
    FAILED = "failed"
    UNBUILDABLE = "unbuildable"


@dataclass(frozen=True)
class ServerExit:
    """How the engine's process ended.

    Attributes:
        exit_code: as the operating system reports it; negative for a signal.
        cpu_s: user and system CPU seconds of the engine and its reaped children.
        max_rss_bytes: largest resident set of any one process among them.
        forced: it had to be killed after the shutdown deadline.
    """

    exit_code: int | None
    cpu_s: float
    max_rss_bytes: int
    forced: bool


@dataclass(frozen=True)
class Launch:
    """One start of one stack, as stored when it is over.

    Attributes:
        index, block, stack, seed: as planned.
        status, reason, last_lines: how it ended; reason and log lines where it did not go well.
        started_at: wall-clock start, ISO 8601 with offset.
        command, env: the argument list, and the variables that the harness set.
        environment: key and exact packages; None if it could not be built.
        facts: what the engine said of itself.
        start_s, requests_s, stop_s: seconds from process creation to readiness, under load, to end.
        server_exit: how the process ended.
    """

    index: int
    block: int
    stack: str
    seed: int
    status: LaunchStatus
    started_at: str
    reason: str = ""
    last_lines: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str | None] = field(default_factory=dict)
    environment: Environment | None = None
    facts: EngineFacts = EngineFacts()
    start_s: float = 0.0
    requests_s: float = 0.0
    stop_s: float = 0.0
    server_exit: ServerExit | None = None


@dataclass(frozen=True)
class Run:
    """One execution of one experiment, as stored in run.json.

    Attributes:
        id: its folder's name.
        created_at: ISO 8601 with offset.
        harness_version: version of this package.
        experiment: the experiment document after `--set`, as plain data.
        plan: what was to be done.
        salt: makes this run's prompts differ from every other run's, so that no cache helps.
        machine: what the machine is (see `machine.py`).
        client: the client's self-test on this machine just before (see `workload/selftest.py`).
        finished: every planned launch has ended, well or not.
        synthetic: the engine is a stand-in, so no figure here says anything of a real one.
    """

    id: str
    created_at: str
    harness_version: str
    experiment: Mapping[str, Any]
    plan: Plan
    salt: str
    machine: Mapping[str, Any] = field(default_factory=dict)
    client: Mapping[str, Any] = field(default_factory=dict)
    finished: bool = False
    synthetic: bool = False
    format_version: int = FORMAT_VERSION
