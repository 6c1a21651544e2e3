"""Cycles with their phases, told as the probe tells them: in its own file, by its own code."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from .generation import Cycle

FOLDER = "BENCHHARNESS_PROBE_DIR"
DECLARED = "BENCHHARNESS_PROBE_ENV"
DECODE = 1


class Phases:
    """Writes the file of this process."""

    def __init__(self, folder: str) -> None:
        # The probe is a package of the standard library alone; the process knows no other of the harness.
        sys.path.append(str(Path(__file__).resolve().parents[3]))
        self._cycles: Any = import_module("probe.cycle")
        self._rows: Any = import_module("probe.rowfile").RowFile(folder)
        self._seq = 0
        declared = tuple(os.environ.get(DECLARED, "").split(","))
        process: Any = import_module("probe.process")
        facts = {**process.start(), **process.environment(declared)}
        self._rows.facts(
            {**facts, "rank": 0, "workers": ["stand-in"], "hooks": ["stand-in"], "clock": "host"}
        )

    def cycled(self, cycle: Cycle, end_s: float, context: int) -> None:
        """One cycle that was due to end at `end_s` by the loop's clock (CLOCK_MONOTONIC)."""
        row = self._cycles.Cycle()
        row.seq, row.mode, row.batch_size, row.context = self._seq, DECODE, 1, context
        row.tokens = cycle.tokens
        row.accepted = bytes([min(cycle.tokens, 255)])
        row.graph = self._cycles.REPLAYED if cycle.graph else self._cycles.EAGER
        if cycle.verify_ms is None:
            row.flags = self._cycles.PLAIN
        begin = round((end_s - cycle.total_ms / 1e3) * 1e9)
        row.stamps[0], row.stamps[1] = begin, round(end_s * 1e9)
        at = begin
        for place, length_ms in ((2, cycle.draft_ms), (4, cycle.verify_ms), (8, cycle.draft_extend_ms)):
            if length_ms is not None:
                row.stamps[place], row.stamps[place + 1] = at, at + round(length_ms * 1e6)
                at = row.stamps[place + 1]
        self._seq += 1
        self._rows.cycle(row, None)


def wanted(phases: bool) -> Phases | None:
    """The writer, where phases are to be told and somebody wants them."""
    folder = os.environ.get(FOLDER)
    return Phases(folder) if phases and folder else None
