"""Every metric, in one table: name, unit, direction, formula, and the SQL that computes it.

Docs, reports, comparisons and gates all print from and judge by this table. `sql` is an aggregate
over one launch's measured rows of `table` (warm-up and failed requests left out); the tables'
columns are described in `store/tables.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from benchharness.errors import UsageError, nearest


class Direction(StrEnum):
    """Which way is better. NEITHER: a difference is a finding, but no regression by itself."""

    LOWER = "lower is better"
    HIGHER = "higher is better"
    NEITHER = "neither"


@dataclass(frozen=True)
class Metric:
    """One row of the table.

    Attributes:
        name: with its unit as suffix where it has one.
        unit: as printed.
        direction: which way is better.
        formula: one sentence, in the words of docs/glossary.md.
        table: `requests`, `tokens` or `cycles`.
        sql: DuckDB aggregate over the rows of one trial; NULL where nothing can be said.
        decimals: digits after the point when printed.
    """

    name: str
    unit: str
    direction: Direction
    formula: str
    table: str
    sql: str
    decimals: int = 2


_ROWS = (
    Metric(
        "output_tok_s",
        "tok/s",
        Direction.HIGHER,
        "output tokens of all measured requests / (last byte of the last - first send of the first)",
        "requests",
        "sum(output_tokens) / nullif((max(finished_ns) - min(sent_ns)) / 1e9, 0)",
        1,
    ),
    Metric(
        "decode_tok_s",
        "tok/s",
        Direction.HIGHER,
        "tokens after the first chunk / (last chunk - first chunk), all measured requests together",
        "requests",
        "sum(output_tokens - first_chunk_tokens) / nullif(sum(last_chunk_ns - first_chunk_ns) / 1e9, 0)",
        1,
    ),
    Metric(
        "ttft_ms",
        "ms",
        Direction.LOWER,
        "first chunk - send, mean over requests",
        "requests",
        "avg(first_chunk_ns - sent_ns) / 1e6",
    ),
    Metric(
        "e2e_ms",
        "ms",
        Direction.LOWER,
        "last byte - send, mean over requests",
        "requests",
        "avg(finished_ns - sent_ns) / 1e6",
    ),
    Metric(
        "tpot_ms",
        "ms",
        Direction.LOWER,
        "(last chunk - first chunk) / (output tokens - tokens of the first chunk), mean over requests",
        "requests",
        "avg((last_chunk_ns - first_chunk_ns) / nullif(output_tokens - first_chunk_tokens, 0)) / 1e6",
        3,
    ),
    Metric(
        "itl_ms",
        "ms",
        Direction.LOWER,
        "gap between tokens: a chunk's gap is shared by the tokens that came with it; mean over tokens",
        "tokens",
        "sum(gap_ns) / nullif(sum(tokens) FILTER (gap_ns IS NOT NULL), 0) / 1e6",
        3,
    ),
    Metric(
        "chunk_gap_ms",
        "ms",
        Direction.LOWER,
        "gap between chunks as the client saw them, however many tokens each carried; mean over chunks",
        "tokens",
        "avg(gap_ns) / 1e6",
        3,
    ),
    Metric(
        "accept_length",
        "tok/cycle",
        Direction.HIGHER,
        "tokens produced a decode cycle, bonus token included; 1 without speculation",
        "cycles",
        "sum(tokens) / count(*)",
        3,
    ),
    Metric(
        "cycle_ms",
        "ms",
        Direction.LOWER,
        "duration of a decode cycle (draft + verify + draft-extend + rest), mean over cycles",
        "cycles",
        "avg(total_ms)",
        3,
    ),
    Metric(
        "draft_ms",
        "ms",
        Direction.LOWER,
        "draft phase of a cycle, mean over cycles",
        "cycles",
        "avg(draft_ms)",
        3,
    ),
    Metric(
        "verify_ms",
        "ms",
        Direction.LOWER,
        "verify phase of a cycle, mean over cycles",
        "cycles",
        "avg(verify_ms)",
        3,
    ),
    Metric(
        "draft_extend_ms",
        "ms",
        Direction.LOWER,
        "draft-extend phase of a cycle, mean over cycles",
        "cycles",
        "avg(draft_extend_ms)",
        3,
    ),
    Metric(
        "period_ms",
        "ms",
        Direction.LOWER,
        "start of a cycle to the start of the next one that follows at once, mean over cycles; by a probe",
        "cycles",
        "avg(period_ms)",
        3,
    ),
    Metric(
        "host_verify_ms",
        "ms",
        Direction.NEITHER,
        "verify phase by the host's clock: beside GPU events, how long launching it took; by a probe",
        "cycles",
        "avg(host_verify_ms)",
        3,
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ROWS}


def named(name: str) -> Metric:
    """The metric of that name; UsageError with the nearest known name if there is none."""
    if name not in METRICS:
        raise UsageError(f"unknown metric {name!r}{nearest(name, METRICS)}", "see docs/glossary.md")
    return METRICS[name]


def markdown() -> str:
    """The table as Markdown, for docs/glossary.md."""
    lines = ["| metric | unit | direction | formula |", "|---|---|---|---|"]
    lines += [f"| `{m.name}` | {m.unit} | {m.direction} | {m.formula} |" for m in _ROWS]
    return "\n".join(lines) + "\n"
