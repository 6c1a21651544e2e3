"""Each metric's value in each trial: the numbers that all statistics stand on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from benchharness.metrics import METRICS, Metric

if TYPE_CHECKING:
    import duckdb

KEYS = ["launch", "block", "stack", "context_tokens"]


def launch_means(connection: duckdb.DuckDBPyConnection, metrics: Sequence[Metric]) -> pd.DataFrame:
    """One row a trial, one column a metric.

    Args:
        connection: with the views of `store.StoredRun.connect`.
        metrics: which ones.

    Returns:
        Columns launch, block, stack, context_tokens and one a metric, in the metric's unit; NaN where
        nothing can be said. A metric is the mean over one launch's counted rows of one cell.
    """
    joined: pd.DataFrame | None = None
    for table in sorted({metric.table for metric in metrics}):
        frame = _grouped(connection, table, [m for m in metrics if m.table == table], KEYS)
        joined = frame if joined is None else joined.merge(frame, on=KEYS, how="outer")
    if joined is None:
        joined = pd.DataFrame(columns=KEYS)
    numbers = [metric.name for metric in metrics]
    joined[numbers] = joined[numbers].astype(float)
    return joined.sort_values(["launch", "context_tokens"]).reset_index(drop=True)


def _grouped(
    connection: duckdb.DuckDBPyConnection, table: str, metrics: Sequence[Metric], by: Sequence[str]
) -> pd.DataFrame:
    keys = ", ".join(by)
    columns = ", ".join(f"{metric.sql} AS {metric.name}" for metric in metrics)
    query = f"SELECT {keys}, {columns} FROM {table} WHERE counted GROUP BY {keys}"  # noqa: S608
    return connection.execute(query).df()


def request_values(connection: duckdb.DuckDBPyConnection, metric: Metric) -> pd.DataFrame:
    """The same metric over the rows of one request each: what launches hold.

    Returns:
        Columns launch, block, stack, context_tokens, position, request and value, in order of time in a
        launch. Cycles of no one request, as batches are, are left out. A percentile has no such values, nor
        has a metric of whole trials: no rows then.
    """
    if metric.table == "trials":
        return pd.DataFrame(columns=[*KEYS, "position", "request", "value"])
    by = [*KEYS, "position", "request"]
    frame = _grouped(connection, metric.table, [metric], by).rename(columns={metric.name: "value"})
    frame["value"] = frame["value"].astype(float)
    return frame[frame["request"] >= 0].sort_values(by).reset_index(drop=True)


def plain_metrics() -> tuple[Metric, ...]:
    """Every metric that is no percentile: those cost a sort of all rows, so they are made when asked for."""
    return tuple(metric for metric in METRICS.values() if not metric.fewest)


def all_metrics() -> tuple[Metric, ...]:
    """Every metric of the table, in its order."""
    return tuple(METRICS.values())
