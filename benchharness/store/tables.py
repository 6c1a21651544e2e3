"""The Parquet tables of a trial: their columns, and how records become rows and rows become views.

requests  one row a request: index, warmup, counted, failure, sent_ns, first_chunk_ns, last_chunk_ns ...
tokens    one row a chunk that carried tokens: request, chunk, arrival_ns, gap_ns, tokens, server_ms
cycles    one row a decode cycle: request, cycle, tokens, total_ms, draft_ms, verify_ms ...

`counted` is true for a request that is no warm-up and did not fail: only such rows enter a mean.
Times are CLOCK_MONOTONIC nanoseconds. `gap_ns` is NULL for the first chunk of an answer and for whatever
came in the same read with it: how long those tokens took can't be told. `first_chunk_tokens` counts them all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchharness.records import Cycle, RequestTrace, Trial

REQUESTS = pa.schema(
    [
        ("request", pa.int32()),
        ("warmup", pa.bool_()),
        ("counted", pa.bool_()),
        ("failure", pa.string()),
        ("failure_text", pa.string()),
        ("prompt_tokens", pa.int32()),
        ("server_prompt_tokens", pa.int32()),
        ("cached_tokens", pa.int32()),
        ("asked_tokens", pa.int32()),
        ("output_tokens", pa.int32()),
        ("tokens_estimated", pa.bool_()),
        ("drafted_tokens", pa.int32()),
        ("accepted_tokens", pa.int32()),
        ("verify_cycles", pa.int32()),
        ("due_ns", pa.int64()),
        ("sent_ns", pa.int64()),
        ("first_chunk_ns", pa.int64()),
        ("first_chunk_tokens", pa.int32()),
        ("last_chunk_ns", pa.int64()),
        ("finished_ns", pa.int64()),
        ("transport", pa.string()),
        ("reads", pa.int32()),
        ("late_reads", pa.int32()),
        ("unstamped_reads", pa.int32()),
        ("crowded_reads", pa.int32()),
        ("events", pa.int32()),
        ("read_delay_median_ns", pa.int64()),
        ("read_delay_max_ns", pa.int64()),
        ("text_chunks", pa.int32()),
        ("tokens_mismatch", pa.bool_()),
        ("probed", pa.bool_()),
        ("partner_ns", pa.int64()),
    ]
)

TOKENS = pa.schema(
    [
        ("request", pa.int32()),
        ("counted", pa.bool_()),
        ("chunk", pa.int32()),
        ("arrival_ns", pa.int64()),
        ("gap_ns", pa.int64()),
        ("tokens", pa.int32()),
        ("server_ms", pa.float64()),
    ]
)

CYCLES = pa.schema(
    [
        ("request", pa.int32()),
        ("counted", pa.bool_()),
        ("cycle", pa.int32()),
        ("tokens", pa.int32()),
        ("total_ms", pa.float64()),
        ("draft_ms", pa.float64()),
        ("verify_ms", pa.float64()),
        ("draft_extend_ms", pa.float64()),
        ("source", pa.string()),
        ("clock", pa.string()),
        ("start_ns", pa.int64()),
        ("period_ms", pa.float64()),
        ("target_forward_ms", pa.float64()),
        ("after_forward_ms", pa.float64()),
        ("host_total_ms", pa.float64()),
        ("host_draft_ms", pa.float64()),
        ("host_verify_ms", pa.float64()),
        ("host_draft_extend_ms", pa.float64()),
        ("batch_size", pa.int32()),
        ("accepted", pa.list_(pa.int32())),
        ("context_tokens_sum", pa.int64()),
        ("graph", pa.bool_()),
        ("draft_graph", pa.bool_()),
        ("draft_extend_graph", pa.bool_()),
        ("rank", pa.int32()),
        ("mark", pa.string()),
        ("window_cycles", pa.int32()),
    ]
)

SCHEMAS = {"requests": REQUESTS, "tokens": TOKENS, "cycles": CYCLES}


def write(folder: Path, trial: Trial) -> None:
    """Write a trial's three tables into a folder; OSError where the disk does not take them."""
    rows: dict[str, list[dict[str, Any]]] = {
        "requests": [_request_row(trace) for trace in trial.requests],
        "tokens": [row for trace in trial.requests for row in _token_rows(trace)],
        "cycles": _cycle_rows(trial),
    }
    for name, schema in SCHEMAS.items():
        table = pa.Table.from_pylist(rows[name], schema=schema)
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")


