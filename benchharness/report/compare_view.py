"""A comparison, for people and programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchharness.metrics import METRICS
from benchharness.report.console import number, percent, sentence, table
from benchharness.stats.compare import Cell, Verdict

MOST_ROWS = 12

_STYLES = {
    Verdict.REGRESSED: "red",
    Verdict.IMPROVED: "green",
    Verdict.EQUIVALENT: "green",
    Verdict.UNDECIDED: "yellow",
    Verdict.INVALID: "red",
}

_WORST_FIRST = ((Verdict.INVALID, 4), (Verdict.REGRESSED, 1), (Verdict.UNDECIDED, 3))


@dataclass(frozen=True)
class Apart:
    """What sets the two sides apart: path -> value there, value here.

    Attributes:
        declared: by the experiment files.
        attested: by what really ran, whoever asked for it.
        conditions: machine and client, under which both were measured.
    """

    declared: Mapping[str, tuple[str, ...]]
    attested: Mapping[str, tuple[str, ...]]
    conditions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def show(console: Console, baseline: str, candidate: str, apart: Apart, cells: Sequence[Cell]) -> None:
    """Print what was different, declared and really, then a line a cell."""
    sentence(
        console, f"baseline  [bold]{escape(baseline)}[/bold]\ncandidate [bold]{escape(candidate)}[/bold]"
    )
    _show_apart(console, "declared", apart.declared)
    _show_apart(console, "attested", apart.attested)
    if apart.conditions:
        _show_apart(console, "measured", apart.conditions)
    if not cells:
        console.print("Neither side has a valid figure for these metrics.")
        return
    show_cells(console, "", cells)


def _show_apart(console: Console, word: str, rows: Mapping[str, tuple[str, ...]]) -> None:
    if not rows:
        console.print(f"{word}: no difference")
    for path, (first, second) in list(rows.items())[:MOST_ROWS]:
        console.print(f"{word}: {escape(path)}: {escape(first)} -> {escape(second)}")

    if len(rows) > MOST_ROWS:
        console.print(f"{word}: and {len(rows) - MOST_ROWS} more (all of them with --json)")


def show_cells(console: Console, title: str, cells: Sequence[Cell]) -> None:
    """Print the table of cells and what its intervals are."""
    console.print(figures(title, cells))
    paired = "launches paired by block" if all(cell.paired for cell in cells) else "launches not paired"
    console.print(f"95 % intervals, all cells together; {paired}.")
    for (verdict, reason), count in Counter((cell.verdict, cell.reason) for cell in cells).items():
        if reason:
            console.print(f"{verdict} ({count} of {len(cells)}): {escape(reason)}")


def figures(title: str, cells: Sequence[Cell]) -> Table:
    """A line a cell: both means, the change with its interval, and the verdict."""
    figures = table(title)
    for heading in ("context", "stack", "metric"):
        figures.add_column(heading, justify="right" if heading == "context" else "left")
    for heading in ("baseline", "candidate", "change", "interval"):
        figures.add_column(heading, justify="right")
    figures.add_column("verdict")
    for cell in cells:
        decimals = METRICS[cell.metric].decimals
        style = _STYLES[cell.verdict]
        figures.add_row(
            str(cell.context_tokens),
            escape(cell.stack),
            cell.metric,
            number(cell.baseline, decimals),
            number(cell.candidate, decimals),
            percent(cell.change),
            f"{percent(cell.low)} .. {percent(cell.high)}",
            f"[{style}]{cell.verdict}[/{style}]",
        )
    return figures


def exit_status(cells: Sequence[Cell]) -> int:
    """The worst cell decides, in the order 4, 1, 3, 0; without a cell nothing could be judged: 4."""
    verdicts = {cell.verdict for cell in cells}
    if not verdicts:
        return 4
    return next((status for verdict, status in _WORST_FIRST if verdict in verdicts), 0)


def document(baseline: str, candidate: str, apart: Apart, cells: Sequence[Cell]) -> dict[str, Any]:
    """The comparison for programs; changes are fractions of the baseline."""
    return {
        "baseline": baseline,
        "candidate": candidate,
        "declared": {path: list(values) for path, values in apart.declared.items()},
        "attested": {path: list(values) for path, values in apart.attested.items()},
        "conditions": {path: list(values) for path, values in apart.conditions.items()},
        "cells": [
            {
                "stack": cell.stack,
                "context_tokens": cell.context_tokens,
                "metric": cell.metric,
                "unit": cell.unit,
                "verdict": str(cell.verdict),
                "change": cell.change,
                "low": cell.low,
                "high": cell.high,
                "baseline": cell.baseline,
                "candidate": cell.candidate,
                "launches": cell.launches,
                "paired": cell.paired,
                "reason": cell.reason,
            }
            for cell in cells
        ],
    }
