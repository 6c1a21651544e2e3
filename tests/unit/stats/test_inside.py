"""Neighbouring requests are alike and count as few: AR(1) as measured on an H200, 0.72 at lag 1."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from benchharness.stats.inside import inside
from benchharness.stats.twolevel import components

LAG_ONE = 0.72


def series(random: np.random.Generator, launches: int, requests: int, correlation: float) -> np.ndarray:
    """Launches x requests: log values of variance 1 inside a launch, and launches of variance 1."""
    values = random.standard_normal((launches, requests))
    for at in range(1, requests):
        values[:, at] = correlation * values[:, at - 1] + math.sqrt(1 - correlation**2) * values[:, at]
    return values + random.standard_normal((launches, 1))


def rows(logs: np.ndarray) -> pd.DataFrame:
    launches, requests = logs.shape
    return pd.DataFrame(
        {
            "launch": np.repeat(range(launches), requests),
            "stack": "a",
            "context_tokens": 128,
            "value": np.exp(logs.ravel()),
        }
    )


def test_the_correlation_and_what_it_leaves_of_the_requests_are_found() -> None:
    (cell,) = inside(rows(series(np.random.default_rng(1), 10, 200, LAG_ONE)))
    assert (cell.stack, cell.context_tokens, cell.launches, cell.requests) == ("a", 128, 10, 200)
    assert cell.correlation == pytest.approx(LAG_ONE, abs=0.05)
    assert cell.effective == pytest.approx(200 * (1 - LAG_ONE) / (1 + LAG_ONE), rel=0.2)


def test_independent_requests_count_in_full() -> None:
    (cell,) = inside(rows(series(np.random.default_rng(2), 10, 200, 0.0)))
    assert cell.correlation < 0.1 and cell.effective > 160


def test_a_single_launch_tells_of_its_requests_and_values_that_are_none_are_left_out() -> None:
    table = rows(series(np.random.default_rng(3), 1, 100, LAG_ONE))
    table.loc[5, "value"] = math.nan
    table.loc[6, "value"] = 0.0
    (cell,) = inside(table)
    assert (cell.launches, cell.requests) == (1, 98)
    assert cell.correlation > 0.5


def test_the_spread_between_launches_is_freed_of_what_correlated_requests_leave_in_it() -> None:
    """Counted in full, thirty such requests would leave five sixths of what they add to launches."""
    random = np.random.default_rng(4)
    found = []
    for _ in range(300):
        logs = series(random, 8, 30, LAG_ONE)
        parts = components([np.exp(one) for one in logs])
        if parts is not None:
            found.append((parts.between, parts.within, logs.mean(axis=1).var(ddof=1)))
    between, within, of_means = np.mean(found, axis=0)
    assert of_means == pytest.approx(1.18, abs=0.1), "1 of launches, 0.18 of thirty requests at 0.72"
    assert between == pytest.approx(1.0, abs=0.15)
    assert within == pytest.approx(1.0, abs=0.2)
    assert of_means - within / 30 - between > 0.1, "as independent requests they would leave more"
