"""Mean and confidence interval of a few launch values (Student's t over launches)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

FEWEST_EQUAL = 3
"""Launches that must agree exactly before a spread of zero is believed: two may do so by chance."""


@dataclass(frozen=True)
class Interval:
    """A mean with its interval.

    Attributes:
        mean: mean over launches; NaN without a launch.
        low, high: ends of the interval; infinite where one launch can't tell.
        launches: how many values it stands on.
    """

    mean: float
    low: float
    high: float
    launches: int

    @property
    def half_width(self) -> float:
        """Half the interval's width."""
        return (self.high - self.low) / 2


def t_quantile(confidence: float, freedom: float) -> float:
    """How many standard errors a two-sided interval of Student's t reaches.

    From scipy.special: the same figure as scipy.stats.t.ppf, without its import of most of a second.
    """
    return float(special.stdtrit(freedom, (1 + confidence) / 2))


def _equal(data: np.ndarray) -> bool:
    """All values are the same but for rounding."""
    return bool(np.ptp(data) <= 1e-9 * np.abs(data).max())


def of_mean(values: Sequence[float], confidence: float) -> Interval:
    """Interval of the mean; values are one a launch (or one a block), NaN ones are left out."""
    data = np.asarray([value for value in values if math.isfinite(value)], dtype=float)
    if data.size == 0:
        return Interval(math.nan, -math.inf, math.inf, 0)
    if data.size == 1 or (data.size == FEWEST_EQUAL - 1 and _equal(data)):
        return Interval(float(data.mean()), -math.inf, math.inf, int(data.size))
    error = float(data.std(ddof=1)) / math.sqrt(data.size)
    reach = t_quantile(confidence, data.size - 1) * error
    return Interval(
        float(data.mean()), float(data.mean()) - reach, float(data.mean()) + reach, int(data.size)
    )


def of_difference(baseline: Sequence[float], candidate: Sequence[float], confidence: float) -> Interval:
    """Welch's interval of mean(candidate) - mean(baseline) for unpaired launches."""
    first = np.asarray([v for v in baseline if math.isfinite(v)], dtype=float)
    second = np.asarray([v for v in candidate if math.isfinite(v)], dtype=float)
    launches = int(min(first.size, second.size))
    if launches == 0:
        return Interval(math.nan, -math.inf, math.inf, 0)
    mean = float(second.mean() - first.mean())
    equal = _equal(first) and _equal(second)
    if launches == 1 or (launches < FEWEST_EQUAL and equal):
        return Interval(mean, -math.inf, math.inf, launches)
    parts = np.array([first.var(ddof=1) / first.size, second.var(ddof=1) / second.size])
    total = float(parts.sum())
    if total == 0.0:
        return Interval(mean, mean, mean, launches)
    freedom = total**2 / float((parts**2 / np.array([first.size - 1, second.size - 1])).sum())
    reach = t_quantile(confidence, freedom) * math.sqrt(total)
    return Interval(mean, mean - reach, mean + reach, launches)
