"""What really ran, against what was declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST_TOLD = 160
"""Characters of a value in a sentence."""


@dataclass(frozen=True)
class ProcessReport:
    """One process of the engine, as it saw itself or as the system sees it.

    Attributes:
        pid: process id.
        rank: tensor-parallel or global rank; None where it has none or none is known.
        gpu: index of its GPU; None where it has none or none is known.
        env: effective variables: an allow-list and what was declared; values that look like secrets masked.
        versions: module -> version really imported; empty where only the system could be asked.
        files: module -> path that it was imported from; empty where only the system could be asked.
        source: `probe` (told by the process itself) or `proc` (read from the system).
        came_by: how the probe came in: `sitecustomize` or `plugin`; empty where only the system was asked.
        libraries: name -> path of a library that the process has mapped (`nccl`), by the system; several
            paths where it has several copies.
        all_reduce: ways to reduce across ranks that it has set up, in the order of their use; empty where the
            process doesn't tell.
    """

    pid: int
    rank: int | None = None
    gpu: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    source: str = "proc"
    files: Mapping[str, str] = field(default_factory=dict)
    came_by: str = ""
    libraries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    all_reduce: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """For people: `rank 2 (pid 71)` or `pid 71`."""
        return f"pid {self.pid}" if self.rank is None else f"rank {self.rank} (pid {self.pid})"


@dataclass(frozen=True)
class Mismatch:
    """One thing that is not as it was declared.

    Attributes:
        where: the process, or `engine`.
        name: what differs: `env.NCCL_ALGO`, `packages.torch`, `args.attention-backend`.
        declared, effective: both values; None where it is not set.
        cause: who changed it, where that is known; else empty.
    """

    where: str
    name: str
    declared: str | None
    effective: str | None
    cause: str = ""

    @property
    def sentence(self) -> str:
        """One line for people."""
        was, wanted = _told(self.effective), _told(self.declared)
        cause = f" ({self.cause})" if self.cause else ""
        return f"{self.where}: {self.name} is {was}, declared {wanted}{cause}"


def _told(value: str | None) -> str:
    if value is None:
        return "not set"
    return repr(value) if len(value) <= MOST_TOLD else f"{value[:MOST_TOLD]!r}... ({len(value)} characters)"


@dataclass(frozen=True)
class Attestation:
    """What a launch really ran.

    Attributes:
        engine_version: as the engine tells it.
        settings: what the engine resolved: backends, graph sizes, KV size, speculation.
        packages: distribution -> version of its environment.
        processes: its processes.
        ruler: what timed it from within: `hooks` of the probe (methods that were wrapped).
        mismatches: whatever is not as declared; with one of them nothing is timed.
        machine: driver, GPUs and processor as they were for this launch (see `machine.conditions`).
        notes: what the harness could not see of it, one sentence each.
    """

    engine_version: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict)
    processes: tuple[ProcessReport, ...] = ()
    ruler: Mapping[str, str] = field(default_factory=dict)
    mismatches: tuple[Mismatch, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
