"""Duets: two launches that served at the same time, request against request (Bulej et al. 2020).

Requests of one index carry the same prompt and follow each other within a second or so, so that what the host
did meanwhile is in both. A block's figure is the mean of its pairs' log ratios. The block stays the unit: two
starts have their luck, however many requests are driven through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from benchharness.metrics import Metric
from benchharness.stats.launch_means import launch_means, plain_metrics, request_values

if TYPE_CHECKING:
    import duckdb

    Connection = duckdb.DuckDBPyConnection

_BLOCK = ["block", "context_tokens"]
_REQUEST = [*_BLOCK, "request"]


def sides(
    baseline: Connection, candidate: Connection, metrics: Sequence[Metric]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Launch values of both sides of a duet, for `compare`.

    Args:
        baseline, candidate: with the views of `store.StoredRun.connect`, one stack each.
        metrics: what is compared.

    Returns:
        Rows as `launch_means` gives them. Where a metric has values by request, a side's value is the
        geometric mean over the requests that both sides have, so that the ratio of both is the mean ratio of
        the pairs. Percentiles, and cycles of no one request, keep the launches' own values.
    """
    every = tuple(dict.fromkeys((*plain_metrics(), *metrics)))
    means = launch_means(baseline, every), launch_means(candidate, every)
    for metric in metrics:
        if not metric.fewest:
            values = request_values(baseline, metric), request_values(candidate, metric)
            means = _laid_over(means, paired(*values), metric.name)
    return means


def paired(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over the requests that both sides have.

    Args:
        first, second: rows of `launch_means.request_values`.

    Returns:
        One row a block and context: block, context_tokens, first, second, pairs.
    """
    both = first.merge(second, on=_REQUEST, suffixes=("_first", "_second"))
    values = both[["value_first", "value_second"]].to_numpy(dtype=float)
    both = both[(np.isfinite(values) & (values > 0)).all(axis=1)]
    logs = both[_BLOCK].assign(first=np.log(both["value_first"]), second=np.log(both["value_second"]))
    found = logs.groupby(_BLOCK).agg(
        first=("first", "mean"), second=("second", "mean"), pairs=("first", "size")
    )
    found[["first", "second"]] = np.exp(found[["first", "second"]])
    rows: pd.DataFrame = found.reset_index()
    return rows


def _laid_over(
    means: tuple[pd.DataFrame, pd.DataFrame], pairs: pd.DataFrame, name: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The launch values, replaced where pairs are known."""
    out = []
    for rows, side in zip(means, ("first", "second"), strict=True):
        known = rows[_BLOCK].merge(pairs, on=_BLOCK, how="left")[side].to_numpy(dtype=float)
        out.append(rows.assign(**{name: np.where(np.isfinite(known), known, rows[name])}))
    return out[0], out[1]
