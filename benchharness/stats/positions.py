"""Cycles by position in the answer: does a stack slow down, or accept less, as an answer grows?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    import duckdb

EDGES = (0, 16, 64, 256, 1024, 4096, 16_384)
"""Tokens of the answer at which bins begin; the last bin has no end."""

_QUERY = """
WITH placed AS (
    SELECT launch, stack, context_tokens, tokens, total_ms, coalesce(batch_size, 1) AS batch,
        sum(tokens) OVER (
            PARTITION BY launch, position, request ORDER BY cycle
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) - tokens + 1 AS token
    FROM cycles WHERE counted AND request >= 0
),
binned AS (SELECT *, CASE {cases} ELSE 0 END AS begins FROM placed),
by_launch AS (
    SELECT launch, stack, context_tokens, begins, count(*) AS cycles, avg(total_ms) AS cycle_ms,
        sum(tokens) / sum(batch) AS accept_length
    FROM binned GROUP BY ALL
)
SELECT stack, context_tokens, begins::INT AS from_token, sum(cycles)::INT AS cycles,
    avg(cycle_ms) AS cycle_ms, avg(accept_length) AS accept_length,
    avg(1000 * accept_length / cycle_ms) AS ceiling_tok_s
FROM by_launch GROUP BY ALL ORDER BY stack, context_tokens, from_token
"""


def by_position(connection: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """One row a stack, context and bin of positions; means over launches.

    Args:
        connection: with the views of `store.StoredRun.connect`.

    Returns:
        Columns stack, context_tokens, from_token (first token of the bin, counted in the answer), cycles,
        cycle_ms, accept_length, ceiling_tok_s (what those cycles allow). Cycles of no one request, as
        batches are, have no position and are left out.
    """
    cases = " ".join(f"WHEN token >= {edge} THEN {edge}" for edge in reversed(EDGES))
    return connection.execute(_QUERY.format(cases=cases)).df()
