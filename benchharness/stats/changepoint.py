"""Where a series of runs changes its level, how much, and between which two runs.

A series is one value a run, on the log scale, in order of time. A split is judged by the largest Student's t
over all places where it could lie, against how large that gets by chance among as many independent normal
values, and against the same runs in other orders, since a few runs that are far off look like a level of
their own; two changes that hide each other (a bump) are looked for with a small share of the level. Splits
are found one after another, each part at its share of the level; then all places are chosen anew so that the
squared deviations are least (segment neighbourhood: Auger & Lawrence 1989), and a change that does not stand
against its neighbours alone is dropped. The method and its error rates are in docs/method.md.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

from benchharness.stats.interval import t_quantile

Floats = NDArray[np.float64]

FEWEST = 2
"""Runs of a level: a single run that is off is no change of level."""

BUMPS = 0.2
"""Share of the level that is kept for two changes at once."""

WORTH_SHUFFLING = 0.2
"""A change that the first test leaves open to this p is looked at by the second."""

ABOVE = 1 + 1e-9
"""Other orders count where they look clearer than what was seen, not where they are the same split."""

_SIZES = (4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50, 70, 100, 140, 200)
_DRAWS = 10_000
_ORDERS = 2_000
_ORDERS_OF_BUMPS = 500
_ROUNDING = 1e-9
"""Deviation, on the log scale, below which values are equal but for rounding."""


@dataclass(frozen=True)
class Change:
    """One change of level.

    Attributes:
        at: index of the first run of the new level, at the likeliest place.
        before, after: indices of the last run that is surely of the old level and the first that is surely
            of the new one, at the confidence asked for.
        mean, low, high: new less old level, on the log scale, with its interval.
        p: how often a series without a change shows one as clear as this.
    """

    at: int
    before: int
    after: int
    mean: float
    low: float
    high: float
    p: float


def changes(values: Sequence[float], confidence: float = 0.95) -> tuple[Change, ...]:
    """The changes of level in a series.

    Args:
        values: one finite value a run, on the log scale, in order of time.
        confidence: that a series without a change shows none; also of the intervals.
    """
    data = np.asarray(values, dtype=float)
    alpha = 1 - confidence
    cuts = _kept(data, _found(data, 0, len(data), alpha), alpha)
    edges = [0, *cuts, len(data)]
    deviation, freedom = _spread(data, edges)
    reach = t_quantile(confidence, freedom) * deviation if cuts else 0.0
    made = []
    for low, at, high in zip(edges, edges[1:], edges[2:], strict=False):
        parts = data[low:at], data[at:high]
        mean = float(parts[1].mean() - parts[0].mean())
        half = reach * np.sqrt(sum(1 / len(part) for part in parts))
        first, last = _places(data[low:high], confidence)
        p = split(data[low:high])[1]
        made.append(Change(at, low + first - 1, low + last, mean, mean - half, mean + half, p))
    return tuple(made)


def correlation(values: Sequence[float], cuts: Sequence[int]) -> float | None:
    """Of neighbouring runs about their levels; None where it is small enough for chance (2 in 100)."""
    data = np.asarray(values, dtype=float)
    edges = [0, *cuts, len(data)]
    parts = [data[low:high] - data[low:high].mean() for low, high in pairwise(edges)]
    left = np.concatenate(parts)
    total = float((left**2).sum())
    if total <= len(data) * _ROUNDING**2:
        return None
    lag = float((left[1:] * left[:-1]).sum()) / total
    return lag if lag > 2 / np.sqrt(len(data)) else None


def split(data: Floats) -> tuple[int, float]:
    """The likeliest place of one change, and how often chance makes one as clear; (0, 1) for too few."""
    if len(data) < 2 * FEWEST:
        return 0, 1.0
    squares = _between(data[None, :])[0]
    best = int(squares.argmax())
    alone = _p_of_one(float(squares[best]), data)
    p = _p_of_largest(alone, len(data), len(squares))
    if p < WORTH_SHUFFLING:
        p = max(p, float((_between(_shuffled(data, _ORDERS)).max(axis=1) > squares[best] * ABOVE).mean()))
    return best + FEWEST, p


def segments(data: Floats, cuts: int) -> tuple[int, ...]:
    """The so many cuts, each part of at least `FEWEST`, that leave the least squared deviations (exact)."""
    count = len(data)
    sums = np.concatenate([[0.0], np.cumsum(data)])
    squares = np.concatenate([[0.0], np.cumsum(data**2)])

    def cost(starts: NDArray[np.int64], end: int) -> Floats:
        sizes = end - starts
        parts = squares[end] - squares[starts] - (sums[end] - sums[starts]) ** 2 / sizes
        return np.where(sizes >= FEWEST, parts, np.inf)

    origin = np.zeros(1, dtype=np.int64)
    best = np.array([np.inf, *(cost(origin, end)[0] for end in range(1, count + 1))])
    origins = []
    for _ in range(cuts):
        wider, came = np.full(count + 1, np.inf), np.zeros(count + 1, dtype=np.int64)
        for end in range(1, count + 1):
            starts = np.arange(end)
            totals = best[:end] + cost(starts, end)
            came[end] = totals.argmin()
            wider[end] = totals[came[end]]
        best = wider
        origins.append(came)
    end, places = count, []
    for came in reversed(origins):
        end = int(came[end])
        places.append(end)
    return tuple(reversed(places))


def _found(data: Floats, low: int, high: int, level: float) -> list[int]:
    """Cuts by splitting again and again; each part has the share of the level that its runs are of all."""
    part = data[low:high]
    at, p = split(part)
    cuts = [low + at] if p <= level * (1 - BUMPS) else []
    if not cuts:
        inside, p = _bump(part)
        cuts = [low + at for at in inside] if p <= level * BUMPS else []
    edges = [low, *cuts, high]
    if not cuts:
        return []
    for first, last in pairwise(edges):
        cuts += _found(data, first, last, level * (last - first) / len(part))
    return sorted(cuts)


def _kept(data: Floats, cuts: list[int], level: float) -> list[int]:
    """The same number of cuts at their best places, without those that don't stand by themselves."""
    while cuts:
        cuts = list(segments(data - data.mean(), len(cuts)))
        edges = [0, *cuts, len(data)]
        sure = [split(data[low:high])[1] for low, high in zip(edges, edges[2:], strict=False)]
        worst = int(np.argmax(sure))
        if sure[worst] <= level:
            break
        cuts.pop(worst)
    return cuts


