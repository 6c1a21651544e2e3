"""The terminal: where text for people goes, and how figures are written."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table

_WIDTH_WITHOUT_TERMINAL = 120
_WHOLE_PERCENT = 10.0
_MOST_PERCENT = 100.0


def people(as_json: bool) -> Console:
    """Where tables go: standard output, or standard error where a program reads standard output."""
    return _console(stderr=as_json)


def progress() -> Console:
    """Where progress goes: standard error."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    # A stream that was closed before the start is None.
    width = None if stream is not None and stream.isatty() else _WIDTH_WITHOUT_TERMINAL
    return _Patient(stderr=stderr, width=width, highlight=False, soft_wrap=False)


class _Patient(Console):
    """A console whose reader may go away (`| head -1`): the command goes on, and its status stands."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        silence(sys.stderr if self.stderr else sys.stdout)


def silence(stream: TextIO) -> None:
    """Let whatever is still written to a stream go nowhere."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, stream.fileno())
    os.close(devnull)


def sentence(console: Console, markup: str) -> None:
    """Print one line of text with markup; outside a terminal it stays one line, however long."""
    console.print(markup, soft_wrap=not console.is_terminal)


def table(title: str) -> Table:
    """An empty table in the house style."""
    return Table(title=title or None, title_justify="left", box=None)


def lines(console: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print many rows in columns as plain lines, without fitting them to the terminal."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    text = "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (headings, *rows)
    )
    # Past rich, which measures every character; a reader that went away is its console's affair.
    try:
        console.file.write(text + "\n")
    except BrokenPipeError:
        console.on_broken_pipe()


def number(value: float | None, decimals: int) -> str:
    """A figure, or a dash where nothing is known."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:,.{decimals}f}"


def percent(value: float) -> str:
    """A fraction as a signed percentage; ends so far away that they say nothing are unbounded."""
    if math.isnan(value):
        return "-"
    if math.isinf(value) or value > _MOST_PERCENT:
        return "unbounded"
    return f"{value:+,.1%}" if value < _WHOLE_PERCENT else f"{value:+,.0%}"


def signed(value: float, decimals: int) -> str:
    """A difference with its sign, or a dash where nothing is known."""
    return f"{value:+,.{decimals}f}" if math.isfinite(value) else "-"


def duration(seconds: float) -> str:
    """`45 s`, `2 min 05 s`, `3 h 10 min`."""
    whole = round(max(seconds, 0.0))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
