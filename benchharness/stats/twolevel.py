"""Launches hold requests: how much of the spread lies where, and what an interval may stand on.

A request's log is mean + launch + request; requests of one launch are correlated with their neighbours, so
they count as fewer than they are. Values are positive and in order of time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special

from benchharness.metrics import fewest_for
from benchharness.stats.interval import of_mean, t_quantile

USUAL_CORRELATION = 0.5
"""Lag-1 correlation of the requests of a launch, before they are looked at: 0.37 and 0.72 were measured."""

USUAL_WEIGHT = 10
"""Requests that `USUAL_CORRELATION` counts as."""

MOST_CORRELATION = 0.95

BOOTSTRAP_FROM = 10
"""Launches from which on an interval comes from the hierarchical bootstrap (docs/method.md says why)."""

_CLIP = 3.5
_DRAWS = 2_000

_Floats = NDArray[np.float64]


def effective_requests(requests: float, correlation: float) -> float:
    """As how many independent requests those of a launch count for its mean (first-order autoregression)."""
    r, n = correlation, requests
    if r <= 0 or n <= 1:
        return n
    # The sum over k from 1 to n-1 of (1 - k/n) r^k, in closed form.
    tail = r / (1 - r) - r * (1 - r**n) / (n * (1 - r) ** 2)
    return float(n / (1 + 2 * tail))


def lag_one(launches: Sequence[ArrayLike]) -> float:
    """Correlation of neighbouring requests inside launches, 0 to `MOST_CORRELATION`.

    Deviations beyond 3.5 robust standard deviations are clipped, the bias of short series is taken out, and
    the fewer requests there are, the nearer the figure stays to `USUAL_CORRELATION`.
    """
    products, squares, seen = 0.0, 0.0, 0
    for values in launches:
        off = np.asarray(values, dtype=float)
        if off.size < 3:
            continue
        off = off - np.median(off)
        scale = 1.4826 * float(np.median(np.abs(off)))
        off = np.clip(off, -_CLIP * scale, _CLIP * scale) if scale > 0 else off
        off = off - off.mean()
        products += float(off[1:] @ off[:-1]) * off.size / (off.size - 1)
        squares += float(off @ off)
        seen += off.size
    if squares <= 0:
        return USUAL_CORRELATION if seen == 0 else 0.0
    raw = products / squares
    size = seen / max(1, sum(np.size(values) >= 3 for values in launches))
    # Kendall 1954: a series of n looks less correlated than it is by (1 + 3 r) / n.
    fair = float(np.clip((raw + 1 / size) / (1 - min(3 / size, 0.75)), -1, 1))
    shrunk = (seen * fair + USUAL_WEIGHT * USUAL_CORRELATION) / (seen + USUAL_WEIGHT)
    return float(min(max(shrunk, 0.0), MOST_CORRELATION))


@dataclass(frozen=True)
class Components:
    """Where the spread of a metric lies, in variances of logs.

    Attributes:
        between: of launches.
        within: of one request in its launch.
        correlation: of neighbouring requests.
        requests: in a launch, on average.
        effective: as how many independent ones they count.
        launches: that this stands on.
    """

    between: float
    within: float
    correlation: float
    requests: float
    effective: float
    launches: int

    @property
    def share(self) -> float:
        """Share of the variance of one request that lies between launches; NaN without any spread."""
        total = self.between + self.within
        return self.between / total if total > 0 else math.nan

    @property
    def of_launch_value(self) -> float:
        """Share of the variance of a launch's mean that more requests a launch would not take away."""
        total = self.between + self.within / self.effective
        return self.between / total if total > 0 else math.nan

    def sentence(self) -> str:
        """For people: what would narrow an interval."""
        if math.isnan(self.share):
            return "launches and requests do not differ at all"
        many = f"{self.requests:.0f} requests a launch (lag-1 correlation {self.correlation:.2f})"
        count = f"{self.effective:.1f}"
        told = f"{self.share:.0%} of a request's variance lies between launches; {many} count as {count}"
        if self.of_launch_value >= 0.5:
            return f"{told}, and more of them would hardly narrow the interval: more launches would"
        return f"{told}, and more requests a launch would narrow the interval as well"


def components(
    launches: Sequence[ArrayLike], partners: Sequence[ArrayLike] | None = None
) -> Components | None:
    """Estimate the components.

    Args:
        launches: values of the requests of each launch.
        partners: those of the launch of another stack in the same block, for each; then what blocks share,
            such as a drift of the host, is left out, and both stacks are taken to spread alike.

    Returns:
        None with fewer than two launches of two requests.
    """
    own = [np.log(np.asarray(values, dtype=float)) for values in launches]
    other = [np.log(np.asarray(values, dtype=float)) for values in partners or ()]
    groups = own + other
    if len(own) < 2 or any(group.size < 2 for group in groups) or (other and len(other) != len(own)):
        return None
    correlation = lag_one(groups)
    sizes = np.array([group.size for group in groups], dtype=float)
    counts = np.array([effective_requests(size, correlation) for size in sizes])
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    # The spread about a launch's own mean is smaller than about its level, by what that mean varies.
    within = squares / float((sizes * (1 - 1 / counts)).sum()) if (counts > 1).any() else 0.0
    means = [np.array([group.mean() for group in side]) for side in (own, other)]
    spread = float((means[1] - means[0]).var(ddof=1)) / 2 if other else float(means[0].var(ddof=1))
    between = max(0.0, spread - within * float((1 / counts).mean()))
    return Components(between, within, correlation, float(sizes.mean()), float(counts.mean()), len(own))


