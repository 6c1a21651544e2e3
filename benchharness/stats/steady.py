"""Does a series settle, and from where on? By change points, as in the literature on warm-up.

A series is cut into stretches of equal level: the cut that explains it best, against a price for each further
stretch (optimal partitioning, Jackson et al. 2005, doi:10.1109/LSP.2001.838216; the way to read it is that of
Barrett et al. 2017, doi:10.1145/3133876). The price grows with the noise, which is estimated from differences
of neighbours, so that levels don't enter it, and with the correlation of neighbours: a series that wanders
by itself would otherwise seem to change all the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

PRICE = 4.0
"""Price of a change in units of noise variance x log n. By simulation, of 100 quiet series of 6 to 512 values
at most 1 then shows a change, 3 where neighbours correlate with 0.4, 11 (at 64 values) with 0.7."""

FEWEST_FOR_CORRELATION = 16
FEW_VALUES_INFLATION = 6.0
"""With fewer values neither noise nor correlation is known well: only large changes are believed."""

LEAST_STRETCH = 2
"""Values that a stretch must have: a single one that stands out is an outlier, not a level."""

SAME_LEVEL = 0.02
"""Levels that differ by less than this fraction count as one."""

MOST_VALUES = 2048
"""Longer series are averaged over neighbours down to this length; the search takes the square of it."""


@dataclass(frozen=True)
class Stretch:
    """Values from `begin` up to, not including, `end`, of one level (their mean)."""

    begin: int
    end: int
    level: float


def stretches(values: Sequence[float]) -> tuple[Stretch, ...]:
    """Cut a series into stretches of equal level; neighbours that hardly differ are joined.

    Args:
        values: positive and finite, in order of time.
    """
    data = np.asarray(values, dtype=float)
    if data.size == 0:
        return ()
    step = max(1, math.ceil(data.size / MOST_VALUES))
    coarse = np.array([data[at : at + step].mean() for at in range(0, data.size, step)])
    cuts = [0, *(at * step for at in _change_points(coarse)), data.size]
    found = [Stretch(a, b, float(data[a:b].mean())) for a, b in pairwise(cuts)]
    return tuple(_joined(found, data))


def _joined(found: list[Stretch], data: NDArray[np.float64]) -> list[Stretch]:
    joined: list[Stretch] = []
    for one in found:
        begin = one.begin
        if joined and abs(one.level / joined[-1].level - 1) < SAME_LEVEL:
            begin = joined.pop().begin
        joined.append(Stretch(begin, one.end, float(data[begin : one.end].mean())))
    return joined


def _change_points(data: NDArray[np.float64]) -> list[int]:
    """Where stretches begin, without the first: the cheapest cut of all."""
    count = data.size
    noise = _noise(data)
    if count < 2 * LEAST_STRETCH or noise <= 0:
        return [] if noise > 0 or count < 2 * LEAST_STRETCH else _exact_changes(data)
    price = PRICE * noise * math.log(count) * _inflation(data)
    sums, squares = np.concatenate([[0.0], data.cumsum()]), np.concatenate([[0.0], (data**2).cumsum()])
    best = np.full(count + 1, math.inf)
    best[0] = -price
    last = np.zeros(count + 1, dtype=int)
    for end in range(LEAST_STRETCH, count + 1):
        begins = np.arange(0, end - LEAST_STRETCH + 1)
        lengths = end - begins
        cost = squares[end] - squares[begins] - (sums[end] - sums[begins]) ** 2 / lengths
        total = best[begins] + cost + price
        last[end] = begins[int(total.argmin())]
        best[end] = total.min()
    cuts: list[int] = []
    at = int(last[count])
    while at > 0:
        cuts.append(at)
        at = int(last[at])
    return cuts[::-1]


def _noise(data: NDArray[np.float64]) -> float:
    """Variance of one value about its level, from the middle size of the neighbours' differences."""
    if data.size < 2:
        return 0.0
    return float((np.median(np.abs(np.diff(data))) / 0.6745) ** 2 / 2)


def _inflation(data: NDArray[np.float64]) -> float:
    """How much more a mean varies than with independent neighbours, (1 + r) / (1 - r); at least 1.

    The correlation r is taken from second differences over first ones, which a change of level hardly moves:
    var(x[t+2] - x[t]) / var(x[t+1] - x[t]) is 1 + r where correlation dies away geometrically.
    """
    if data.size < FEWEST_FOR_CORRELATION:
        return FEW_VALUES_INFLATION
    one, two = np.median(np.abs(np.diff(data))), np.median(np.abs(data[2:] - data[:-2]))
    seen = float((two / one) ** 2) - 1 if one > 0 else 0.0
    # The estimate itself is uncertain by about 1 / sqrt(n), to which the price must not fall victim.
    correlation = min(max(seen, 0.0) + 1 / math.sqrt(data.size), 0.9)
    # Differences of correlated neighbours are smaller than the values' own spread by 1 - r.
    return (1 + correlation) / (1 - correlation) ** 2


def _exact_changes(data: NDArray[np.float64]) -> list[int]:
    """Without noise at most places: wherever the value changes for good."""
    changes = [at for at in range(1, data.size) if not math.isclose(data[at], data[at - 1], rel_tol=1e-9)]
    return [at for at, end in pairwise([*changes, data.size]) if end - at >= LEAST_STRETCH]


def steady_from(values: Sequence[float]) -> int | None:
    """Index from which on the series keeps its last level; None if that is less than its last third.

    0 means that it is steady from the beginning.
    """
    found = stretches(values)
    if not found:
        return None
    begin = found[-1].begin
    return begin if len(values) - begin >= len(values) / 3 else None
