"""Stored runs, read back: by name, as records, and as tables for SQL."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from benchharness.errors import UsageError, nearest
from benchharness.records import Launch, LaunchStatus, Run
from benchharness.store import baselines, documents, views
from benchharness.store.listing import runs
from benchharness.store.stored_trial import StoredTrial

if TYPE_CHECKING:
    import duckdb

LATEST = "latest"

MIB = 1 << 20


@dataclass(frozen=True)
class StoredRun:
    """A run on disk.

    Attributes:
        path: its folder.
        run: its manifest.
        running: a launch that is not over yet, whose trials count all the same.
    """

    path: Path
    run: Run
    running: Launch | None = None

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """All launches that are over, in order, and the one that runs."""
        over = tuple(documents.read(path, Launch) for path in documents.over(self.path))
        return over if self.running is None else (*over, self.running)

    @cached_property
    def trials(self) -> tuple[tuple[Path, StoredTrial], ...]:
        """Folder and document of every trial of a launch that is over, in order."""
        return tuple(
            (path.parent, documents.read(path, StoredTrial))
            for launch in self.launches
            for path in sorted(self.path.glob(f"launches/{launch.index:03d}/trials/*/trial.json"))
        )

    @property
    def valid(self) -> bool:
        """No launch failed to start or died, and no trial has a grave finding."""
        ended = (LaunchStatus.DONE, LaunchStatus.UNBUILDABLE)
        return all(launch.status in ended for launch in self.launches) and all(
            trial.valid for _, trial in self.trials
        )

    @property
    def client_cycles(self) -> bool:
        """Whether any of its cycles was taken with the client's clock."""
        return any(clock == "client" for _, _, clock, _ in self._clocks)

    def cycle_sources(self, stack: str) -> tuple[tuple[str, str], ...]:
        """Where the counted cycles of a stack come from: source and clock."""
        return tuple(
            (source, clock) for name, source, clock, counted in self._clocks if name == stack and counted
        )

    @cached_property
    def _clocks(self) -> list[tuple[str, str, str, bool]]:
        query = "SELECT DISTINCT stack, source, clock, counted FROM cycles ORDER BY ALL"
        return self.connect().execute(query).fetchall()

    @cached_property
    def _connections(self) -> dict[str | None, duckdb.DuckDBPyConnection]:
        return {}

    def connect(self, stack: str | None = None) -> duckdb.DuckDBPyConnection:
        """The views of `views.connect` over the valid trials; with `stack` over that stack's alone."""
        if stack not in self._connections:
            self._connections[stack] = views.connect(self._rows(stack))
        return self._connections[stack]

    def _rows(self, stack: str | None) -> list[views.TrialRow]:
        launches = {launch.index: launch for launch in self.launches}
        rows = []
        for folder, trial in self.trials:
            launch = launches[trial.launch]
            if trial.valid and launch.status == LaunchStatus.DONE and stack in (None, launch.stack):
                context = trial.workload.context_tokens
                place = (trial.launch, launch.block, launch.stack, trial.position, context)
                spent = (trial.engine_cpu_s, trial.output_tokens, _gpu_memory_mib(trial))
                rows.append(views.TrialRow(str(folder), *place, *spent, *_of_launch(launch)))
        return rows


def _gpu_memory_mib(trial: StoredTrial) -> float | None:
    used = [gpu.memory_bytes for gpu in trial.gpus if gpu.memory_bytes is not None]
    return sum(used) / MIB if used else None


def _of_launch(launch: Launch) -> tuple[float | None, float | None, float | None]:
    """Seconds to readiness, largest resident set in MiB, and the figure of the user's program."""
    rss = launch.server_exit.max_rss_bytes / MIB if launch.server_exit else None
    return launch.start_s or None, rss or None, launch.script.value if launch.script else None


def find(results: Path, name: str) -> Path:
    """The folder of a run by path, `experiment/run`, baseline, run id, the start of one, or `latest`."""
    direct = Path(name)
    for path in (direct, results / name):
        if (path / "run.json").is_file():
            return path
    promoted = baselines.place(results, name)
    if promoted is not None:
        return results / promoted
    known = list(runs(results))
    if not known:
        raise UsageError(f"no run {name!r}: {results} holds no runs", "make one with `benchharness run`")
    if name == LATEST:
        return known[-1].path
    of_experiment = [summary for summary in known if summary.experiment == name]
    if of_experiment:
        return of_experiment[-1].path
    hits = [s for s in known if s.run == name] or [s for s in known if name and s.run.startswith(name)]
    if len(hits) == 1:
        return hits[0].path
    if hits:
        raise UsageError(
            f"{name!r} fits {len(hits)} runs", f"say more, as {hits[0].experiment}/{hits[0].run}"
        )
    raise UsageError(
        f"no run {name!r} in {results}{nearest(name, [s.run for s in known])}", "see `benchharness list`"
    )


def open_run(path: Path, running: Launch | None = None) -> StoredRun:
    """Open a run for reading; UsageError where it is damaged or from a newer version."""
    return StoredRun(path, documents.read(path / "run.json", Run), running)
