"""SGLang's windows column by column: many like lines at once instead of one after another.

Lines with the same words differ in their figures only. Their words are compared by deleting all digits (and
the letters of True and False, the one word that varies); the first line of each kind is read by the line
parser, and shows which figure stands where. Of the others only the figures are kept, parted by the colons
and commas, and Arrow's CSV reader turns them into columns. A label must leave an empty column: a digit that
strayed into one is seen there. Whatever doesn't fit goes back to the line parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as csv

from benchharness.records.logline import LogLine
from benchharness.timings.logs import sglang, windows
from benchharness.timings.logs.batches import COLUMNS, Batch, rank_of
from benchharness.timings.logs.fields import DamagedError

_VARIES = b"0123456789.TrueFals"
_KEPT = b"0123456789.:,\nDPTEF"
_DROPPED = bytes(byte for byte in range(256) if byte not in _KEPT)
_PARTED = bytes.maketrans(b":", b",")
_PARTS = re.compile(r"[:,]")
_RANK = re.compile(r"(DP|PP|TP|EP)(\d+)")
_FIELD = re.compile(r"(?:[,.\]] )([^:,]+): ?([^,]*)")
_FLAGS = {"True": "T", "False": "F"}
_FEWEST = 8
"""Like lines that are worth a table."""
_MOST_PLANS = 512


@dataclass(frozen=True)
class _Plan:
    """How to read lines with the same words.

    Attributes:
        kind: decode or prefill.
        pieces: how many pieces a line has between colons and commas.
        rank: the piece that holds the ranks.
        values: piece of each wanted column of `COLUMNS`.
        labels: what is left of each label, by piece: mostly nothing.
        bare: no iteration number stands after `batch`, so that a digit there is damage.
    """

    kind: str
    pieces: int
    rank: int
    values: dict[str, int]
    labels: dict[int, str]
    bare: bool


class ColumnReader:
    """Takes decode and prefill lines out of a block's candidates, as columns."""

    def __init__(self) -> None:
        self._plans: dict[bytes, _Plan | None] = {}

    def take(self, numbers: npt.NDArray[np.int64], lines: pa.Array, batch: Batch) -> npt.NDArray[np.bool_]:
        """Add to the batch what can be read in columns; says which of the lines that were.

        Args:
            numbers: line numbers.
            lines: the lines, each with its line feed.
            batch: where the windows and prefills go.
        """
        taken = np.zeros(len(numbers), np.bool_)
        if len(numbers) < _FEWEST:
            return taken
        whole = _bytes(lines)
        for words, chosen in _alike(whole, len(lines)):
            if chosen is not None and len(chosen) < _FEWEST:
                continue
            plan = self._plan(words, lines[chosen[0] if chosen else 0].as_py())
            if plan is None:
                continue
            group = whole if chosen is None else _bytes(_taken(lines, chosen))
            if _add(plan, numbers if chosen is None else numbers[chosen], group, batch):
                taken[slice(None) if chosen is None else chosen] = True
        return taken

    def _plan(self, words: bytes, line: bytes) -> _Plan | None:
        if words not in self._plans:
            if len(self._plans) >= _MOST_PLANS:
                return None
            self._plans[words] = _planned(line)
        return self._plans[words]


def _alike(lines: bytes, count: int) -> Iterable[tuple[bytes, list[int] | None]]:
    """(words, indices of the lines that have them); None for all of them."""
    words = lines.translate(None, _VARIES)
    first = words[: words.find(b"\n") + 1]
    if first * count == words:
        return [(first, None)]
    groups: dict[bytes, list[int]] = {}
    for index, line in enumerate(words.split(b"\n")[:-1]):
        groups.setdefault(line, []).append(index)
    return [*groups.items()]


def _planned(line: bytes) -> _Plan | None:
    """The plan that one line gives; None where its figures can't be told apart without their words."""
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    try:
        told = sglang.parse(text)
    except DamagedError:
        return None
    if told is None or told[0] not in (sglang.DECODE, sglang.PREFILL):
        return None
    row = LogLine(sglang.ENGINE, told[0], 0, text, told[1])
    pieces = line.translate(_PARTED, _DROPPED).decode().rstrip("\n").split(",")
    head = text.find(" batch")
    if head < 0 or len(pieces) != len(_PARTS.findall(text)) + 1:
        return None
    rank = len(_PARTS.findall(text, 0, head))
    if _ranks(pieces[rank]) != rank_of(row):
        return None
    values: dict[str, int] = {}
    labels: dict[int, str] = {}
    for field in _FIELD.finditer(text, head):
        piece = len(_PARTS.findall(text, 0, field.start(2)))
        if piece - 1 != rank:
            labels[piece - 1] = pieces[piece - 1]
        value, name = field[2].strip(), _column(field[1])
        if name is None:
            continue
        if pieces[piece] != (_FLAGS.get(value, value) if name == "graph" else value):
            return None
        values[name] = piece
    wanted = {name for name in COLUMNS if row.fields.get(name) is not None}
    bare = text[head + len(" batch") :][:1] in (",", ".")
    return _Plan(row.kind, len(pieces), rank, values, labels, bare) if wanted <= values.keys() else None


