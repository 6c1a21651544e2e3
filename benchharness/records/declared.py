"""What is to be measured: stacks, workloads, plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Source:
    """Where the engine's code comes from: a `release` on the index, or `repo` at `commit`.

    Attributes:
        release: on the package index.
        repo: a local clone or an address.
        commit: hash, tag or branch; the full hash once a run has begun. None, before that: the clone as it
            stands, with its uncommitted work.
        patch: a file for `git apply`, on top of the commit.
        diff_sha256: of all that differs from the commit (uncommitted work, patch), known once a run has
            begun; empty if nothing does. The run's folder keeps the diff itself under `sources/`.
        folder: where the code lies; only known while a launch is prepared, and never stored.
    """

    release: str | None = None
    repo: str | None = None
    commit: str | None = None
    patch: str | None = None
    diff_sha256: str = ""
    folder: str | None = None


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
        packages: distribution name -> version; overrides of the engine's own pins. `host` takes the one of
            the interpreter that the environment is made of; None leaves it out.
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
    packages: Mapping[str, str | None] = field(default_factory=dict)
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
    """What a run will do, in order.

    Attributes:
        probe: time cycles inside the engine's processes; `alternate` switches that by request.
        script: a program and its arguments, run against each launch's engine after its trials.
    """

    experiment: str
    stacks: tuple[Stack, ...]
    workloads: tuple[Workload, ...]
    launches: tuple[PlannedLaunch, ...]
    pairing: str
    seed: int
    start_timeout_s: float = 600.0
    probe: bool | Literal["alternate"] = True
    script: tuple[str, ...] = ()

    def stack(self, name: str) -> Stack:
        """The stack of that name; KeyError if there is none."""
        for stack in self.stacks:
            if stack.name == name:
                return stack
        raise KeyError(name)
