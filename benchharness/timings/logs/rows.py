"""The rows of a log: each line, or table, that a dialect understands, in the log's order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from benchharness.records.logline import DAMAGED, LogLine
from benchharness.timings.logs import bench_tables, trtllm
from benchharness.timings.logs.dialects import MARKS, PARSERS, candidates, pattern
from benchharness.timings.logs.fields import DamagedError
from benchharness.timings.logs.reading import LONGEST, Block

_MOST_JSON_LINES = 64


class LineReader:
    """Reads the lines of some dialects, block after block.

    Args:
        engines: the dialects, in the order in which they are tried.
    """

    def __init__(self, engines: Sequence[str]) -> None:
        self.pattern = pattern(engines)
        self._parsers = [(name, MARKS[name], PARSERS[name]) for name in engines if name in PARSERS]
        self._tables = bench_tables.ENGINE in engines
        self._json = trtllm.ENGINE in engines
        self._open: _Open | None = None

    def read(self, block: Block) -> Iterator[LogLine]:
        """The rows of a block; a table that goes on in the next one comes with that."""
        yield from overlong(block)
        if self._open is None:
            indices, lines = candidates(block, self.pattern)
            if not self.opens(lines):
                yield from self.parse(zip((indices + block.first).tolist(), lines.to_pylist(), strict=True))
                return
        whole = enumerate(block.data.removesuffix(b"\n").split(b"\n"), block.first)
        yield from self._with_tables(whole)

    @property
    def busy(self) -> bool:
        """Whether a table or an object of several lines has begun and not ended."""
        return self._open is not None

    def close(self) -> Iterator[LogLine]:
        """What was still open at the end of the log."""
        if self._open is not None:
            yield self._open.row()
            self._open = None

    def parse(self, numbered: Iterable[tuple[int, bytes]]) -> Iterator[LogLine]:
        """The rows of single lines: (number, bytes) each."""
        for number, line in numbered:
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            row = self._row(number, text)
            if row is not None:
                yield row

    def _row(self, number: int, text: str) -> LogLine | None:
        for engine, marks, parse in self._parsers:
            if not any(mark in text for mark in marks):
                continue
            try:
                told = parse(text)
            except DamagedError as error:
                return damaged(engine, number, text, str(error))
            if told is not None:
                return LogLine(engine, told[0], number, text, told[1])
        return None

    def opens(self, lines: object) -> bool:
        """Whether a table or an object of several lines may begin in a block."""
        if not (self._tables or self._json):
            return False
        import pyarrow.compute as pc

        marks = pattern(
            [name for name, wanted in (("bench", self._tables), ("trtllm", self._json)) if wanted]
        )
        return bool(pc.any(pc.match_substring_regex(lines, marks)).as_py())

    def _with_tables(self, numbered: Iterable[tuple[int, bytes]]) -> Iterator[LogLine]:
        for number, line in numbered:
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            if self._open is not None:
                taken, closed = self._open.take(text)
                if closed:
                    yield self._open.row()
                    self._open = None
                if taken:
                    continue
            self._open = self._begun(number, text)
            if self._open is None and (row := self._row(number, text)) is not None:
                yield row

    def _begun(self, number: int, text: str) -> _Open | None:
        if self._tables and bench_tables.HEAD.search(text):
            return _Open(bench_tables.ENGINE, number, text)
        if self._json and trtllm.OPENING.search(text) and "}" not in text and '"' in text:
            return _Open(trtllm.ENGINE, number, text)
        return None


class _Open:
    """A table, or a JSON object, of which more lines are to come."""

    def __init__(self, engine: str, number: int, text: str) -> None:
        self._engine, self._number = engine, number
        self._lines = [text]
        self._size = len(text)

    def take(self, text: str) -> tuple[bool, bool]:
        """(the line belongs to it, it is complete)."""
        table = self._engine == bench_tables.ENGINE
        most = bench_tables.MOST_LINES if table else _MOST_JSON_LINES
        if len(self._lines) >= most or self._size > LONGEST or (table and not self._goes_on(text)):
            return False, True
        self._lines.append(text)
        self._size += len(text)
        return True, bool(bench_tables.END.fullmatch(text)) if table else "}" in text

    def _goes_on(self, text: str) -> bool:
        return bench_tables.belongs(text) or bool(bench_tables.END.fullmatch(text))

    def row(self) -> LogLine:
        text = "\n".join(self._lines).rstrip()
        parse = bench_tables.parse if self._engine == bench_tables.ENGINE else trtllm.parse
        joined = text if self._engine == bench_tables.ENGINE else " ".join(self._lines)
        try:
            told = parse(joined)
        except DamagedError as error:
            return damaged(self._engine, self._number, text, str(error))
        if told is None:
            return damaged(self._engine, self._number, text, "an object that says nothing")
        return LogLine(self._engine, told[0], self._number, text, told[1])


def overlong(block: Block) -> Iterator[LogLine]:
    """A damaged row for each line that was too long to look at."""
    for number in block.overlong:
        yield damaged("", number, "", f"longer than {LONGEST >> 20} MiB: not looked at")


def damaged(engine: str, number: int, text: str, why: str) -> LogLine:
    """The row of a line that was refused."""
    return LogLine(engine, DAMAGED, number, text, {"malformed": True, "why": why})
