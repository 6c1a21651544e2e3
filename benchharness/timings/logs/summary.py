"""What a whole log says: the fast way through it, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from benchharness.records.logline import LogLine
from benchharness.timings.logs import definition, sglang, windows
from benchharness.timings.logs.batches import COLUMNS, Batch
from benchharness.timings.logs.columns import ColumnReader
from benchharness.timings.logs.dialects import candidates, chosen
from benchharness.timings.logs.duty import DutyMarker
from benchharness.timings.logs.reading import Block, Log
from benchharness.timings.logs.rows import LineReader, overlong
from benchharness.timings.logs.spread import Spread
from benchharness.timings.logs.startup import Startup
from benchharness.timings.logs.windows import Flags, Floats

_MOST_PAIRS = 4096
_GEN, _LENGTH, _RATE = COLUMNS.index("gen_tps"), COLUMNS.index("accept_len"), COLUMNS.index("accept_rate")
_GRAPH = COLUMNS.index("graph")


@dataclass
class Group:
    """The windows, steps or answers of one rank.

    Attributes:
        engine, rank, what: whose they are, and what one of them is.
        count: all of them.
        kept: those whose speed is that of decoding.
        reasons: why others are not, by short word; one may have several.
        tok_s, all_tok_s: tok/s of the kept ones and of all.
        step_ms: ms a step of the kept ones, where the engine prints it.
        accept_len: tokens a cycle with the bonus, of all that print it.
        graphs: windows that replayed a captured graph, that didn't, and that don't say.
    """

    engine: str
    rank: str
    what: str
    count: int = 0
    kept: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    tok_s: Spread = field(default_factory=Spread)
    all_tok_s: Spread = field(default_factory=Spread)
    step_ms: Spread = field(default_factory=Spread)
    accept_len: Spread = field(default_factory=Spread)
    graphs: Counter[str] = field(default_factory=Counter)


class Summary:
    """What a log says.

    Attributes:
        groups: by (engine, rank, what one of them is).
        kinds: rows by (engine, kind); decode and prefill windows are counted too.
        startup: what the start-up lines say.
        tables: benchmark tables, at most 100.
        damaged: how many lines were refused.
        lines, size: of the log.
        truncated, unfinished: as in `Log`.
    """

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str, str], Group] = {}
        self.kinds: Counter[tuple[str, str]] = Counter()
        self.startup = Startup()
        self.tables: list[LogLine] = []
        self.damaged = 0
        self.lines = 0
        self.size = 0
        self.truncated = False
        self.unfinished = False
        self._pairs: list[tuple[float, float]] = []
        self._duty = DutyMarker()
        self._rank = ""

    @property
    def engine(self) -> str | None:
        """The engine that wrote most of what was understood; NCCL's lines stand in any engine's log."""
        rows: Counter[str] = Counter()
        for (name, _), count in self.kinds.items():
            rows[name] += count
        ranked = sorted((name for name in rows if name), key=lambda name: (name == "nccl", -rows[name], name))
        return ranked[0] if ranked else None

    def accept_rate(self) -> definition.Definition:
        """What SGLang's accept rate means in this log."""
        lengths, rates = zip(*self._pairs, strict=True) if self._pairs else ((), ())
        return definition.infer(lengths, rates, self.startup.draft_tokens)

    def group(self, engine: str, rank: str, what: str) -> Group:
        """The group of that name."""
        key = engine, rank, what
        if key not in self.groups:
            self.groups[key] = Group(engine, rank, what)
        return self.groups[key]

    def add_windows(self, rank: str, columns: Floats, marks: Flags) -> None:
        """Add SGLang's decode windows of one rank."""
        group = self.group(sglang.ENGINE, rank, "decode window")
        clean = marks == 0
        group.count += len(marks)
        group.kept += int(clean.sum())
        for bit, word in windows.SHORT.items():
            group.reasons[word] += int(np.count_nonzero(marks & bit))
        group.all_tok_s.add(columns[:, _GEN])
        group.tok_s.add(columns[clean, _GEN])
        group.accept_len.add(columns[:, _LENGTH])
        graphs = columns[:, _GRAPH]
        on, off = int(np.count_nonzero(graphs == 1)), int(np.count_nonzero(graphs == 0))
        group.graphs.update({"graph": on, "eager": off, "untold": len(marks) - on - off})
        if len(self._pairs) < _MOST_PAIRS:
            pairs = columns[:, (_LENGTH, _RATE)]
            pairs = pairs[np.isfinite(pairs).all(axis=1)][: _MOST_PAIRS - len(self._pairs)]
            self._pairs += [(float(length), float(rate)) for length, rate in pairs]

    def add_row(self, row: LogLine) -> None:
        """Add any row but SGLang's decode windows."""
        self.startup.add(row)
        if row.kind == "table" and len(self.tables) < 100:
            self.tables.append(row)
        figures = _FIGURES.get((row.engine, row.kind))
        why = self._duty.judge(row)
        if figures is None:
            return
        what, tok_s, step_ms, length = figures
        if row.kind != "spec_decoding":  # it follows the line of its engine and names none
            self._rank = _rank(row)
        group = self.group(row.engine, self._rank, what.format(**row.fields))
        group.accept_len.add(np.array([row.figure(length)]))
        if row.kind in _ONLY_LENGTHS:
            return
        group.count += 1
        group.all_tok_s.add(np.array([row.figure(tok_s)]))
        if why:
            group.reasons.update(why.split("; "))
            return
        group.kept += 1
        group.tok_s.add(np.array([row.figure(tok_s)]))
        group.step_ms.add(np.array([row.figure(step_ms)]))