def _between(rows: Floats) -> Floats:
    """Squared deviations that a split takes away, for each row and each place of the split."""
    count = rows.shape[1]
    sizes = np.arange(FEWEST, count - FEWEST + 1)
    centred = rows - rows.mean(axis=1, keepdims=True)
    sums = np.cumsum(centred, axis=1)[:, sizes - 1]
    parts: Floats = sums**2 * count / (sizes * (count - sizes))
    return parts


def _p_of_one(between: float, data: Floats) -> float:
    """Two-sided p of one split at a place that was fixed beforehand, from what it takes away."""
    within = max(float(((data - data.mean()) ** 2).sum()) - between, len(data) * _ROUNDING**2)
    freedom = len(data) - 2
    return float(2 * special.stdtr(freedom, -np.sqrt(between / within * freedom)))


def _p_of_largest(alone: float, count: int, places: int) -> float:
    """p of the clearest of all places: by simulation, and never more than all of them added up."""
    bound = min(1.0, alone * places)
    if alone > 0.5 or bound < 1 / _DRAWS:
        return bound
    at = bisect.bisect_left(_SIZES, count)
    if at == len(_SIZES):
        return bound
    smallest = _smallest(_SIZES[at])
    return min(bound, (1 + int(np.searchsorted(smallest, alone, side="right"))) / (1 + _DRAWS))


@lru_cache(maxsize=len(_SIZES))
def _smallest(count: int) -> Floats:
    """The smallest p over the places of a split, of many series of normal values; sorted."""
    rows = np.random.default_rng(count).standard_normal((_DRAWS, count))
    between = _between(rows).max(axis=1)
    within = ((rows - rows.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) - between
    found: Floats = np.sort(2 * special.stdtr(count - 2, -np.sqrt(between / within * (count - 2))))
    return found


def _bump(data: Floats) -> tuple[tuple[int, ...], float]:
    """The likeliest stretch at another level with the old one on both sides, and a bound on its p."""
    count = len(data)
    if count < 3 * FEWEST:
        return (), 1.0
    first, last = np.triu_indices(count + 1, k=FEWEST)
    inner = (first >= FEWEST) & (last <= count - FEWEST)
    first, last = first[inner], last[inner]

    def between(row: Floats) -> Floats:
        sums = np.concatenate([[0.0], np.cumsum(row - row.mean())])
        sizes = last - first
        parts: Floats = (sums[last] - sums[first]) ** 2 * count / (sizes * (count - sizes))
        return parts

    squares = between(data)
    best = int(squares.argmax())
    p = min(1.0, _p_of_one(float(squares[best]), data) * len(squares))
    if p < WORTH_SHUFFLING:
        orders = _shuffled(data, _ORDERS_OF_BUMPS)
        p = max(p, float(np.mean([between(row).max() > squares[best] * ABOVE for row in orders])))
    return (int(first[best]), int(last[best])), p


def _shuffled(data: Floats, orders: int) -> Floats:
    """The same values in so many other orders, the same ones each time."""
    random = np.random.default_rng(len(data))
    return data[np.argsort(random.random((orders, len(data))), axis=1)]


def _spread(data: Floats, edges: Sequence[int]) -> tuple[float, int]:
    """Deviation of a run from its level, and the degrees of freedom that it has."""
    parts = [data[low:high] for low, high in pairwise(edges)]
    freedom = max(1, len(data) - len(parts))
    squares = sum(float(((part - part.mean()) ** 2).sum()) for part in parts if len(part))
    return float(np.sqrt(squares / freedom)), freedom


def _places(data: Floats, confidence: float) -> tuple[int, int]:
    """First and last place that a change may have, all places being as likely beforehand."""
    count = len(data)
    sizes = np.arange(FEWEST, count - FEWEST + 1)
    total = float(((data - data.mean()) ** 2).sum())
    within = np.maximum(total - _between(data[None, :])[0], count * _ROUNDING**2)
    logs = -(count - 2) / 2 * np.log(within) - np.log(sizes * (count - sizes)) / 2
    weights = np.exp(logs - logs.max())
    order = np.argsort(-weights)
    enough = int(np.searchsorted(np.cumsum(weights[order]), confidence * weights.sum())) + 1
    chosen = sizes[order[:enough]]
    return int(chosen.min()), int(chosen.max())
