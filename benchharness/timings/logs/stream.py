"""A log as rows, with each decode window judged: what `benchharness parse --jsonl` prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchharness.records.logline import LogLine
from benchharness.timings.logs import sglang, windows
from benchharness.timings.logs.batches import Batch
from benchharness.timings.logs.dialects import chosen
from benchharness.timings.logs.duty import DutyMarker
from benchharness.timings.logs.reading import Log
from benchharness.timings.logs.rows import LineReader


def rows(log: Log, engine: str = "auto") -> Iterator[LogLine]:
    """The rows of a log in its order.

    Args:
        log: what is read.
        engine: one dialect (`dialects.ENGINES`), or `auto` for all of them.

    Decode windows have two more fields: `keep`, whether the window's speed is that of decoding, and
    `reason`, why not.
    """
    reader, marker, duty = LineReader(chosen(engine)), windows.Marker(), DutyMarker()
    for block in log.blocks():
        read = list(reader.read(block))
        yield from _judged(read, marker, duty)
    yield from _judged(list(reader.close()), marker, duty)


def _judged(read: list[LogLine], marker: windows.Marker, duty: DutyMarker) -> Iterator[LogLine]:
    batch = Batch()
    batch.add_rows(read)
    marks: dict[int, int] = {}
    for lines, _, flags in batch.marked(marker).values():
        marks.update(zip(lines.tolist(), flags.tolist(), strict=True))
    for row in read:
        if row.engine == sglang.ENGINE and row.kind == sglang.DECODE:
            mark = marks[row.number]
            yield replace(row, fields={**row.fields, "keep": not mark, "reason": windows.reason(mark)})
        elif (why := duty.judge(row)) is not None:
            yield replace(row, fields={**row.fields, "keep": not why, "reason": why or None})
        else:
            yield row