_NONE = "-"
_FIGURES = {
    ("vllm", "throughput"): ("10 s window", "gen_tps", _NONE, _NONE),
    ("vllm", "spec_decoding"): ("10 s window", _NONE, _NONE, "mean_len"),
    ("vllm", "iteration"): ("step", _NONE, "ms", _NONE),
    ("trtllm", "iteration"): ("step", _NONE, "host_ms", _NONE),
    ("llamacpp", "eval"): ("answer", "tps", "ms_per_token", _NONE),
    ("llamacpp", "acceptance"): ("answer", _NONE, _NONE, "mean_len"),
    ("profile", "phase"): ("{phase} a cycle", _NONE, "ms", _NONE),
}
"""Of rows with a speed: what one is, and the fields with its tok/s, its ms, and its accept length."""
_ONLY_LENGTHS = frozenset({"spec_decoding", "acceptance"})


def _rank(row: LogLine) -> str:
    """The engine, rank or slot that a row speaks of."""
    for key, word in (("engine_index", "engine "), ("dp", "DP"), ("global_rank", "rank "), ("slot", "slot ")):
        value = row.fields.get(key)
        if isinstance(value, str):
            return f"{word}{value}"
    return ""


def summarise(log: Log, engine: str = "auto", refused: Callable[[LogLine], None] | None = None) -> Summary:
    """Read a log from beginning to end.

    Args:
        log: what is read.
        engine: one dialect (`dialects.ENGINES`), or `auto` for all of them.
        refused: is called with each damaged row.
    """
    made = Summary()
    engines = chosen(engine)
    reader, columns, marker = LineReader(engines), ColumnReader(), windows.Marker()
    in_columns = sglang.ENGINE in engines
    for block in log.blocks():
        batch = Batch()
        rows = _rows(block, reader, columns if in_columns else None, batch, made)
        _take(made, rows, batch, refused)
        for rank, (_, figures, marks) in batch.marked(marker).items():
            made.add_windows(rank, figures, marks)
        made.lines = block.first - 1 + block.lines
    _take(made, list(reader.close()), Batch(), refused)
    made.size, made.truncated, made.unfinished = log.size, log.truncated, log.unfinished
    return made


def _rows(
    block: Block, reader: LineReader, columns: ColumnReader | None, batch: Batch, made: Summary
) -> Iterable[LogLine]:
    """The rows of a block that weren't read in columns."""
    if columns is None or reader.busy:
        return list(reader.read(block))
    indices, lines = candidates(block, reader.pattern)
    if reader.opens(lines):
        return list(reader.read(block))
    taken = columns.take(indices + block.first, lines, batch)
    for (_, bit), pieces in batch.events.items():
        if bit == windows.PREFILL:
            made.kinds[sglang.ENGINE, sglang.PREFILL] += sum(map(len, pieces))
    for pieces in batch.lines.values():
        made.kinds[sglang.ENGINE, sglang.DECODE] += sum(map(len, pieces))
    left = np.flatnonzero(~taken).tolist()
    numbered = [(int(indices[place]) + block.first, lines[place].as_py()) for place in left]
    return [*overlong(block), *reader.parse(numbered)]


def _take(
    made: Summary, rows: Iterable[LogLine], batch: Batch, refused: Callable[[LogLine], None] | None
) -> None:
    """Sort rows into the summary; decode windows and what pollutes them into the batch."""
    batch.add_rows(rows)
    for row in rows:
        made.kinds[row.engine, row.kind] += 1
        if row.damaged:
            made.damaged += 1
            if refused is not None:
                refused(row)
        else:
            made.add_row(row)
