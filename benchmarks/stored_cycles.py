"""A run with millions of cycles, written as tables straight away: for the speed of reading it back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchharness.records import (
    Launch,
    LaunchStatus,
    Plan,
    PlannedLaunch,
    Run,
    Stack,
    Trial,
    Workload,
)
from benchharness.store import create, tables

LAUNCHES = 10
CONTEXTS = (128, 2048)


def make(place: Path, cycles: int) -> Path:
    """A finished run of two stacks, `a` and `b`, of that many cycles in all; its folder."""
    works = tuple(Workload(context, 256, 16) for context in CONTEXTS)
    planned = tuple(PlannedLaunch(i, i // 2, "ab"[i % 2], (0, 1), 1) for i in range(LAUNCHES))
    stacks = (Stack("a", "sglang"), Stack("b", "sglang"))
    plan = Plan("speed", stacks, works, planned, "interleaved", 1)
    run = Run("r", "2026-01-01T00:00:00+00:00", "0", {}, plan, "s")
    with create(place, run) as folder:
        for launch in planned:
            folder.begin_launch(launch.index)
            for position, work in enumerate(works):
                folder.append_trial(
                    Trial(launch.index, position, work, (), (), started_ns=0, finished_ns=10**10)
                )
            folder.end_launch(Launch(launch.index, launch.block, launch.stack, 1, LaunchStatus.DONE, "2026"))
        folder.finish()
    random = np.random.default_rng(1)
    for file in sorted(folder.path.glob("launches/*/trials/*/cycles.parquet")):
        table = _cycles(random, cycles // (LAUNCHES * len(CONTEXTS)))
        pq.write_table(table, file, compression="zstd")
    return folder.path


def _cycles(random: np.random.Generator, count: int) -> pa.Table:
    verify = random.normal(20, 1, count)
    known = {
        "request": np.arange(count) * 16 // count,
        "counted": np.ones(count, dtype=bool),
        "cycle": np.arange(count),
        "tokens": random.integers(1, 4, count),
        "total_ms": verify + 5,
        "draft_ms": random.normal(4, 0.1, count),
        "verify_ms": verify,
        "draft_extend_ms": random.normal(1, 0.1, count),
        "source": np.full(count, "probe"),
        "clock": np.full(count, "gpu"),
        "start_ns": np.arange(count) * 20_000_000,
        "period_ms": verify + 5.1,
        "host_verify_ms": verify / 4,
    }
    columns = [
        pa.array(known[field.name]).cast(field.type) if field.name in known else pa.nulls(count, field.type)
        for field in tables.CYCLES
    ]
    return pa.table(columns, schema=tables.CYCLES)
