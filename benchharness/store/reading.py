"""Stored runs, read back: by name, as records, and as tables for SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from benchharness.errors import UsageError, nearest
from benchharness.records import Launch, LaunchStatus, Run
from benchharness.store import baselines, documents
from benchharness.store.stored_trial import StoredTrial

if TYPE_CHECKING:
    import duckdb

LATEST = "latest"


@dataclass(frozen=True)
class RunSummary:
    """One line of a listing.

    Attributes:
        path: the run's folder.
        run: its id.
        experiment: name of the experiment.
        created_at: ISO 8601 with offset.
        launches: launches that are over.
        planned: launches that were planned.
        stacks: names of the stacks.
        synthetic: made with a stand-in.
    """

    path: Path
    run: str
    experiment: str
    created_at: str
    launches: int
    planned: int
    stacks: tuple[str, ...]
    synthetic: bool


@dataclass(frozen=True)
class StoredRun:
    """A run on disk.

    Attributes:
        path: its folder.
        run: its manifest.
    """

    path: Path
    run: Run

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """All launches that are over, in order."""
        return tuple(documents.read(path, Launch) for path in documents.over(self.path))

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
        row = self.connect().execute("SELECT bool_or(clock = 'client') FROM cycles").fetchone()
        return bool(row and row[0])

    def connect(self, stack: str | None = None) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection with views `requests`, `tokens` and `cycles` over the valid trials.

        With `stack` over that stack's alone. Beside the tables' own columns each row has launch, block,
        stack, position and context_tokens.
        """
        import duckdb

        connection = duckdb.connect()
        connection.execute(
            "CREATE TABLE trials"
            " (folder TEXT, launch INT, block INT, stack TEXT, position INT, context_tokens INT)"
        )
        launches = {launch.index: launch for launch in self.launches}
        rows = []
        for folder, trial in self.trials:
            launch = launches[trial.launch]
            if trial.valid and launch.status == LaunchStatus.DONE and stack in (None, launch.stack):
                context = trial.workload.context_tokens
                rows.append([str(folder), trial.launch, launch.block, launch.stack, trial.position, context])
        if rows:
            connection.executemany("INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?)", rows)
        for name in ("requests", "tokens", "cycles"):
            _view(connection, name, [f"{row[0]}/{name}.parquet" for row in rows])
        return connection


def _view(connection: duckdb.DuckDBPyConnection, name: str, files: list[str]) -> None:
    import duckdb
    import pyarrow as pa

    from benchharness.store.tables import SCHEMAS

    empty = SCHEMAS[name].append(pa.field("filename", pa.string())).empty_table()
    connection.register(f"empty_{name}", empty)
    # Tables of older runs lack newer columns: what they don't have is NULL.
    rows = f"SELECT * FROM empty_{name}"  # noqa: S608
    if files:
        listed = ", ".join("'" + file.replace("'", "''") + "'" for file in files)
        read = f"SELECT * FROM read_parquet([{listed}], filename = true, union_by_name = true)"  # noqa: S608
        rows = f"{rows} UNION ALL BY NAME {read}"
    try:
        _create_view(connection, name, rows)
    except duckdb.Error as error:
        first = str(error).splitlines()[0]
        raise UsageError(
            f"the table {name} is damaged: {first}", "remove that launch's folder, and --resume"
        ) from None


def _create_view(connection: duckdb.DuckDBPyConnection, name: str, rows: str) -> None:
    connection.execute(
        f"CREATE VIEW {name} AS SELECT t.launch, t.block, t.stack, t.position, t.context_tokens, r.* "  # noqa: S608
        f"EXCLUDE (filename) FROM ({rows}) r JOIN trials t ON r.filename = t.folder || '/{name}.parquet'"
    )


def runs(results: Path) -> Iterator[RunSummary]:
    """Every run under a results folder, oldest first."""
    paths = [path.parent for path in results.glob("*/*/run.json")]
    for path in sorted(paths, key=lambda path: (path.name, path.parent.name)):
        try:
            document = orjson.loads((path / "run.json").read_bytes())
            plan = document["plan"]
            done = len(documents.over(path))
            yield RunSummary(
                path=path,
                run=document["id"],
                experiment=plan["experiment"],
                created_at=document["created_at"],
                launches=done,
                planned=len(plan["launches"]),
                stacks=tuple(stack["name"] for stack in plan["stacks"]),
                synthetic=bool(document.get("synthetic")),
            )
        except (OSError, ValueError, KeyError, TypeError):
            # A damaged manifest must not hide the other runs; `show` says what is wrong with it.
            continue


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


def open_run(path: Path) -> StoredRun:
    """Open a run for reading; UsageError where it is damaged or from a newer version."""
    return StoredRun(path, documents.read(path / "run.json", Run))
