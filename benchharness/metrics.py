"""Every metric, in one table: name, unit, direction, formula, and the SQL that computes it.

Docs, reports, comparisons and gates all print from and judge by this table. `sql` is an aggregate
over one launch's measured rows of `table` (warm-up and failed requests left out); the tables'
columns are described in `store/tables.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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
        table: `requests`, `tokens`, `cycles`, or `trials`, of which a launch has one row a cell.
        sql: DuckDB aggregate over the rows of one trial; NULL where nothing can be said.
        decimals: digits after the point when printed.
        fewest: observations below which a launch has no such percentile (its SQL is NULL then); 0 for others.
    """

    name: str
    unit: str
    direction: Direction
    formula: str
    table: str
    sql: str
    decimals: int = 2
    fewest: int = 0


def fewest_for(share: float) -> int:
    """Observations from which on a sample holds a percentile: 95 % sure that some lie on both sides of it."""
    return math.ceil(math.log(0.05) / math.log(max(share, 1 - share)))


def _percentile(of: str, share: float, table: str, value: str, words: str, decimals: int = 3) -> Metric:
    """A percentile over the rows of one launch, NULL where they are too few for it."""
    fewest = fewest_for(share)
    place = f"p{share * 100:g}"
    name = f"{of.removesuffix('_ms')}_{place}_ms"
    sql = f"CASE WHEN count({value}) >= {fewest} THEN quantile_cont({value}, {share}) END"
    formula = f"{words}: {place} within a launch, which takes {fewest} of them; mean over launches"
    return Metric(name, "ms", Direction.LOWER, formula, table, sql, decimals, fewest)


_ROWS = (
    Metric(
        "output_tok_s",
        "tok/s",
        Direction.HIGHER,
        "output tokens of all measured requests / (last byte of the last - first send of the first); in a "
        "duet less the time that the other server was driven in between",
        "requests",
        # What the other server took before the first request is no part of the time.
        "sum(output_tokens) / nullif((max(finished_ns) - min(sent_ns) - coalesce(sum(partner_ns) "
        "- arg_min(partner_ns, sent_ns), 0)) / 1e9, 0)",
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
        "tokens that a decode cycle produced for one request, bonus token included; 1 without speculation",
        "cycles",
        "sum(tokens) / sum(coalesce(batch_size, 1) * coalesce(window_cycles, 1))",
        3,
    ),
    Metric(
        "drafted_tokens",
        "tok/request",
        Direction.NEITHER,
        "draft tokens that were proposed for a request, by the server's own count; mean over requests",
        "requests",
        "avg(drafted_tokens)",
        1,
    ),
    Metric(
        "accepted_tokens",
        "tok/request",
        Direction.NEITHER,
        "draft tokens of a request that were accepted, by the server's own count; mean over requests",
        "requests",
        "avg(accepted_tokens)",
        1,
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
    Metric(
        "cpu_ms_per_token",
        "ms/tok",
        Direction.LOWER,
        "CPU time of the engine's processes in a trial / output tokens of all its requests, warm-up ones "
        "included: hardly moved by what else the machine does",
        "trials",
        "1000 * sum(engine_cpu_s) / nullif(sum(output_tokens) FILTER (engine_cpu_s IS NOT NULL), 0)",
        3,
    ),
    Metric(
        "start_s",
        "s",
        Direction.LOWER,
        "process creation - readiness of a launch",
        "trials",
        "avg(start_s)",
        2,
    ),
    Metric(
        "max_rss_mib",
        "MiB",
        Direction.LOWER,
        "largest resident set of any one of the engine's processes in a launch",
        "trials",
        "avg(max_rss_mib)",
        1,
    ),
    Metric(
        "gpu_memory_mib",
        "MiB",
        Direction.LOWER,
        "highest use of all boards' memory together, over the samples of a trial",
        "trials",
        "max(gpu_memory_mib)",
        0,
    ),
    Metric(
        "script_value",
        "",
        Direction.NEITHER,
        "last number in the last line that `measure.script` printed",
        "trials",
        "avg(script_value)",
        3,
    ),
)


def _itl_percentile(share: float) -> Metric:
    """Over tokens: a chunk of n tokens is n gaps of an n-th of its own."""
    fewest = fewest_for(share)
    gap = "gap_ns / tokens / 1e6"
    each = f"flatten(list(list_resize([{gap}], tokens, {gap})) FILTER (gap_ns IS NOT NULL AND tokens > 0))"
    sql = (
        f"CASE WHEN sum(tokens) FILTER (gap_ns IS NOT NULL) >= {fewest} "
        f"THEN list_aggregate({each}, 'quantile_cont', {share}) END"
    )
    plain = _percentile("itl_ms", share, "tokens", "gap_ns", "gap between tokens, over tokens")
    return replace(plain, sql=sql)


_PERCENTILES = tuple(
    _percentile(of, share, table, value, words)
    for of, table, value, words in (
        ("ttft_ms", "requests", "(first_chunk_ns - sent_ns) / 1e6", "first chunk - send of requests"),
        ("e2e_ms", "requests", "(finished_ns - sent_ns) / 1e6", "last byte - send of requests"),
        ("cycle_ms", "cycles", "total_ms", "duration of decode cycles"),
        ("draft_ms", "cycles", "draft_ms", "draft phase of cycles"),
        ("verify_ms", "cycles", "verify_ms", "verify phase of cycles"),
        ("draft_extend_ms", "cycles", "draft_extend_ms", "draft-extend phase of cycles"),
    )
    for share in (0.5, 0.99)
) + tuple(_itl_percentile(share) for share in (0.5, 0.99))

METRICS: dict[str, Metric] = {metric.name: metric for metric in (*_ROWS, *_PERCENTILES)}


def named(name: str) -> Metric:
    """The metric of that name; UsageError with the nearest known name if there is none."""
    if name not in METRICS:
        raise UsageError(f"unknown metric {name!r}{nearest(name, METRICS)}", "see docs/glossary.md")
    return METRICS[name]


def markdown() -> str:
    """The table as Markdown, for docs/glossary.md."""
    lines = ["| metric | unit | direction | formula |", "|---|---|---|---|"]
    lines += [f"| `{m.name}` | {m.unit} | {m.direction} | {m.formula} |" for m in METRICS.values()]
    return "\n".join(lines) + "\n"
