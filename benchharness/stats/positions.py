"""Cycles by position in the answer: does a stack slow down, or accept less, as an answer grows?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

if TYPE_CHECKING:
    import duckdb

MOST_CYCLES = 1_000_000
"""Cycles beyond which only every second answer is looked at, or every third, and so on."""

EDGES = (0, 16, 64, 256, 1024, 4096, 16_384)
"""Tokens of the answer at which bins begin; the last bin has no end."""

_QUERY = """
SELECT (launch::BIGINT << 42) + (position::BIGINT << 32) + request AS answer, cycle,
    coalesce(tokens, 0) AS tokens, coalesce(batch_size, 1) AS batch, coalesce(total_ms, 'NaN'::DOUBLE) AS ms
FROM cycles WHERE counted AND request >= 0 AND request % {every} = 0
"""
_COUNT = "SELECT count(*) FROM cycles WHERE counted AND request >= 0"
_TRIALS = "SELECT DISTINCT launch, position, stack, context_tokens FROM cycles WHERE counted"


def by_position(connection: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """One row a stack, context and bin of positions; means over launches.

    Args:
        connection: with the views of `store.StoredRun.connect`.

    Returns:
        Columns stack, context_tokens, from_token (first token of the bin, counted in the answer), cycles,
        cycle_ms, accept_length, ceiling_tok_s (what those cycles allow). Cycles of no one request, as
        batches are, have no position and are left out. Of more than `MOST_CYCLES` some answers are left out.
    """
    counted = connection.execute(_COUNT).fetchone()
    every = max(1, -(-(counted[0] if counted else 0) // MOST_CYCLES))
    # Running sums by numpy: DuckDB's window function takes several times as long.
    rows = connection.execute(_QUERY.format(every=every)).fetchnumpy()
    answers, cycles, tokens, batch = (
        np.asarray(rows[name], dtype=np.int64) for name in ("answer", "cycle", "tokens", "batch")
    )
    ms = np.asarray(rows["ms"], dtype=np.float64)
    same = answers[1:] == answers[:-1]
    if not np.all((answers[1:] > answers[:-1]) | (same & (cycles[1:] > cycles[:-1]))):
        order = np.lexsort((cycles, answers))
        answers, tokens, batch = (column[order] for column in (answers, tokens, batch))
        ms = ms[order]
    binned = _binned(answers, tokens, batch, ms)
    trials = connection.execute(_TRIALS).df()
    joined = binned.merge(trials, on=["launch", "position"])
    if joined.empty:
        names = ["stack", "context_tokens", "from_token", "cycles", "cycle_ms", "accept_length"]
        return pd.DataFrame(columns=[*names, "ceiling_tok_s"])
    keys = ["stack", "context_tokens", "from_token"]
    by_launch = joined.groupby(["launch", *keys], as_index=False)[
        ["cycles", "timed", "ms", "tokens", "batch"]
    ].sum()
    by_launch["cycle_ms"] = by_launch["ms"] / by_launch["timed"].replace(0, np.nan)
    by_launch["accept_length"] = by_launch["tokens"] / by_launch["batch"]
    by_launch["ceiling_tok_s"] = 1000 * by_launch["accept_length"] / by_launch["cycle_ms"]
    means = by_launch.groupby(keys, as_index=False)
    figures = means[["cycle_ms", "accept_length", "ceiling_tok_s"]].mean()
    figures.insert(3, "cycles", means["cycles"].sum()["cycles"])
    return figures


def _binned(
    answers: NDArray[np.int64], tokens: NDArray[np.int64], batch: NDArray[np.int64], ms: NDArray[np.float64]
) -> pd.DataFrame:
    """Sums of each trial and bin: columns launch, position, from_token, cycles, timed, ms, tokens, batch.

    Args:
        answers: which answer a cycle belongs to, by launch, position of the trial and request; sorted, and
            cycles of one answer in order.
        tokens, batch, ms: of each cycle; `ms` is NaN where it is not known.
    """
    before = np.cumsum(tokens, dtype=np.int64) - tokens
    begins = np.flatnonzero(np.concatenate([[True], answers[1:] != answers[:-1]])[: len(answers)])
    lengths = np.diff(np.append(begins, len(answers)))
    token = before - np.repeat(before[begins], lengths) + 1
    bins = np.searchsorted(np.asarray(EDGES), token, side="right") - 1
    trial = answers[begins] >> 32
    which, index = np.unique(trial, return_inverse=True)
    place = np.repeat(index, lengths) * len(EDGES) + bins
    size = len(which) * len(EDGES)
    timed = np.isfinite(ms)
    sums = {
        "cycles": np.bincount(place, minlength=size),
        "timed": np.bincount(place, timed, minlength=size),
        "ms": np.bincount(place, np.where(timed, ms, 0.0), minlength=size),
        "tokens": np.bincount(place, tokens, minlength=size),
        "batch": np.bincount(place, batch, minlength=size),
    }
    frame = pd.DataFrame(
        {
            "launch": np.repeat(which >> 10, len(EDGES)),
            "position": np.repeat(which & 1023, len(EDGES)),
            "from_token": np.tile(np.asarray(EDGES), len(which)),
            **sums,
        }
    )
    return frame[frame["cycles"] > 0]