def _column(label: str) -> str | None:
    label = label.strip()
    if label.endswith(" graph"):
        return "graph"
    names = {
        "gen throughput (token/s)": "gen_tps",
        "accept len": "accept_len",
        "accept rate": "accept_rate",
        "#running-req": "running_req",
        "#token": "token",
        "#retracted-req": "retracted_req",
    }
    return names.get(label)


def _add(plan: _Plan, numbers: npt.NDArray[np.int64], lines: bytes, batch: Batch) -> bool:
    """Read the figures of like lines; False where one of them is no figure."""
    figures = lines.translate(_PARTED, _DROPPED)
    wanted = plan.values if plan.kind == sglang.DECODE else {}
    word = pa.dictionary(pa.int32(), pa.string())
    types: dict[str, pa.DataType] = {
        str(piece): word if name == "graph" else pa.float64() for name, piece in wanted.items()
    }
    types |= {str(piece): word if left else pa.null() for piece, left in plan.labels.items()}
    types[str(plan.rank)] = word
    table = _table(figures, plan.pieces, types)
    if table is None or table.num_rows != len(numbers):
        return False
    if any(table.column(str(piece)).null_count for piece in (*wanted.values(), plan.rank)):
        return False
    if plan.bare and any(word.rstrip(".")[-1:].isdigit() for word in _words(table, plan.rank)[0]):
        return False
    for piece, left in plan.labels.items():
        if left and _words(table, piece)[0] != [left]:
            return False
    columns = np.full((len(numbers), len(COLUMNS)), np.nan)
    for name, piece in wanted.items():
        columns[:, COLUMNS.index(name)] = _numbers(table, piece, name)
    for rank, chosen in _by_rank(table, plan.rank):
        if plan.kind == sglang.PREFILL:
            batch.events[rank, windows.PREFILL].append(numbers[chosen])
        else:
            batch.add(rank, numbers[chosen], columns[chosen])
    return True


def _table(figures: bytes, pieces: int, types: dict[str, pa.DataType]) -> pa.Table | None:
    """The wanted pieces as a table of one chunk; None where one doesn't have its type."""
    try:
        table = csv.read_csv(
            pa.py_buffer(figures),
            read_options=csv.ReadOptions(
                use_threads=False,
                column_names=[str(piece) for piece in range(pieces)],
                block_size=max(len(figures) + 1, 1 << 16),
            ),
            parse_options=csv.ParseOptions(delimiter=",", quote_char=False, double_quote=False),
            convert_options=csv.ConvertOptions(
                include_columns=list(types), column_types=types, strings_can_be_null=True, null_values=[""]
            ),
        )
    except pa.ArrowInvalid:
        return None
    return table.combine_chunks()


def _numbers(table: pa.Table, piece: int, name: str) -> npt.NDArray[np.float64]:
    """A column as floats; not by to_numpy, which would import pandas."""
    if name != "graph":
        return _view(table.column(str(piece)).chunk(0), np.float64)
    words, codes = _words(table, piece)
    flags: npt.NDArray[np.float64] = np.array([{"T": 1.0, "F": 0.0}.get(word, np.nan) for word in words])
    return flags[codes]


def _words(table: pa.Table, piece: int) -> tuple[list[str], npt.NDArray[np.int32]]:
    """(the distinct words of a column, which of them each line has)."""
    encoded = table.column(str(piece)).chunk(0)
    return encoded.dictionary.to_pylist(), _view(encoded.indices, np.int32)


def _view(array: pa.Array, kind: type) -> npt.NDArray[Any]:
    """The numbers of an array without nulls."""
    return np.frombuffer(array.buffers()[1], kind, len(array), array.offset * np.dtype(kind).itemsize)


def _by_rank(table: pa.Table, piece: int) -> Iterable[tuple[str, npt.NDArray[np.bool_] | slice]]:
    """(rank, which lines) of each rank. A piece holds seconds too, so several pieces mean one rank."""
    words, codes = _words(table, piece)
    ranks = [_ranks(word) for word in words]
    distinct = sorted(set(ranks))
    if len(distinct) == 1:
        return [(distinct[0], slice(None))]
    of = np.array([distinct.index(rank) for rank in ranks])[codes]
    return [(rank, of == code) for code, rank in enumerate(distinct)]


def _ranks(piece: str) -> str:
    found = dict(_RANK.findall(piece))
    return " ".join(f"{name}{found[name]}" for name in ("DP", "PP", "TP", "EP") if name in found)


def _taken(lines: pa.Array, chosen: list[int]) -> pa.Array:
    """Some of the lines; the indices not by pa.array, which would import pandas."""
    indices = np.array(chosen, np.int64)
    return lines.take(pa.Array.from_buffers(pa.int64(), len(indices), [None, pa.py_buffer(indices)]))


def _bytes(lines: pa.Array) -> bytes:
    """The bytes of consecutive lines."""
    offsets = np.frombuffer(lines.buffers()[1], np.int32, len(lines) + 1, lines.offset * 4)
    return bytes(memoryview(lines.buffers()[2])[offsets[0] : offsets[-1]])
