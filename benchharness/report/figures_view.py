"""Each side's own figure with its interval, and how that was made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from benchharness.metrics import METRICS
from benchharness.report.console import number
from benchharness.stats.twolevel import Spread

Figures = Mapping[tuple[str, int], tuple[Spread, Spread]]
"""Metric and context -> baseline and candidate."""


def show(console: Console, figures: Figures) -> None:
    """Print a line for each metric and context whose intervals have ends."""
    for (metric, context), sides in figures.items():
        if not all(math.isfinite(one.high) for one in sides):
            continue
        decimals = METRICS[metric].decimals
        told = [
            f"{number(one.value, decimals)} ({number(one.low, decimals)} .. {number(one.high, decimals)})"
            for one in sides
        ]
        ways = " and ".join(dict.fromkeys(str(one.method) for one in sides))
        unit = METRICS[metric].unit
        console.print(f"{metric} at context {context}: {' and '.join(told)} {unit}, 95 % by {ways}.")


def document(figures: Figures) -> list[dict[str, Any]]:
    """The same for programs; ends are null where nothing can be said."""
    return [
        {
            "metric": metric,
            "context_tokens": context,
            "side": side,
            "value": one.value,
            "low": one.low,
            "high": one.high,
            "method": str(one.method) if one.method else None,
            "launches": one.launches,
            "reason": one.reason,
        }
        for (metric, context), sides in figures.items()
        for side, one in zip(("baseline", "candidate"), sides, strict=True)
    ]