def of_cells(baseline: pd.DataFrame, candidate: pd.DataFrame, *, same_run: bool) -> dict[int, Components]:
    """Components of each context that both sides measured; rows of `launch_means.request_values`."""
    found = {}
    for context in sorted(set(baseline["context_tokens"]) & set(candidate["context_tokens"])):
        sides = [_by_block(side[side["context_tokens"] == context]) for side in (baseline, candidate)]
        if same_run and list(sides[0]) == list(sides[1]):
            parts = components(list(sides[0].values()), list(sides[1].values()))
        else:
            parts = components(list(sides[0].values()))
        if parts is not None:
            found[int(context)] = parts
    return found


def _by_block(rows: pd.DataFrame) -> dict[int, _Floats]:
    groups = {int(str(block)): _finite(values.to_numpy()) for block, values in rows.groupby("block")["value"]}
    return {block: values for block, values in groups.items() if values.size > 1}


class Method(StrEnum):
    """How an interval was made."""

    LAUNCH_T = "Student's t over launch values"
    BOOTSTRAP = "hierarchical bootstrap over launches and their requests"


@dataclass(frozen=True)
class Spread:
    """A figure with its interval; `method` is None where the sample does not support one."""

    value: float
    low: float
    high: float
    method: Method | None
    launches: int
    reason: str = ""


def interval(
    launches: Sequence[ArrayLike],
    *,
    percentile: float | None = None,
    confidence: float = 0.95,
    bootstrap_from: int = BOOTSTRAP_FROM,
) -> Spread:
    """Interval of the mean over launches of each launch's mean or percentile, as a ratio scale asks for.

    Args:
        launches: values of the requests (or cycles) of each launch, positive; empty launches are left out.
        percentile: share, as 0.99; None for the mean.
        confidence: of the interval.
        bootstrap_from: launches from which on the bootstrap is used.

    Returns:
        The geometric mean of the launches' figures. A percentile needs enough observations: in each launch
        for Student's t, in all together for the bootstrap, which then takes the percentile of all of them.
    """
    groups = [array for values in launches if (array := _finite(values)).size]
    if not groups:
        return Spread(math.nan, -math.inf, math.inf, None, 0, "no valid value")
    needed = 1 if percentile is None else fewest_observations(percentile)
    figure = _figure(percentile)
    observed = sum(group.size for group in groups)
    each = all(group.size >= needed for group in groups)
    if observed < needed or (not each and len(groups) < bootstrap_from):
        reason = (
            f"a p{100 * (percentile or 0):g} takes {needed} observations a launch, "
            f"or as many in all of {bootstrap_from} launches"
        )
        return Spread(math.nan, -math.inf, math.inf, None, len(groups), reason)
    if len(groups) >= bootstrap_from:
        return _bootstrap(groups, figure, each, confidence)
    logs = np.log([figure(group) for group in groups])
    found = of_mean(logs.tolist(), confidence)
    value, low, high = (float(np.exp(end)) for end in (found.mean, found.low, found.high))
    reason = "" if len(groups) > 1 else "one launch can't tell how much launches differ"
    return Spread(value, low, high, Method.LAUNCH_T, len(groups), reason)


def intervals_of_cells(baseline: pd.DataFrame, candidate: pd.DataFrame) -> dict[int, tuple[Spread, Spread]]:
    """Each side's figure at each context that both measured; rows of `launch_means.request_values`."""
    sides = [
        {
            int(str(context)): interval([values.to_numpy() for _, values in rows.groupby("launch")["value"]])
            for context, rows in side.groupby("context_tokens")
        }
        for side in (baseline, candidate)
    ]
    return {context: (sides[0][context], sides[1][context]) for context in sorted(sides[0].keys() & sides[1])}


def fewest_observations(percentile: float) -> int:
    """Observations of which 95 % of samples have some on both sides of a percentile."""
    return fewest_for(percentile)


def _finite(values: ArrayLike) -> _Floats:
    array: _Floats = np.asarray(values, dtype=float)
    return array[np.isfinite(array) & (array > 0)]


def _figure(percentile: float | None) -> Callable[[_Floats], float]:
    if percentile is None:
        return lambda values: float(values.mean())
    return lambda values: float(np.quantile(values, percentile, method="median_unbiased"))


def _bootstrap(
    groups: Sequence[_Floats], figure: Callable[[_Floats], float], each: bool, confidence: float
) -> Spread:
    """Launches are drawn with replacement, and requests within them where a launch alone has no figure.

    Where each launch has its figure, drawing requests as well would count the spread inside launches twice
    (Davison and Hinkley 1997, section 3.8). The ends lie further out than the plain percentiles, as far as
    Student's t does (Hesterberg 2015, "expanded percentile").
    """
    random = np.random.default_rng(20_150_704)
    count = len(groups)
    drawn = random.integers(0, count, (_DRAWS, count))
    if each:
        logs = np.log([figure(group) for group in groups])
        centre, draws = float(logs.mean()), logs[drawn].mean(axis=1)
    else:
        centre = math.log(figure(np.concatenate(groups)))
        draws = np.log([figure(np.concatenate([groups[i] for i in row])) for row in drawn])
    reach = t_quantile(confidence, count - 1) * math.sqrt(count / (count - 1))
    tail = float(special.ndtr(-reach))
    low, high = np.quantile(draws, [tail, 1 - tail])
    value = math.exp(centre)
    return Spread(value, math.exp(low), math.exp(high), Method.BOOTSTRAP, count)
