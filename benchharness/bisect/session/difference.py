"""How much two places differ by their launches: for ends, confirmation and swaps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from benchharness.stats import estimate, modes
from benchharness.stats.estimate import Estimate

RESOLUTION = 1e-4
"""Relative difference below which nothing is told apart, however well launches agree: counted quantities
agree exactly, and their rounding is no effect."""


FEWEST_ORDERED = 6
"""Launches a side from which on their order alone can be sure enough."""


@dataclass(frozen=True)
class Difference:
    """Second place less first, in the scale of the values.

    Attributes:
        mean, low, high: with the interval at the stated level.
        p: how often no difference would look as large by chance.
        launches: on the smaller side.
        known: the launches say how much they differ among themselves.
        bimodal: launches draw a slow mode when they start; what is told is the difference within a mode.
    """

    mean: float
    low: float
    high: float
    p: float
    launches: int
    known: bool
    bimodal: bool = False

    def decided(self, level: float) -> bool:
        """The two differ, but for a chance of `level`."""
        return self.known and self.p < level and abs(self.mean) > RESOLUTION


def between(
    first: Sequence[float], second: Sequence[float], level: float, *, pairs: bool = False
) -> Difference:
    """The difference of two places' launches.

    Args:
        first, second: values of launches; with `pairs` by block, as many on both sides.
        level: two-sided, of the interval.
        pairs: launches of equal position stand in one block.

    Of one launch on a side the spread of the other serves for both. Where launches draw a slow mode when they
    start, the difference is that within a mode.
    """
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    drawn = modes.detect(one, other)
    if drawn is not None and drawn.shift.known:
        found = drawn.shift
    elif min(one.size, other.size) == 1 and max(one.size, other.size) >= 2:
        found = _with_one(one, other)
    else:
        blocks = list(range(one.size)) if pairs and one.size == other.size else None
        found = estimate.of_launches(one, other, blocks)
    if not found.known and min(one.size, other.size) >= 2:  # all agree exactly: counted, not timed
        found = Estimate(found.mean, 0.0, 1.0, found.launches, found.paired)
    spread = found.interval(level)
    p, sure, modal = found.p, found.known, drawn is not None
    parted = _parted(one, other, level) if not modal else None
    if parted is not None and parted.p < p:
        return parted
    return Difference(found.mean, spread.low, spread.high, p, found.launches, sure, modal)


def _parted(one: np.ndarray, other: np.ndarray, level: float) -> Difference | None:
    """By order alone, where all launches of one side lie beyond all of the other; None elsewhere.

    One launch of a busy host, twice as slow as the rest, widens a mean's interval so much that sides which
    nothing else mixes could not be told apart. Mann and Whitney's test doesn't ask by how much; the estimate
    and the interval that belong to it are those of Hodges and Lehmann (1963).
    """
    fewest = min(one.size, other.size)
    if fewest < FEWEST_ORDERED or not (one.max() < other.min() or other.max() < one.min()):
        return None
    apart = np.sort(np.subtract.outer(other, one).ravel())
    spread = math.sqrt(apart.size * (one.size + other.size + 1) / 12)
    at = max(int(apart.size / 2 - float(ndtri(1 - level / 2)) * spread), 1)
    p = 2 / math.comb(one.size + other.size, fewest)
    return Difference(float(np.median(apart)), float(apart[at - 1]), float(apart[-at]), p, fewest, True)


def _with_one(one: np.ndarray, other: np.ndarray) -> Estimate:
    many = one if one.size > 1 else other
    spread = 0.0 if np.ptp(many) <= estimate.EQUAL else float(many.var(ddof=1))
    error = math.sqrt(spread * (1 / one.size + 1 / other.size))
    return Estimate(float(other.mean() - one.mean()), error, many.size - 1, 1, False)
