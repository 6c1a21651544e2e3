"""How much two groups of launches differ, and how sure that is: Student's t over blocks or over launches.

On interleaved launches both ways keep to their level: a drift that blocks share either cancels within the
block (pairs) or widens the spread (groups). Pairs cost half of the degrees of freedom, which weighs more
than the drift as long as there are few: of 2 launches a side the interval is 3 times as wide by pairs. So
the way is chosen by the number of launches, never by what they show (see docs/method.md for the figures).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from benchharness.stats.interval import FEWEST_EQUAL, Interval, t_quantile

FEWEST_PAIRS = 4
"""Blocks from which on launches are compared in pairs."""

FEWEST_DUETS = 2
"""The same for the two launches of a duet, which shared every moment of the host (docs/method.md, Duet)."""

EQUAL = 1e-9
"""Relative spread below which launches are taken to agree exactly."""


@dataclass(frozen=True)
class Estimate:
    """A difference of logs with its error.

    Attributes:
        mean: of the logs' difference, candidate less baseline.
        error: its standard error; NaN where nothing can be said of it.
        freedom: degrees of freedom of the error.
        launches: on the smaller side.
        paired: worked out within blocks.
    """

    mean: float
    error: float
    freedom: float
    launches: int
    paired: bool

    @property
    def known(self) -> bool:
        """Whether launches say how much they differ."""
        return math.isfinite(self.error)

    def interval(self, level: float) -> Interval:
        """Two-sided interval that misses the truth at `level`; without ends where the error is not known."""
        if not self.known:
            return Interval(self.mean, -math.inf, math.inf, self.launches)
        reach = t_quantile(1 - level, self.freedom) * self.error if self.error else 0.0
        return Interval(self.mean, self.mean - reach, self.mean + reach, self.launches)

    @property
    def p(self) -> float:
        """How often no difference would look as large as this, by chance."""
        if not self.known:
            return 1.0
        if self.error == 0.0:
            return 1.0 if self.mean == 0.0 else 0.0
        return float(2 * special.stdtr(self.freedom, -abs(self.mean) / self.error))


def of_launches(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    blocks: Sequence[int] | None,
    *,
    fewest_pairs: int = FEWEST_PAIRS,
) -> Estimate:
    """The difference of two groups of launches.

    Args:
        first, second: logs of launch values, finite.
        blocks: where both sides have one launch in each of these blocks, in this order; else None.
        fewest_pairs: blocks from which on they are compared in pairs.
    """
    paired = blocks is not None and len(blocks) >= fewest_pairs
    launches = min(first.size, second.size)
    mean = float(second.mean() - first.mean()) if launches else math.nan
    if blocks is not None and np.array_equal(first, second) and launches > 1:
        return Estimate(0.0, 0.0, 1.0, launches, True)  # the very same launches
    if launches < 2:
        return Estimate(mean, math.nan, math.nan, launches, False)
    if paired:
        error, freedom = _of_pairs(second - first)
    else:
        error, freedom = _of_groups(first, second)
    return Estimate(mean, error, freedom, launches, paired)


def _spread(values: NDArray[np.float64]) -> float:
    """Variance over launches; exactly 0 where they agree but for rounding."""
    return 0.0 if np.ptp(values) <= EQUAL * max(1.0, float(np.abs(values).max())) else values.var(ddof=1)


def _of_pairs(differences: NDArray[np.float64]) -> tuple[float, float]:
    return math.sqrt(_spread(differences) / differences.size), differences.size - 1


def _of_groups(first: NDArray[np.float64], second: NDArray[np.float64]) -> tuple[float, float]:
    """Standard error and degrees of freedom.

    Of fewer than `FEWEST_PAIRS` launches a side, as many on both, Student's with one spread for both sides:
    Welch's makes the level 2 % of a stated 5 % there. With more, or of unequal number, Welch's.
    """
    spreads = np.array([_spread(first), _spread(second)])
    sizes = np.array([first.size, second.size])
    if not spreads.any():
        return (0.0 if sizes.min() >= FEWEST_EQUAL else math.nan), float(sizes.sum() - 2)
    parts = spreads / sizes
    error = math.sqrt(float(parts.sum()))
    if sizes[0] == sizes[1] and sizes[0] < FEWEST_PAIRS:
        return error, float(sizes.sum() - 2)
    return error, float(parts.sum()) ** 2 / float((parts**2 / (sizes - 1)).sum())
