"""How a run until decided ended, for people and programs."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape

from benchharness.report.compare_view import figures
from benchharness.report.console import sentence
from benchharness.stats.until import Outcome
from benchharness.store import StoredRun, looks


def show(console: Console, outcome: Outcome) -> None:
    """Print the cells as the last look saw them, and why it was the last."""
    if outcome.cells:
        console.print(figures(f"Until decided, against {escape(outcome.baseline)}", outcome.cells))
        sentence(
            console,
            f"Look {outcome.look} of {outcome.looks}: intervals of {1 - outcome.level:.2%}, so that all "
            "cells of a stack and all looks together keep to 95 %. Those that are taken as one look do not.",
        )
    word = "[green]decided[/green]" if outcome.decided else "[yellow]undecided[/yellow]"
    sentence(
        console,
        f"{word}: {escape(outcome.reason)} ({outcome.launches} launches of each stack, "
        f"{outcome.rounds} rounds, {outcome.minutes:.1f} min).",
    )
    for cell in outcome.undecided:
        reason = f": {escape(cell.reason)}" if cell.reason else ""
        sentence(
            console,
            f"{cell.verdict} {escape(cell.stack)}, {cell.metric}, context {cell.context_tokens}{reason}",
        )


def note(console: Console, stored: StoredRun) -> None:
    """Say of a run that was looked at on its way that one more look is not as sure as it says."""
    kept = looks.kept(stored.path)
    if kept is not None:
        times = len(kept.taken)
        sentence(
            console,
            f"Run until decided, looked at {times} time{'s' if times > 1 else ''} on its way: taken as one "
            "look, 95 % is too sure. `run --until decided --resume` tells what the looks allow.",
        )


def document(outcome: Outcome) -> dict[str, Any]:
    """The same for programs; changes are fractions of the baseline."""
    return {
        "decided": outcome.decided,
        "reason": outcome.reason,
        "rounds": outcome.rounds,
        "launches": outcome.launches,
        "minutes": round(outcome.minutes, 3),
        "undecided": [
            {
                "stack": cell.stack,
                "context_tokens": cell.context_tokens,
                "metric": cell.metric,
                "verdict": str(cell.verdict),
                "further_launches": cell.further_launches,
            }
            for cell in outcome.undecided
        ],
        "baseline": outcome.baseline,
        "look": outcome.look,
        "looks": outcome.looks,
        "level": outcome.level,
        "cells": [
            {
                "stack": cell.stack,
                "context_tokens": cell.context_tokens,
                "metric": cell.metric,
                "verdict": str(cell.verdict),
                "change": cell.change,
                "low": cell.low,
                "high": cell.high,
            }
            for cell in outcome.cells
        ],
    }
