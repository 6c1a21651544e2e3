"""The listing of stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from benchharness.report import console as consoles
from benchharness.store.listing import RunSummary

MOST_IN_A_TABLE = 200
"""Rows from which on lines are printed as they are: a table of ten thousand takes seconds to fit."""

HEADINGS = ("run", "experiment", "made", "launches", "stacks")


def show(as_json: bool, results: Path, found: Sequence[RunSummary], of: int) -> None:
    """Print one line a run.

    Args:
        as_json: standard output is a program's.
        results: where they are.
        found: the runs to show.
        of: how many there are in all.
    """
    console = consoles.people(as_json)
    if not found:
        text = f"{escape(str(results))} holds no runs. Make one: benchharness run experiments/quickstart.yaml"
        consoles.sentence(console, text)
        return
    rows = [_cells(one) for one in found]
    if len(rows) > MOST_IN_A_TABLE:
        consoles.lines(console, HEADINGS, rows)
    else:
        listing = consoles.table("")
        for heading in HEADINGS:
            listing.add_column(heading, overflow="fold")
        for row in rows:
            listing.add_row(*map(escape, row))
        console.print(listing)
    if len(found) < of:
        console.print(f"The newest {len(found)} of {of} runs; see them all with --all.")


def _cells(one: RunSummary) -> tuple[str, ...]:
    name = f"{one.experiment} (synthetic)" if one.synthetic else one.experiment
    return one.run, name, one.created_at, f"{one.launches} of {one.planned}", ", ".join(one.stacks)


def document(found: Sequence[RunSummary]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "runs": [
            {
                "run": one.run,
                "path": one.folder,
                "experiment": one.experiment,
                "created_at": one.created_at,
                "launches": one.launches,
                "planned": one.planned,
                "stacks": list(one.stacks),
                "synthetic": one.synthetic,
            }
            for one in found
        ]
    }
