"""How fit a machine is, for people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape

from benchharness.machine.fitness import Check, Status
from benchharness.report.console import table

_STYLES = {
    Status.FINE: "green",
    Status.NOTE: "dim",
    Status.WARN: "yellow",
    Status.BAD: "red",
    Status.UNKNOWN: "dim",
}
_ORDER = (Status.BAD, Status.WARN, Status.UNKNOWN, Status.NOTE, Status.FINE)


def show(console: Console, checks: Sequence[Check]) -> None:
    """Print a line a check, the worst first."""
    lines = table("")
    for heading in ("status", "check", "seen", "what to do"):
        lines.add_column(heading, overflow="fold")
    for one in sorted(checks, key=lambda check: _ORDER.index(check.status)):
        style = _STYLES[one.status]
        lines.add_row(f"[{style}]{one.status}[/{style}]", one.check, escape(one.seen), escape(one.advice))
    console.print(lines)
    bad = sum(one.status == Status.BAD for one in checks)
    warned = sum(one.status == Status.WARN for one in checks)
    if bad:
        console.print(f"[red]Not fit to measure: {bad} bad, {warned} to look at.[/red]")
    elif warned:
        console.print(f"[yellow]Fit with care: {warned} to look at.[/yellow]")
    else:
        console.print("[green]Nothing against measuring here.[/green]")


def document(checks: Sequence[Check]) -> dict[str, Any]:
    """The same for programs."""
    return {"findings": [{**asdict(one), "status": str(one.status)} for one in checks]}
