"""Tables of trials as views for SQL: `trials`, `requests`, `tokens` and `cycles`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from benchharness.errors import UsageError

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class TrialRow:
    """One trial that counts.

    Attributes:
        folder: that holds its tables.
        launch, block, stack, position, context_tokens: what each of its rows is marked with.
        engine_cpu_s: CPU seconds of the engine's processes in it; None where not known.
        output_tokens: of all its requests, warm-up ones included.
        gpu_memory_mib: highest use of all boards' memory together.
        start_s, max_rss_mib, script_value: of its launch.
    """

    folder: str
    launch: int
    block: int
    stack: str
    position: int
    context_tokens: int
    engine_cpu_s: float | None = None
    output_tokens: int | None = None
    gpu_memory_mib: float | None = None
    start_s: float | None = None
    max_rss_mib: float | None = None
    script_value: float | None = None


_TRIALS = {
    "folder": "string",
    "launch": "int32",
    "block": "int32",
    "stack": "string",
    "position": "int32",
    "context_tokens": "int32",
    "engine_cpu_s": "float64",
    "output_tokens": "int64",
    "gpu_memory_mib": "float64",
    "start_s": "float64",
    "max_rss_mib": "float64",
    "script_value": "float64",
}


def connect(rows: Sequence[TrialRow]) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with the four views; each row says its launch, block, stack, position and context.

    Raises UsageError where a table is damaged.
    """
    import duckdb
    import pyarrow as pa

    connection = duckdb.connect()
    fields = [(name, pa.type_for_alias(kind)) for name, kind in _TRIALS.items()]
    told = pa.Table.from_pylist([asdict(row) for row in rows], schema=pa.schema(fields))
    connection.register("told", told)
    connection.execute("CREATE TABLE trials AS SELECT *, true AS counted FROM told")
    connection.unregister("told")
    for name in ("requests", "tokens", "cycles"):
        _view(connection, name, [f"{row.folder}/{name}.parquet" for row in rows])
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
