"""A slow mode that is drawn when a process starts: launches of one stack in two clusters.

Two clusters are believed where splitting the launches takes away so much of their spread as happens by
chance once in 200 comparisons of Gaussian launches, each mode was drawn at least twice, and the modes
lie well apart. Both sides share the distance of the modes, not their place.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchharness.stats.estimate import Estimate

LEAST_GAP = math.log(1.05)
"""Modes less than 5 % apart are no modes."""

LEAST_SEPARATION = 6.0
"""Standard deviations within a mode that modes must lie apart; keeps heavy tails from counting as modes."""

FEWEST = 5
"""Launches, of both sides together, below which modes can't be told."""

_BY_CHANCE = 0.005
_DRAWS = 2_000
_MOST_DRAWN = 20


@dataclass(frozen=True)
class Modes:
    """Two modes of the launches of a comparison.

    Attributes:
        upper: for each side whether each launch drew the upper mode, in the order given.
        levels: geometric means of the lower and of the upper mode, in the metric's unit.
        shift: candidate against baseline within a mode, in logs.
    """

    upper: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    levels: tuple[float, float]
    shift: Estimate

    @property
    def drawn(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """For each side: launches in the upper mode, and all."""
        first, second = self.upper
        return (int(first.sum()), first.size), (int(second.sum()), second.size)

    @property
    def p(self) -> float:
        """Fisher's exact test: how often the sides would draw modes as differently by chance."""
        (a, m), (b, n) = self.drawn
        ways = {
            k: _choices(m, k) + _choices(n, a + b - k) for k in range(max(0, a + b - n), min(m, a + b) + 1)
        }
        total = _choices(m + n, a + b)
        return min(1.0, sum(math.exp(w - total) for w in ways.values() if w <= ways[a] + 1e-9))

    @property
    def p_any(self) -> float:
        """Of both ways in which the sides can differ, shares of modes and shift, the likelier, doubled."""
        return min(1.0, 2 * min(self.p, self.shift.p))


def _choices(of: int, take: int) -> float:
    return math.lgamma(of + 1) - math.lgamma(take + 1) - math.lgamma(of - take + 1)


def detect(first: NDArray[np.float64], second: NDArray[np.float64]) -> Modes | None:
    """Two modes in logs of launch values of a baseline and a candidate; None where there are not two."""
    if min(first.size, second.size) < 2 or first.size + second.size < FEWEST:
        return None
    sides = np.sort(first), np.sort(second)
    ratio, cuts = _best(sides[0][None], sides[1][None])
    sizes = sorted((min(first.size, _MOST_DRAWN), min(second.size, _MOST_DRAWN)))
    if ratio[0] < _critical(*sizes):
        return None
    upper = _upper(sides, (int(cuts[0, 0]), int(cuts[0, 1])))
    return _fitted((first, second), tuple(_back(s, u) for s, u in zip((first, second), upper, strict=True)))


def _back(values: NDArray[np.float64], upper: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """From the order of size to the order given."""
    order = np.empty(values.size, dtype=bool)
    order[np.argsort(values, kind="stable")] = upper
    return order


def _upper(sides: tuple[NDArray[np.float64], ...], cuts: tuple[int, int]) -> list[NDArray[np.bool_]]:
    """Which sorted launches are in the upper mode; a side that was not cut joins the nearer one."""
    upper = [np.arange(side.size) >= cut for side, cut in zip(sides, cuts, strict=True)]
    for one, other in ((0, 1), (1, 0)):
        if not cuts[one]:
            drawn, values = upper[other], sides[other]
            middle = (values[drawn].mean() + values[~drawn].mean()) / 2
            upper[one] = np.full(sides[one].size, bool(sides[one].mean() > middle))
    return upper


def _fitted(
    sides: tuple[NDArray[np.float64], NDArray[np.float64]], upper: tuple[NDArray[np.bool_], ...]
) -> Modes | None:
    """Levels and shift by least squares: value = side + mode."""
    values, drawn = np.concatenate(sides), np.concatenate(upper)
    candidate = np.repeat([0.0, 1.0], [side.size for side in sides])
    design = np.column_stack([np.ones(values.size), candidate, drawn])
    if min(int(drawn.sum()), int((~drawn).sum())) < 2:
        return None
    inverse = np.linalg.pinv(design.T @ design)
    fit = inverse @ design.T @ values
    freedom = values.size - 3
    within = math.sqrt(float(((values - design @ fit) ** 2).sum()) / freedom)
    if fit[2] < max(LEAST_GAP, LEAST_SEPARATION * within):
        return None
    separable = np.linalg.matrix_rank(design) == 3
    error = within * math.sqrt(float(inverse[1, 1])) if separable else math.nan
    shift = Estimate(float(fit[1]), error, freedom, min(side.size for side in sides), False)
    levels = float(np.exp(values[~drawn].mean())), float(np.exp(values[drawn].mean()))
    return Modes((upper[0], upper[1]), levels, shift)


def _best(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int_]]:
    """The cut that leaves least: spread without over spread with it, and the two cuts (0 is none).

    Args:
        first, second: sorted along the last axis; one row a draw.
    """
    parts = [_splits(side) for side in (first, second)]
    whole = parts[0][0][:, 0] + parts[1][0][:, 0]
    least = np.full(first.shape[0], np.inf)
    cuts = np.zeros((first.shape[0], 2), dtype=int)
    for k, m in itertools.product(range(first.shape[1]), range(second.shape[1])):
        lower = (k + m) if k and m else (k or m)
        count = (first.shape[1] if k else 0) + (second.shape[1] if m else 0)
        if not (k or m) or lower < 1 or count - lower < 1:
            continue
        rest = parts[0][0][:, k] + parts[1][0][:, m]
        if k and m:  # one distance for both sides
            a, b = parts[0][2][k], parts[1][2][m]
            rest = rest + a * b / (a + b) * (parts[0][1][:, k] - parts[1][1][:, m]) ** 2
        better = rest < least
        least = np.where(better, rest, least)
        cuts[better] = (k, m)
    floor = np.maximum(least, 1e-18)
    return whole / floor, cuts


def _splits(
    side: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """For each number of launches below the cut: squares left, distance of the halves, weight of it."""
    n = side.shape[1]
    centred = side - side.mean(axis=1, keepdims=True)
    below = np.concatenate([np.zeros((side.shape[0], 1)), centred.cumsum(axis=1)], axis=1)[:, :n]
    total = (centred**2).sum(axis=1, keepdims=True)
    k = np.arange(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(k > 0, -below / (n - k) - below / np.maximum(k, 1), 0.0)
    weight = k * (n - k) / n
    return np.maximum(total - weight * gap**2, 0.0), gap, weight


@lru_cache(maxsize=256)
def _critical(smaller: int, larger: int) -> float:
    """The ratio that Gaussian launches reach by chance once in 200."""
    random = np.random.default_rng(20_160_817)
    first = np.sort(random.standard_normal((_DRAWS, smaller)), axis=1)
    second = np.sort(random.standard_normal((_DRAWS, larger)), axis=1)
    return float(np.quantile(_best(first, second)[0], 1 - _BY_CHANCE))
