"""Trace files: when requests came to a real service, and how long they were.

CSV with a header line, or JSON lines. Known column names, a row of the table below: this project's
own, Mooncake's and Azure's.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any

import orjson

from benchharness.errors import UsageError

COLUMNS = (
    ("at_s", "input_tokens", "output_tokens", 1.0),
    ("timestamp", "input_length", "output_length", 1e-3),
    ("TIMESTAMP", "ContextTokens", "GeneratedTokens", 1.0),
)
"""(time, input length, output length, seconds that one unit of time stands for)."""

_ADVICE = "known columns: " + "; or ".join(", ".join(columns[:3]) for columns in COLUMNS)


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One request: when it came, on the file's own clock, and its lengths in tokens."""

    at_s: float
    input_tokens: int
    output_tokens: int


def read_trace(path: Path, most: int) -> tuple[TraceRow, ...]:
    """The first `most` rows of a trace file, in the order of time.

    Raises:
        UsageError: the file is missing or empty, has no columns that are known, or a row can't be read.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            blank, first = _first_line(file)
            lines = chain((first,), file)
            rows: Iterator[tuple[int, Mapping[str, Any]]]
            if first.lstrip().startswith("{"):
                rows = _json_lines(lines, path, blank + 1)
            else:
                rows = _csv_lines(lines, blank)
            read = [_row(path, line, fields) for line, fields in islice(rows, most)]
    except OSError as error:
        raise UsageError(f"can't read the trace file {path}: {error.strerror}", "check its path") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} is no CSV and no JSON lines: {error}", _ADVICE) from error
    if not read:
        raise UsageError(f"{path} has no requests", _ADVICE)
    return tuple(sorted(read, key=lambda row: row.at_s))


def _first_line(lines: Iterable[str]) -> tuple[int, str]:
    """(number of blank lines before it, the first line that isn't blank); "" where there is none."""
    blank = 0
    for line in lines:
        if line.strip():
            return blank, line
        blank += 1
    return blank, ""


def _json_lines(lines: Iterable[str], path: Path, start: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(lines, start):
        if not line.strip():
            continue
        try:
            fields = orjson.loads(line)
        except ValueError as error:
            raise UsageError(
                f"{path}, line {number}: not JSON: {error}", "write one object a line"
            ) from error
        if not isinstance(fields, dict):
            raise UsageError(f"{path}, line {number}: not a JSON object", "write one object a line")
        yield number, fields


def _csv_lines(lines: Iterable[str], blank: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(lines)
    for fields in reader:
        yield blank + reader.line_num, fields


def _row(path: Path, line: int, fields: Mapping[str, Any]) -> TraceRow:
    known = [columns for columns in COLUMNS if all(name in fields for name in columns[:3])]
    if not known:
        found = ", ".join(str(name) for name in list(fields)[:8])
        raise UsageError(f"{path}, line {line}: no known columns among {found}", _ADVICE)
    at, given, asked, unit_s = known[0]
    try:
        row = TraceRow(_seconds(fields[at], unit_s), int(fields[given]), int(fields[asked]))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{path}, line {line}: {error}", "correct or remove the line") from error
    if not math.isfinite(row.at_s) or row.input_tokens < 1 or row.output_tokens < 1:
        raise UsageError(
            f"{path}, line {line}: a time or a length is out of range", "correct or remove the line"
        )
    return row


def _seconds(value: Any, unit_s: float) -> float:
    """A time as a number of units, or as a date (Azure writes seven digits after the point)."""
    if isinstance(value, str) and ":" in value:
        whole, _, fraction = value.strip().partition(".")
        digits = fraction.rstrip("Z").partition("+")[0]
        moment = datetime.fromisoformat(whole + "+00:00" if "+" not in whole else whole)
        return moment.timestamp() + (float(f"0.{digits}") if digits else 0.0)
    return float(value) * unit_s
