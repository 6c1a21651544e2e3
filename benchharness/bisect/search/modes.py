"""Starts that come in modes: how much better than one spread they explain launches, for each split.

Some stacks draw a slow mode when they start. A few launches of one mode each look like a clean step with
hardly any noise, wherever they are, and plain bisection follows them anywhere. Against that stands a second
model: level + shift + mode + noise, where each launch draws its mode with an unknown probability. Launches of
one side are labelled by a threshold; all pairs of thresholds are summed over. Both models give launches equal
weight, so that their ratio is one of like with like.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from benchharness.bisect.search.problem import Floats, Ints

_SHIFTS = np.array([0.3, 2.0, 12.0])
_MODE_WIDTH = 20.0
"""Deviations, in those of launches of one mode, of the shift and of the distance of modes, beforehand."""

_THRESHOLDS = 8
"""Thresholds looked at on each side: the widest gaps between its values."""

_LEAST_SQUARES = 1e-10
"""Sum of squares that launches without any spread have: far above rounding, far below any metric's."""


def ratios(values: Floats, ends: Ints) -> tuple[Floats, Floats]:
    """How much likelier launches are if starts come in modes.

    Args:
        values: launch means, sorted by point.
        ends: for each split, how many of them are good.

    Returns:
        For each split the log of the Bayes factor, and the variance that modes then make between launches.
    """
    count = float(len(values))
    centred = values - values.mean()
    squares = float(centred @ centred)
    good = np.arange(len(values)) < ends[:, None]
    slow_good, sum_good = (one[:, :, None] for one in _labels(centred, good))
    slow_bad, sum_bad = (one[:, None, :] for one in _labels(centred, ~good))
    bad = (count - ends)[:, None, None]
    zy = np.concatenate([centred[::-1].cumsum()[::-1], [0.0]])[ends][:, None, None]
    slow, my = slow_good + slow_bad, sum_good + sum_bad
    # Sums of products about the mean, of shift (z) and mode (m) with each other.
    zz = bad * ends[:, None, None] / count
    mm = slow - slow**2 / count + 1 / _MODE_WIDTH**2
    zm = slow_bad - bad * slow / count
    # How likely these labels are, whatever the probability of the slow mode.
    orders = np.arange(len(values) + 1)
    table = gammaln(orders + 1) + gammaln(orders[::-1] + 1) - gammaln(count + 2)
    drawn = table[slow.astype(np.int64)]
    drawn = np.where(np.isfinite(my), drawn, -np.inf)
    my = np.where(np.isfinite(my), my, 0.0)
    log_modes, distance = [], []
    log_single = []
    for width in _SHIFTS:
        a = zz + 1 / width**2
        determinant = a * mm - zm**2
        shift, mode = (mm * zy - zm * my) / determinant, (a * my - zm * zy) / determinant
        left = np.maximum(squares - shift * zy - mode * my, 0.0) + _LEAST_SQUARES
        occam = -0.5 * np.log(determinant * width**2 * _MODE_WIDTH**2)
        log_modes.append(drawn + occam - (count - 1) / 2 * np.log(left))
        distance.append(mode)
        rest = np.maximum(squares - zy**2 / a, 0.0) + _LEAST_SQUARES
        log_single.append(-0.5 * np.log(a * width**2) - (count - 1) / 2 * np.log(rest))
    share = slow / count
    return _summed(np.array(log_modes), np.array(log_single), np.array(distance) ** 2 * share * (1 - share))


def _summed(log_modes: Floats, log_single: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Sums over widths and thresholds (axes 0, 2, 3), for each split (axis 1)."""
    over = (0, 2, 3)
    top = log_modes.max(axis=over, keepdims=True)
    weights = np.exp(log_modes - top)
    total = weights.sum(axis=over)
    highest = log_single.max(axis=over, keepdims=True)
    single = np.exp(log_single - highest).sum(axis=over)
    ratio = (top - highest)[0, :, 0, 0] + np.log(total) - np.log(single)
    return ratio, (weights * variances).sum(axis=over) / total


def _labels(values: Floats, member: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """For each split and threshold: how many values of one side lie above it, and their sum.

    The thresholds lie in the widest gaps, below all and above all; where a side has fewer, the sum is not
    a number.
    """
    sizes = member.sum(axis=1)
    ordered = -np.sort(np.where(member, -values, np.inf), axis=1)
    inside = np.arange(len(values)) < sizes[:, None]
    ordered = np.where(inside, ordered, 0.0)
    sums = np.concatenate([np.zeros((len(member), 1)), ordered.cumsum(axis=1)], axis=1)
    gaps = np.where(inside[:, 1:], ordered[:, :-1] - ordered[:, 1:], -1.0)
    most = min(_THRESHOLDS, gaps.shape[1])
    chosen = np.argpartition(-gaps, most - 1, axis=1)[:, :most]
    real = np.take_along_axis(gaps, chosen, axis=1) >= 0
    above = np.concatenate([np.zeros((len(member), 1), dtype=np.int64), sizes[:, None], chosen + 1], axis=1)
    real = np.concatenate([np.ones((len(member), 1), dtype=bool), sizes[:, None] > 0, real], axis=1)
    found = np.where(real, np.take_along_axis(sums, above, axis=1), np.nan)
    return np.where(real, above, 0).astype(float), found
