"""Cycles by the decode windows of SGLang's log, where nothing else tells of cycles.

A window is the mean of some 40 cycles: `gen throughput` is tokens of all requests over its time. So one row
stands for `window_cycles` cycles, and its duration is accept length x running requests / throughput.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from benchharness.records import Cycle
from benchharness.records.logline import LogLine

USUAL_INTERVAL = 40
"""`--decode-log-interval` unless it is set."""


def cycles(rows: Iterable[LogLine], interval: int = USUAL_INTERVAL) -> tuple[Cycle, ...]:
    """One row a window, in the log's order; windows that hold other work than decoding say so in `mark`.

    Args:
        rows: of the measured time, with `keep` and `reason` (see `logs.stream`).
        interval: cycles of a window.
    """
    found: list[Cycle] = []
    for row in rows:
        if row.engine != "sglang" or row.kind != "decode":
            continue
        running, speed, accepted = (row.figure(name) for name in ("running_req", "gen_tps", "accept_len"))
        accepted = 1.0 if math.isnan(accepted) else accepted
        if not (running > 0 and speed > 0):
            continue
        graph = row.fields.get("cuda_graph")
        found.append(
            Cycle(
                request=-1,
                index=len(found),
                tokens=round(accepted * running * interval),
                total_ms=1000 * accepted * running / speed,
                draft_ms=None,
                verify_ms=None,
                draft_extend_ms=None,
                source="log",
                clock="host",
                batch_size=int(running),
                graph=None if graph is None else graph == "True",
                window_cycles=interval,
                mark="" if row.fields.get("keep") else str(row.fields.get("reason") or "polluted"),
            )
        )
    return tuple(found)
