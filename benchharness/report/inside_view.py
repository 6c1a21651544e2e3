"""What the requests of a launch count for: their correlation, and as how many independent ones."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape

from benchharness.metrics import METRICS
from benchharness.report.console import number, table
from benchharness.stats import inside
from benchharness.stats.inside import Inside
from benchharness.stats.launch_means import request_values
from benchharness.store import StoredRun

METRIC = "output_tok_s"

FEWEST = 6
"""Requests of a launch below which the correlation is mostly what is usual elsewhere."""


def show(console: Console, stored: StoredRun) -> None:
    """Print a line a cell; nothing where requests are too few to tell a correlation."""
    cells = _cells(stored)
    if not any(cell.requests >= FEWEST for cell in cells):
        return
    figures = table(f"Requests of a launch, {METRIC}")
    for heading in ("context", "stack", "requests", "lag 1", "count as"):
        figures.add_column(heading, justify="left" if heading == "stack" else "right")
    for cell in cells:
        told = (number(cell.requests, 0), number(cell.correlation, 2), number(cell.effective, 1))
        figures.add_row(str(cell.context_tokens), escape(cell.stack), *told)
    console.print(figures)


def _cells(stored: StoredRun) -> list[Inside]:
    order = [stack.name for stack in stored.run.plan.stacks]
    cells = inside.inside(request_values(stored.connect(), METRICS[METRIC]))
    return sorted(cells, key=lambda cell: (cell.context_tokens, order.index(cell.stack)))


def document(stored: StoredRun) -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        {
            "stack": cell.stack,
            "context_tokens": cell.context_tokens,
            "metric": METRIC,
            "launches": cell.launches,
            "requests": cell.requests,
            "autocorrelation": cell.correlation,
            "effective_requests": cell.effective,
        }
        for cell in _cells(stored)
    ]
