"""The data that flows through the harness: frozen dataclasses, and the version of their stored form.

Everything here is plain data. Functions elsewhere take and return these records; `store/` alone turns
them into files and back. Names carry their units (`_ns`, `_ms`, `_s`, `_tokens`, `_tok_s`).

History of the stored format:
    1  first version: run.json, launches/NNN/launch.json, trials as JSON beside Parquet tables.
"""

from benchharness.records.attestation import Attestation, Mismatch, ProcessReport
from benchharness.records.declared import (
    Model,
    Plan,
    PlannedLaunch,
    Source,
    Stack,
    Workload,
)
from benchharness.records.ready import (
    Built,
    Command,
    Endpoint,
    EngineCounters,
    EngineFacts,
    Environment,
    EnvironmentSpec,
    Needed,
    Readiness,
)
from benchharness.records.run import (
    FORMAT_VERSION,
    Launch,
    LaunchStatus,
    Run,
    ScriptEnd,
    ServerExit,
)
from benchharness.records.trial import (
    Cycle,
    Failure,
    Finding,
    GpuState,
    RequestTrace,
    Trial,
)
from benchharness.records.worker import WorkerReport

__all__ = [
    "FORMAT_VERSION",
    "Attestation",
    "Built",
    "Command",
    "Cycle",
    "Endpoint",
    "EngineCounters",
    "EngineFacts",
    "Environment",
    "EnvironmentSpec",
    "Failure",
    "Finding",
    "GpuState",
    "Launch",
    "LaunchStatus",
    "Mismatch",
    "Model",
    "Needed",
    "Plan",
    "PlannedLaunch",
    "ProcessReport",
    "Readiness",
    "RequestTrace",
    "Run",
    "ScriptEnd",
    "ServerExit",
    "Source",
    "Stack",
    "Trial",
    "WorkerReport",
    "Workload",
]
