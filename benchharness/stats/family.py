"""Many cells judged together: what each must show so that all of them raise one false alarm in twenty.

Cells of one comparison come from the same launches, so they rise and fall together, and the plain
correction (the level divided by the number of cells) throws power away. Here the level of each cell is the
quantile of the smallest p-value among as many cells of that correlation, and cells are judged in the order
of their p-values, each against those that are left (Holm 1979; Westfall and Young 1993).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

STEP = 0.025
"""Correlations are rounded down to a multiple of this."""

_DRAWS = 20_000
_MOST_NUMBERS = 6_000_000
_MOST_FREEDOM = 30


def correlation(residuals: NDArray[np.float64], freedom: int) -> float:
    """How strongly cells are correlated, 0 to below 1, sign aside.

    Args:
        residuals: one row a block or launch, one column a cell; finite.
        freedom: rows less the means that were taken out.

    Returns:
        The root mean square correlation, rounded down; 0 where rows are too few to tell.
    """
    cells = residuals.shape[1]
    if cells < 2 or freedom < 3:
        return 0.0
    length = np.sqrt((residuals**2).sum(axis=0))
    if not (length > 0).all():
        return 0.0
    seen = (residuals / length).T @ (residuals / length)
    square = float(((seen**2).sum() - cells) / (cells * (cells - 1)))
    # Rows that are few correlate by chance: take that out, as the adjusted R squared does.
    fair = 1 - (1 - square) * freedom / (freedom - 1)
    return math.floor(math.sqrt(min(max(fair, 0.0), 1 - STEP)) / STEP) * STEP


def level(alpha: float, cells: int, correlated: float, freedom: float) -> float:
    """Level of each of several cells, so that any of them is wrong at `alpha`.

    Args:
        alpha: of all cells together.
        cells: how many.
        correlated: their correlation, from `correlation`.
        freedom: degrees of freedom of each.
    """
    alone = 1 - (1 - alpha) ** (1 / cells) if cells > 1 else alpha
    if cells < 2 or correlated <= 0:
        return alpha / max(cells, 1)
    whole = int(min(max(freedom, 1), _MOST_FREEDOM))
    smallest = _smallest(cells, round(correlated / STEP), whole)
    return float(min(alpha, max(alone, np.quantile(smallest, alpha))))


@lru_cache(maxsize=128)
def _smallest(cells: int, steps: int, freedom: int) -> NDArray[np.float64]:
    """Drawn: the smallest p-value among cells of one correlation where nothing changed."""
    random = np.random.default_rng(20_130_531)
    draws = max(4_000, min(_DRAWS, _MOST_NUMBERS // (cells * (freedom + 1))))
    shared, own = math.sqrt(steps * STEP), math.sqrt(1 - steps * STEP)
    largest = np.empty(draws)
    for begin in range(0, draws, 1_000):
        size = min(1_000, draws - begin)
        common = random.standard_normal((size, freedom + 1, 1))
        data = shared * common + own * random.standard_normal((size, freedom + 1, cells))
        error = np.sqrt((data[:, 1:] ** 2).mean(axis=1))
        largest[begin : begin + size] = (np.abs(data[:, 0]) / error).max(axis=1)
    return 2 * special.stdtr(freedom, -largest)  # type: ignore[no-any-return]


def rejected(
    values: Sequence[float], freedoms: Sequence[float], alpha: float, correlated: float
) -> tuple[bool, ...]:
    """Which cells changed: from the smallest p-value on, up to the first that does not reach its level."""
    found = [False] * len(values)
    for passed, cell in enumerate(sorted(range(len(values)), key=lambda one: values[one])):
        each = level(alpha, len(values) - passed, correlated, min(freedoms))
        if values[cell] > each:
            break
        found[cell] = True
    return tuple(found)
