"""Whether an axis holds one change: each point should be like one of its ends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

Values = Sequence[NDArray[np.float64]]
"""Launches of each point, in order; empty where none was measured."""

LEAST = 0.2
"""Share of the difference of the ends below which a further change is not worth a word."""

ROUNDING = 1e-4
"""Difference of logs below which nothing is told apart."""

SURE = 1e-4
"""Chance at which a point counts as like neither end: it is looked at after every launch."""

TOLD = 0.01
"""The same where it is only told, for all points together."""


def between_ends(values: Values) -> tuple[int, int]:
    """Part of an axis to hunt on, where points show that there are several changes.

    Points that are surely like neither end part the axis; the part with the largest step is taken, and
    parted again. Without such points it is the whole axis.
    """
    spread, freedom = _spread(values)
    low, high = 0, len(values) - 1
    while True:
        least = _least(values[low], values[high])
        odd = [
            at
            for at in range(low + 1, high)
            if all(_differ(values[at], values[end], spread, freedom, SURE, least) for end in (low, high))
        ]
        if not odd:
            return low, high
        nodes = [low, *odd, high]
        steps = [abs(values[two].mean() - values[one].mean()) for one, two in pairwise(nodes)]
        largest = int(np.argmax(steps))
        low, high = nodes[largest], nodes[largest + 1]


def unlike_their_end(values: Values, good: int, bad: int) -> Iterator[tuple[int, int]]:
    """For each side of the suspects the first point that is not as that side's end is: point, end."""
    spread, freedom = _spread(values)
    last = len(values) - 1
    sides = ((0, range(1, good + 1)), (last, range(bad, last)))
    count = max(1, sum(bool(values[at].size) for _, side in sides for at in side))
    least = _least(values[0], values[last])
    for end, side in sides:
        for at in side:
            if _differ(values[at], values[end], spread, freedom, TOLD / count, least):
                yield at, end
                break


def _spread(values: Values) -> tuple[float, int]:
    """Variance of a launch about its point's mean, over all points, and its degrees of freedom."""
    squares = sum(float(((one - one.mean()) ** 2).sum()) for one in values if one.size)
    freedom = sum(one.size - 1 for one in values if one.size)
    return (squares / freedom if freedom else math.inf), freedom


def _least(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Difference of logs from which on a point between these two is like neither."""
    apart = abs(float(one.mean() - other.mean())) if one.size and other.size else 0.0
    return max(ROUNDING, LEAST * apart)


def _differ(
    one: NDArray[np.float64],
    other: NDArray[np.float64],
    spread: float,
    freedom: int,
    level: float,
    least: float,
) -> bool:
    if not (one.size and other.size) or freedom < 1:
        return False
    apart = abs(float(one.mean() - other.mean()))
    if apart < least:
        return False
    error = math.sqrt(spread * (1 / one.size + 1 / other.size))
    return error == 0 or float(2 * special.stdtr(freedom, -apart / error)) < level