def _request_row(trace: RequestTrace) -> dict[str, Any]:
    """A trace's own fields by their names, and what follows from its chunks."""
    row = {name: getattr(trace, name, None) for name in REQUESTS.names}
    return row | {
        "request": trace.index,
        "counted": trace.failure is None and not trace.warmup,
        "failure": None if trace.failure is None else str(trace.failure),
        "failure_text": trace.failure_text or None,
        "first_chunk_ns": trace.chunk_ns[0] if trace.chunk_ns else None,
        "first_chunk_tokens": _first_tokens(trace),
        "last_chunk_ns": trace.chunk_ns[-1] if trace.chunk_ns else None,
        "transport": trace.transport or None,
    }


def _first_tokens(trace: RequestTrace) -> int | None:
    """Tokens that arrived with the first stamp."""
    if not trace.chunk_ns:
        return None
    pairs = zip(trace.chunk_ns, trace.chunk_tokens, strict=True)
    return sum(tokens for arrival_ns, tokens in pairs if arrival_ns == trace.chunk_ns[0])


def _token_rows(trace: RequestTrace) -> list[dict[str, Any]]:
    counted = trace.failure is None and not trace.warmup
    rows: list[dict[str, Any]] = []
    for chunk, arrival_ns in enumerate(trace.chunk_ns):
        server_ms = trace.chunk_server_ms[chunk] if chunk < len(trace.chunk_server_ms) else None
        rows.append(
            {
                "request": trace.index,
                "counted": counted,
                "chunk": chunk,
                "arrival_ns": arrival_ns,
                "gap_ns": arrival_ns - trace.chunk_ns[chunk - 1] if arrival_ns > trace.chunk_ns[0] else None,
                "tokens": trace.chunk_tokens[chunk],
                # NaN (no server clock) is stored as NULL, so that no mean meets it.
                "server_ms": server_ms if server_ms == server_ms else None,
            }
        )
    return rows


def _cycle_rows(trial: Trial) -> list[dict[str, Any]]:
    """Every cycle; counted are those of counted requests, by one rank, without a mark.

    Ranks of one model run the same cycles, so the lowest one speaks for all; the others' rows are there for
    the spread between ranks. A cycle of no one request counts once the measured part has begun.
    """
    counted = {trace.index for trace in trial.requests if trace.failure is None and not trace.warmup}
    began_ns = min((t.sent_ns for t in trial.requests if t.index in counted), default=0)
    ranks = [cycle.rank for cycle in trial.cycles if cycle.rank is not None]
    speaker = min(ranks, default=None)

    def counts(cycle: Cycle) -> bool:
        # A log's windows were read from the measured time on.
        of_batch = cycle.request == -1 and (cycle.start_ns >= began_ns or cycle.source == "log")
        of_request = cycle.request in counted or of_batch
        return bool(counted) and of_request and cycle.rank in (None, speaker) and not cycle.mark

    return [_cycle_row(cycle, counts(cycle)) for cycle in trial.cycles]


def _cycle_row(cycle: Cycle, counted: bool) -> dict[str, Any]:
    """A cycle's own fields by their names; what is not known is NULL."""
    row = {name: getattr(cycle, name, None) for name in CYCLES.names}
    return row | {
        "cycle": cycle.index,
        "counted": counted,
        "context_tokens_sum": cycle.context_tokens,
        "start_ns": cycle.start_ns if cycle.start_ns >= 0 else None,
        "mark": cycle.mark or None,
    }
