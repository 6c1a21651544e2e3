"""Decode windows of a block as columns, whoever read them, and their marks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from benchharness.records.logline import LogLine
from benchharness.timings.logs import sglang, windows
from benchharness.timings.logs.windows import Flags, Floats, Ints, Marker

COLUMNS = ("gen_tps", "accept_len", "accept_rate", "running_req", "token", "retracted_req", "graph")
"""Figures of a decode window; `graph` is 1, 0, or NaN where the line says nothing."""

_EVENTS = {
    "prefill": windows.PREFILL,
    "retraction": windows.RETRACTION,
    "graph_capture": windows.CAPTURE,
    "jit": windows.JIT,
    "ready": windows.START,
    "server_args": windows.START,
}


@dataclass
class Batch:
    """The decode windows of a block by rank, and what pollutes them.

    Attributes:
        lines: line numbers by rank, in pieces.
        columns: by rank, pieces of the columns of `COLUMNS`.
        events: line numbers by (rank, reason).
    """

    lines: dict[str, list[Ints]] = field(default_factory=lambda: defaultdict(list))
    columns: dict[str, list[Floats]] = field(default_factory=lambda: defaultdict(list))
    events: dict[tuple[str, int], list[Ints]] = field(default_factory=lambda: defaultdict(list))

    def add_rows(self, rows: Iterable[LogLine]) -> None:
        """Add what was read line by line."""
        decodes: dict[str, list[LogLine]] = defaultdict(list)
        for row in rows:
            if row.engine != sglang.ENGINE:
                continue
            if row.kind == sglang.DECODE:
                decodes[rank_of(row)].append(row)
            elif (bit := _EVENTS.get(row.kind)) is not None:
                where = rank_of(row) if row.kind == sglang.PREFILL else windows.EVERYWHERE
                self.events[where, bit].append(np.array([row.number]))
        for rank, lines in decodes.items():
            self.add(
                rank, np.array([row.number for row in lines]), np.array([_figures(row) for row in lines])
            )

    def add(self, rank: str, lines: Ints, columns: Floats) -> None:
        """Add windows: line numbers, and a row of `COLUMNS` each."""
        self.lines[rank].append(lines)
        self.columns[rank].append(columns)

    def marked(self, marker: Marker) -> Mapping[str, tuple[Ints, Floats, Flags]]:
        """By rank: line numbers in order, columns, and marks."""
        ordered: dict[str, tuple[Ints, Floats]] = {}
        for rank, pieces in self.lines.items():
            lines, columns = np.concatenate(pieces), np.concatenate(self.columns[rank])
            if len(pieces) > 1:
                order = np.argsort(lines, kind="stable")
                lines, columns = lines[order], columns[order]
            ordered[rank] = lines, columns
        events = {key: np.sort(np.concatenate(pieces)) for key, pieces in self.events.items()}
        decodes, retracted = {}, {}
        for rank, (lines, columns) in ordered.items():
            tps, accepted, _, running, tokens, back, _ = columns.T
            per_step = running * np.where(np.isfinite(accepted), accepted, 1.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                decodes[rank] = lines, per_step / tps, tokens, per_step
            retracted[rank] = np.nan_to_num(back) > 0
        marks = marker.mark(decodes, events, retracted)
        return {rank: (lines, columns, marks[rank]) for rank, (lines, columns) in ordered.items()}


def rank_of(row: LogLine) -> str:
    """The rank of a line as people write it: `DP0 TP1`; empty where the line names none."""
    gpu = row.fields.get("gpu")
    names = [f"{name.upper()}{row.fields[name]}" for name in ("dp", "pp", "tp", "ep") if row.fields.get(name)]
    return " ".join(([f"GPU{gpu}"] if gpu else []) + names)


def _figures(row: LogLine) -> list[float]:
    graph = row.fields.get("graph")
    flag = {"True": 1.0, "False": 0.0}.get(graph, np.nan) if isinstance(graph, str) else np.nan
    return [row.figure(name) for name in COLUMNS[:-1]] + [flag]
