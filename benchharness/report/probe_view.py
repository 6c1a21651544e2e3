"""What the probe costs the engine, where a run switched it on and off by request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from benchharness.report.console import number, percent, table
from benchharness.stats.interval import Interval
from benchharness.stats.probe_cost import OVER_PAIRS, UNITS, ProbeCost, probe_costs
from benchharness.store import StoredRun

_DECIMALS = {"cycle_us": 1, "tpot_ms": 3, "e2e_ms": 2}
ALTERNATE = "alternate"


def costs(stored: StoredRun) -> tuple[ProbeCost, ...]:
    """The probe's cost in each cell; empty where the run didn't switch it by request."""
    return probe_costs(stored.connect()) if stored.run.plan.probe == ALTERNATE else ()


def show(console: Console, stored: StoredRun) -> None:
    """Print a line a figure: without the probe, the difference with its interval, and its share."""
    if stored.run.plan.probe != ALTERNATE:
        return
    found = costs(stored)
    if not found:
        console.print("The probe was to be switched by request, but no pair of requests was recorded.")
        return
    figures = table("What the probe costs: requests with it recording against neighbours without")
    for heading in ("context", "stack", "figure", "pairs", "off", "on - off", "interval", "share"):
        left = heading in ("stack", "figure")
        figures.add_column(heading, justify="left" if left else "right", overflow="fold")
    for cost in found:
        decimals = _DECIMALS[cost.metric]
        figures.add_row(
            str(cost.context_tokens),
            escape(cost.stack),
            cost.metric,
            str(cost.pairs),
            number(cost.off, decimals),
            _signed(cost.difference.mean, decimals),
            f"{_signed(cost.difference.low, decimals)} .. {_signed(cost.difference.high, decimals)}",
            f"{percent(cost.share.mean)} ({percent(cost.share.low)} .. {percent(cost.share.high)})",
        )
    console.print(figures)
    console.print(_said_of_intervals(found))
    console.print("Cycles come from the requests with it on; figures of requests are means over both kinds.")


def _said_of_intervals(found: Sequence[ProbeCost]) -> str:
    if any(cost.over == OVER_PAIRS for cost in found):
        return "95 % intervals over pairs of requests inside one launch: they say nothing of another launch."
    return "95 % intervals over launches."


def _signed(value: float, decimals: int) -> str:
    return f"{value:+.{decimals}f}" if math.isfinite(value) else "?"


def document(stored: StoredRun) -> list[dict[str, Any]]:
    """The same for programs; an end of an interval that can't be told is null."""
    return [
        {
            "stack": cost.stack,
            "context_tokens": cost.context_tokens,
            "metric": cost.metric,
            "unit": UNITS[cost.metric],
            "on": cost.on,
            "off": cost.off,
            "pairs": cost.pairs,
            "over": cost.over,
            "launches": len({launch.index for launch in stored.launches if launch.stack == cost.stack}),
            "difference": _ends(cost.difference),
            "share": _ends(cost.share),
        }
        for cost in costs(stored)
    ]


def _ends(interval: Interval) -> dict[str, float | None]:
    ends = {"mean": interval.mean, "low": interval.low, "high": interval.high}
    return {name: value if math.isfinite(value) else None for name, value in ends.items()}
