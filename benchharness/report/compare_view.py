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
from benchharness.report.console import number, percent, sentence, signed, table
from benchharness.stats import further
from benchharness.stats.compare import Cell, Verdict
from benchharness.stats.twolevel import Components

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
        conditions: the machines on which both were measured.
        ruler: what measured them: harness, client, probe, source and clock of cycles.
    """

    declared: Mapping[str, tuple[str, ...]]
    attested: Mapping[str, tuple[str, ...]]
    conditions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    ruler: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def show(console: Console, baseline: str, candidate: str, apart: Apart, cells: Sequence[Cell]) -> None:
    """Print what was different, declared and really, then a line a cell."""
    sentence(
        console, f"baseline  [bold]{escape(baseline)}[/bold]\ncandidate [bold]{escape(candidate)}[/bold]"
    )
    show_apart(console, "declared", apart.declared)
    show_apart(console, "attested", apart.attested)
    if apart.conditions:
        show_apart(console, "measured", apart.conditions)
    if apart.ruler:
        show_apart(console, "the ruler changed", apart.ruler)
    if not cells:
        console.print("Neither side has a valid figure for these metrics.")
        return
    show_cells(console, "", cells)


def show_apart(console: Console, word: str, rows: Mapping[str, tuple[str, ...]]) -> None:
    """Print what differs, a line each: the first ones where there are many."""
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
    if cells and all(cell.duet for cell in cells):
        paired = "duet: requests paired one by one, over blocks"
    modes = "; (modes): bimodal, change within a mode" if any(cell.bimodal for cell in cells) else ""
    console.print(f"95 % intervals, all cells together; {paired}{modes}.")
    for text in reasons(cells):
        console.print(escape(text))


def reasons(cells: Sequence[Cell]) -> list[str]:
    """Why cells are what they are, alike reasons once: cells that more launches would decide in one line."""
    deciding = [cell for cell in cells if cell.reason and cell.reason == _more(cell)]
    others = [cell for cell in cells if cell.reason and cell.reason != _more(cell)]
    lines = []
    if deciding:
        numbers = [cell.further_launches for cell in deciding if cell.further_launches is not None]
        fewest, most = min(numbers), max(numbers)
        many = further.sentence(most).removeprefix(f"about {most} ")
        range_ = f"about {fewest} to {most} {many}" if fewest < most else further.sentence(most)
        lines.append(f"{Verdict.UNDECIDED} ({len(deciding)} of {len(cells)}): {range_}")
    for (verdict, reason), count in Counter((cell.verdict, cell.reason) for cell in others).items():
        lines.append(f"{verdict} ({count} of {len(cells)}): {reason}")
    return lines


def _more(cell: Cell) -> str | None:
    """The sentence about further launches, where their number is known."""
    return None if cell.further_launches is None else further.sentence(cell.further_launches)


def figures(title: str, cells: Sequence[Cell]) -> Table:
    """A line a cell: both means, the change with its interval, and the verdict."""
    figures = table(title)
    for heading in ("context", "stack", "metric"):
        figures.add_column(heading, justify="right" if heading == "context" else "left")
    for heading in ("baseline", "candidate", "change", "interval", "in units"):
        figures.add_column(heading, justify="right", no_wrap=True)
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
            f"{signed(cell.change_abs, decimals)} {cell.unit}",
            f"[{style}]{cell.verdict}[/{style}]" + (" (modes)" if cell.bimodal else ""),
        )
    return figures


def show_spread(console: Console, spread: Mapping[tuple[str, int], Components]) -> None:
    """Print, for each metric and context, where its spread lies: what more launches or requests would do."""
    for (metric, context), parts in spread.items():
        console.print(f"{metric} at context {context}: {parts.sentence()}.")


def spread_document(spread: Mapping[tuple[str, int], Components]) -> list[dict[str, Any]]:
    """The same for programs; variances are of logs."""
    return [
        {
            "metric": metric,
            "context_tokens": context,
            "between": parts.between,
            "within": parts.within,
            "share_between": parts.share,
            "autocorrelation": parts.correlation,
            "requests": parts.requests,
            "effective_requests": parts.effective,
            "launches": parts.launches,
        }
        for (metric, context), parts in spread.items()
    ]


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
        "ruler": {path: list(values) for path, values in apart.ruler.items()},
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
                "change_abs": cell.change_abs,
                "low_abs": cell.low_abs,
                "high_abs": cell.high_abs,
                "further_launches": cell.further_launches,
                "bimodal": cell.bimodal,
                "duet": cell.duet,
            }
            for cell in cells
        ],
    }
