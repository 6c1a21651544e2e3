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

DOUBTED = 0.05
"""The same where a point is only launched once more for it."""

KNOWN_WELL = 4
"""Launches from which on a point is known well."""

TOLD = 0.01
"""The same where it is only told, for all points together."""


def between_ends(values: Values, least: float | None = None) -> tuple[int, int]:
    """Part of an axis to hunt on, where points show that there are several changes.

    Args:
        values: of the axis.
        least: difference of logs that is worth a word; None for a share of that of the ends.

    Points that are surely like neither end part the axis; the part with the largest step is taken, and
    parted again. Without such points it is the whole axis.
    """
    spread, freedom = _spread(values)
    low, high = 0, len(values) - 1
    while True:
        worth = _least(values[low], values[high]) if least is None else least
        odd = [
            at
            for at in range(low + 1, high)
            if all(_differ(values[at], values[end], spread, freedom, SURE, worth) for end in (low, high))
        ]
        if not odd:
            return low, high
        nodes = [low, *odd, high]
        steps = [abs(values[two].mean() - values[one].mean()) for one, two in pairwise(nodes)]
        largest = int(np.argmax(steps))
        low, high = nodes[largest], nodes[largest + 1]


def doubtful(values: Values) -> int | None:
    """A point with few launches that seems to be like neither end: a search of one change passes it by."""
    spread, freedom = _spread(values)
    least = _least(values[0], values[-1])
    for at in range(1, len(values) - 1):
        if 0 < values[at].size < KNOWN_WELL and all(
            _differ(values[at], end, spread, freedom, DOUBTED, least) for end in (values[0], values[-1])
        ):
            return at
    return None


def stretches(last: int, culprits: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What lies before, between and after the culprits of an axis: first and last point of each stretch.

    Args:
        last: position of the bad end.
        culprits: last good and first bad point of each, in any order.
    """
    ordered = sorted(culprits)
    firsts = [0, *(bad for _, bad in ordered)]
    lasts = [*(good for good, _ in ordered), last]
    return list(zip(firsts, lasts, strict=True))


def unlike_their_end(values: Values, culprits: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """For each stretch between culprits the first point that is not as that stretch's end is: point, end."""
    spread, freedom = _spread(values)
    last = len(values) - 1
    found = [
        (low, range(low + 1, high + 1)) if low == 0 or high < last else (high, range(low, high))
        for low, high in stretches(last, culprits)
    ]
    count = max(1, sum(bool(values[at].size) for _, points in found for at in points))
    least = _least(values[0], values[last])
    for end, points in found:
        for at in points:
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
