"""A trial's own document: everything about it that is no table row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchharness.records import EngineCounters, Finding, GpuState, Trial, Workload


@dataclass(frozen=True)
class StoredTrial:
    """A trial without its rows (see `records.Trial` for the fields)."""

    launch: int
    position: int
    workload: Workload
    counters: EngineCounters
    started_ns: int
    finished_ns: int
    findings: tuple[Finding, ...]
    gpus: tuple[GpuState, ...] = ()
    achieved: Mapping[str, float] = field(default_factory=dict)
    engine_cpu_s: float | None = None
    output_tokens: int | None = None
    """Of all requests, warm-up ones included: what `engine_cpu_s` was spent on."""

    @classmethod
    def of(cls, trial: Trial) -> StoredTrial:
        """The document of a trial."""
        return cls(
            trial.launch,
            trial.position,
            trial.workload,
            trial.counters,
            trial.started_ns,
            trial.finished_ns,
            trial.findings,
            trial.gpus,
            trial.achieved,
            trial.engine_cpu_s,
            sum(trace.output_tokens for trace in trial.requests),
        )

    @property
    def valid(self) -> bool:
        """No grave finding."""
        return not any(finding.grave for finding in self.findings)
