"""Whether an axis holds one change: each side of it should be one level."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import special

from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.difference import RESOLUTION
from benchharness.bisect.session.observed import plain
from benchharness.bisect.session.state import Place

LEVEL = 0.01
"""Of all comparisons of an axis together."""

LEAST = 0.02
"""Difference of logs below which a further change is not worth a word."""


def other_changes(hunt: AxisHunt, metric: str) -> Iterator[str]:
    """A sentence for each side of the suspects on which a point is not as that side's end is."""
    good, bad = hunt.suspects()
    places = list(hunt.places)
    low, high = places.index(good), places.index(bad)
    logs = {place.label: _values(hunt, place) for place in places}
    spread, freedom = _spread(list(logs.values()))
    sides = ((places[0], places[1 : low + 1]), (places[-1], places[high:-1]))
    count = max(1, sum(bool(logs[one.label].size) for _, side in sides for one in side))
    for end, side in sides:
        for one in side:
            mine, its = logs[one.label], logs[end.label]
            if mine.size and its.size and _differ(mine, its, spread, freedom, LEVEL / count):
                here, there = (plain(metric, float(values.mean())) for values in (mine, its))
                yield (
                    f"more than one change: {one.label} has {metric} {here:.4g}, and {end.label}, the end of "
                    f"its side, {there:.4g}; bisect between these two as well"
                )
                break


def _values(hunt: AxisHunt, place: Place) -> np.ndarray:
    found = [one.value for one in hunt.observed if one.stack == place.stack and one.value is not None]
    return np.array(found, dtype=float)


def _spread(groups: list[np.ndarray]) -> tuple[float, int]:
    """Variance of a launch about its place's mean, over all places, and its degrees of freedom."""
    squares = sum(float(((one - one.mean()) ** 2).sum()) for one in groups if one.size)
    freedom = sum(one.size - 1 for one in groups if one.size)
    return (squares / freedom if freedom else math.inf), freedom


def _differ(one: np.ndarray, other: np.ndarray, spread: float, freedom: int, level: float) -> bool:
    apart = abs(float(one.mean() - other.mean()))
    if apart < max(LEAST, RESOLUTION) or freedom < 1:
        return False
    error = math.sqrt(spread * (1 / one.size + 1 / other.size))
    return error == 0 or float(2 * special.stdtr(freedom, -apart / error)) < level
