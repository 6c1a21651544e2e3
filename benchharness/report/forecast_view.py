"""What a campaign is expected to take, for people and programs."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from benchharness.bisect.session.forecast import Expected, Forecast
from benchharness.bisect.session.state import Leg
from benchharness.report.console import duration

_SURE = 0.95
"""Share of rehearsals with an answer from which on that goes without saying."""


def beginning(leg: Leg, found: Forecast | None) -> str:
    """How large a hunt is, and what it is expected to take, in one line."""
    if leg.kind == "axis":
        size = f"{leg.axis}: {len(leg.places)} points"
    else:
        count = len(leg.factors)
        least = math.ceil(math.log2(max(2, count * (count + 1) // 2)))
        size = f"{count} differences, one or two of which act: {least} combinations or more after the ends"
    return size if found is None else f"{size}; {words(found)}"


def words(found: Forecast) -> str:
    """`about 23 launches (15 to 34), 1 h 42 min (1 h 05 min to 2 h 30 min)`, and what that stands on."""
    told = f"about {_launches(found.launches)}, {_hours(found.hours)}"
    if found.answers < _SURE:
        told += f"; {found.answers:.0%} of {found.rehearsals} rehearsals end with an answer"
    return f"{told}; {found.assumed}" if found.assumed else told


def _launches(found: Expected) -> str:
    low, high = math.floor(found.low), math.ceil(found.high)
    count = round(found.middle)
    return f"{count} launch{'es' if count != 1 else ''}" + (f" ({low} to {high})" if low < high else "")


def _hours(found: Expected) -> str:
    low, middle, high = (duration(3600 * one) for one in (found.low, found.middle, found.high))
    return f"{middle} ({low} to {high})" if low != high else middle


def document(found: Forecast | None) -> dict[str, Any] | None:
    """The same for programs; None where nothing is expected."""
    return None if found is None else asdict(found)
