"""The part of an engine's log that was written while requests were measured."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path

from benchharness.records.logline import LogLine
from benchharness.timings.logs import reading, stream

MOST_BYTES = 64 << 20
"""Longer parts are read from their end."""


class LogWatch:
    """Notes how long a log is, now and then, so that a time can be found in it.

    Args:
        path: the log.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._marks = [(time.monotonic_ns(), self._size())]

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def mark(self) -> None:
        """Note the log's length now."""
        self._marks.append((time.monotonic_ns(), self._size()))

    def rows(self) -> Iterator[LogLine]:
        """The whole log as the parsers read it."""
        return self._rows(0)

    def rows_since(self, begin_ns: int) -> Iterator[LogLine]:
        """What was written since the last mark before a time of CLOCK_MONOTONIC, as the parsers read it."""
        return self._rows(
            max((size for at, size in self._marks if at <= begin_ns), default=self._marks[0][1])
        )

    def _rows(self, begin: int) -> Iterator[LogLine]:
        try:
            with self._path.open("rb") as file:
                end = file.seek(0, io.SEEK_END)
                file.seek(max(begin, end - MOST_BYTES))
                text = file.read(end - file.tell())
        except OSError:
            return
        yield from stream.rows(reading.stream_log(io.BytesIO(text)))
