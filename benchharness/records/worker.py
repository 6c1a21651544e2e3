"""What a probe inside one of the engine's processes told of that process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchharness.records.attestation import ProcessReport


@dataclass(frozen=True)
class WorkerReport:
    """One process of the engine, by its own word.

    Attributes:
        pid: process id.
        rank: torch's global rank, else the tensor-parallel one; None for a process that runs no model.
        gpu_id: its GPU as the engine counts; None where it runs no model or the engine has none.
        tp_rank, pp_rank, dp_rank: None where the release doesn't tell.
        device: name of its GPU, or `cpu`; empty where it runs no model.
        device_uuid: of the GPU really used; empty without one.
        python: version of its interpreter.
        env: variables as the process had them once its model was set up, else as it had them at its
            start: an allow-list and what was declared. Values that look like secrets are `***`.
        env_names: names of all its other variables.
        versions: module -> version really imported; `nccl` is the library's own.
        files: module -> path that it was imported from.
        workers: classes whose cycles were timed, in the order of their first cycle.
        hooks: `module.Class.method` that were wrapped.
        absent: those that the release lacks, of the modules that the process imported.
        faults: what went wrong in the probe: place -> times, last error, and whether it was switched off.
        clock: `cuda-event`, `host`, or empty where no cycle ran.
        came_by: how the probe came in: `sitecustomize`, or `plugin` (SGLang's own entry points).
        all_reduce: ways to reduce across ranks that were set up, in the order of their use.
    """

    pid: int
    rank: int | None = None
    gpu_id: int | None = None
    tp_rank: int | None = None
    pp_rank: int | None = None
    dp_rank: int | None = None
    device: str = ""
    device_uuid: str = ""
    python: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    env_names: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    workers: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    faults: Mapping[str, str] = field(default_factory=dict)
    clock: str = ""
    came_by: str = ""
    all_reduce: tuple[str, ...] = ()

    @property
    def process(self) -> ProcessReport:
        """The same for an attestation."""
        return ProcessReport(
            pid=self.pid,
            rank=self.rank,
            gpu=self.gpu_id,
            env=self.env,
            versions=self.versions,
            source="probe",
            files=self.files,
            came_by=self.came_by,
            all_reduce=self.all_reduce,
        )
