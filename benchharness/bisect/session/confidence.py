"""How sure a verdict is of an axis (pure)."""

from __future__ import annotations

from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.difference import Difference


def held(hunt: AxisHunt, ends: Difference) -> float:
    """How likely it is that the change lies between the two suspects."""
    if len(hunt.places) == 2:
        return 1 - ends.p
    good, bad = (hunt.places.index(place) for place in hunt.suspects())
    return float(hunt.probability()[good:bad].sum())
