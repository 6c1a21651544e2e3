"""The listing of stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from benchharness.report.console import sentence, table
from benchharness.store.reading import RunSummary


def show(console: Console, results: Path, found: Sequence[RunSummary]) -> None:
    """Print one line a run."""
    if not found:
        sentence(
            console,
            f"{escape(str(results))} holds no runs. Make one: benchharness run experiments/quickstart.yaml",
        )
        return
    listing = table("")
    for heading in ("run", "experiment", "made", "launches", "stacks"):
        listing.add_column(heading, overflow="fold")
    for one in found:
        launches = f"{one.launches} of {one.planned}"
        name = f"{one.experiment} (synthetic)" if one.synthetic else one.experiment
        listing.add_row(one.run, name, one.created_at, launches, escape(", ".join(one.stacks)))
    console.print(listing)


def document(found: Sequence[RunSummary]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "runs": [
            {
                "run": one.run,
                "path": str(one.path),
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
