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
    keys = ", ".join(KEYS)
    joined: pd.DataFrame | None = None
    for table in sorted({metric.table for metric in metrics}):
        columns = ", ".join(f"{m.sql} AS {m.name}" for m in metrics if m.table == table)
        query = f"SELECT {keys}, {columns} FROM {table} WHERE counted GROUP BY {keys}"  # noqa: S608
        frame = connection.execute(query).df()
        joined = frame if joined is None else joined.merge(frame, on=KEYS, how="outer")
    if joined is None:
        joined = pd.DataFrame(columns=KEYS)
    numbers = [metric.name for metric in metrics]
    joined[numbers] = joined[numbers].astype(float)
    return joined.sort_values(["launch", "context_tokens"]).reset_index(drop=True)


def all_metrics() -> tuple[Metric, ...]:
    """Every metric of the table, in its order."""
    return tuple(METRICS.values())
