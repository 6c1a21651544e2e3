"""Medians in bounded memory."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchharness.timings.logs.spread import Spread


def test_few_values_give_the_exact_median() -> None:
    spread = Spread()
    spread.add(np.array([3.0, 1.0, float("nan"), float("inf")]))
    spread.add(np.array([2.0]))
    assert (spread.count, spread.median, spread.mean) == (3, 2.0, 2.0)
    assert math.isnan(Spread().median)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 2e4])
def test_many_values_give_a_close_median_in_little_memory(scale: float) -> None:
    spread = Spread()
    values = np.random.default_rng(3).lognormal(size=600_000) * scale
    for piece in np.array_split(values, 30):
        spread.add(piece)
    assert spread.median == pytest.approx(float(np.median(values)), rel=5e-4)
    assert spread.mean == pytest.approx(float(values.mean()))
    assert sum(piece.nbytes for piece in spread._pieces) == 0
