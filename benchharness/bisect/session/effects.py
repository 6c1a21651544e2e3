"""What sets two places apart, metric by metric and context by context, by all launches of the campaign.

How much launches differ is taken from all places together: two launches on each side say little of it by
themselves, and a campaign has many more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from benchharness.bisect.session.deciding import LOOKS
from benchharness.metrics import Metric
from benchharness.stats.interval import t_quantile
from benchharness.stats.launch_means import launch_means
from benchharness.store import StoredRun

EQUAL = 1e-9
"""Relative spread below which launches are taken to agree exactly."""


@dataclass(frozen=True)
class Effect:
    """One metric at one context length.

    Attributes:
        context_tokens, metric, unit: the cell.
        before, after: means over launches, in the unit.
        change, low, high: fractions of `before`, with the interval at the campaign's confidence.
        launches: on the smaller side.
        sure: the interval leaves out no change, all contexts together.
    """

    context_tokens: int
    metric: str
    unit: str
    before: float
    after: float
    change: float
    low: float
    high: float
    launches: int
    sure: bool


def between(
    stored: StoredRun, before: str, after: str, metrics: Sequence[Metric], judged: str, confidence: float
) -> tuple[Effect, ...]:
    """The effects between two stacks of a campaign's run, in the order of contexts and metrics.

    The metric that was asked for shares its confidence over contexts, and over the looks at which these
    launches could have been enough: they ended when they looked convincing. The others are many, and nobody
    asked for them, so they share it over metrics instead.
    """
    frame = launch_means(stored.connect(), tuple(metrics))
    contexts = sorted(set(frame["context_tokens"]))
    found = []
    for context in contexts:
        rows = frame[frame["context_tokens"] == context]
        for metric in metrics:
            cells = len(contexts) * (LOOKS if metric.name == judged else len(metrics))
            one = _effect(rows, before, after, metric, int(context), (1 - confidence) / cells)
            if one is not None:
                found.append(one)
    return tuple(found)


def _effect(
    rows: pd.DataFrame, before: str, after: str, metric: Metric, context: int, level: float
) -> Effect | None:
    values = rows[rows[metric.name] > 0]
    sides = [values[values["stack"] == stack][metric.name].to_numpy(dtype=float) for stack in (before, after)]
    if not (sides[0].size and sides[1].size):
        return None
    logs = [np.log(side) for side in sides]
    mean = float(logs[1].mean() - logs[0].mean())
    variance, freedom = _spread(values, metric.name)
    error = math.sqrt(variance * (1 / logs[0].size + 1 / logs[1].size))
    if freedom < 1:
        reach, p = math.inf, 1.0
    elif error <= EQUAL:
        reach, p = 0.0, float(abs(mean) <= EQUAL)
    else:
        reach = t_quantile(1 - level, freedom) * error
        p = float(2 * special.stdtr(freedom, -abs(mean) / error))
    change, low, high = (float(np.expm1(min(one, 700.0))) for one in (mean, mean - reach, mean + reach))
    means = float(sides[0].mean()), float(sides[1].mean())
    launches = min(side.size for side in sides)
    return Effect(context, metric.name, metric.unit, *means, change, low, high, launches, p < level)


def _spread(values: pd.DataFrame, name: str) -> tuple[float, int]:
    """Variance of a launch's log about its place's mean, over all places, and its degrees of freedom."""
    squares, freedom = 0.0, 0
    for _, group in values.groupby("stack")[name]:
        logs = np.log(group.to_numpy(dtype=float))
        squares += float(((logs - logs.mean()) ** 2).sum())
        freedom += logs.size - 1
    return (squares / freedom if freedom else 0.0), freedom
