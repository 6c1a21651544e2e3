"""Baseline against candidate, cell by cell: how much, how sure, and what to call it.

Changes are worked out on the log scale and told as fractions of the baseline. Launches of one
block are paired, since they ran next to each other on equal prompts; without common blocks the two
sides are compared as independent groups of launches. The confidence is shared out over all cells
of a comparison (Bonferroni), so that twenty cells don't bring twenty chances of a false alarm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from benchharness.metrics import Direction, Metric
from benchharness.stats import interval
from benchharness.stats.client_error import ClientError

NO_CLIENT_ERROR = ClientError()
CONFIDENCE = 0.95
EQUIVALENCE_LEVEL = 0.05
"""Level of each of the two one-sided tests. It is not shared out over cells: all of them must pass for a
comparison to pass, which needs no correction (an intersection-union test)."""
MARGIN = 0.01


class Verdict(StrEnum):
    """What a comparison answers; `invalid` where nothing may be judged."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"
    INVALID = "invalid"


@dataclass(frozen=True)
class Cell:
    """One metric at one context length.

    Attributes:
        stack: the candidate's name.
        context_tokens: the cell.
        metric, unit: what is compared.
        baseline, candidate: means over launches, in the unit.
        change, low, high: fractions of the baseline (0.03 is +3 %) with the confidence interval;
            NaN or infinite where nothing can be said.
        launches: launches (or pairs of launches) on the smaller side.
        paired: launches were compared within blocks.
        verdict: see `Verdict`.
        reason: one line where the verdict needs one.
    """

    stack: str
    context_tokens: int
    metric: str
    unit: str
    baseline: float
    candidate: float
    change: float
    low: float
    high: float
    launches: int
    paired: bool
    verdict: Verdict
    reason: str = ""


def compare(
    baseline: pd.DataFrame,
    candidate: pd.DataFrame,
    metrics: Sequence[Metric],
    *,
    stack: str,
    same_run: bool,
    margin: float = MARGIN,
    confidence: float = CONFIDENCE,
    client: ClientError = NO_CLIENT_ERROR,
) -> tuple[Cell, ...]:
    """Compare two stacks.

    Args:
        baseline, candidate: rows of `launch_means`, one stack each.
        metrics: what to compare; one that neither side knows is left out.
        stack: name of the candidate.
        same_run: both come from one run, so equal block numbers mean equal blocks.
        margin: largest change (fraction) that still counts as none.
        confidence: of all cells together.
        client: what the client's own error lets anybody see.

    Returns:
        One cell for each context length and metric that at least one side measured.
    """
    contexts = sorted(set(baseline["context_tokens"]) | set(candidate["context_tokens"]))
    known = [m for m in metrics if baseline[m.name].notna().any() or candidate[m.name].notna().any()]
    share = max(1, len(contexts) * len(known))
    each = 1 - (1 - confidence) / share
    cells = []
    for context in contexts:
        first = baseline[baseline["context_tokens"] == context]
        second = candidate[candidate["context_tokens"] == context]
        for metric in known:
            floor = _floor(first, metric, client)
            cells.append(_cell(first, second, metric, stack, int(context), same_run, margin, each, floor))
    return tuple(cells)


def _floor(baseline: pd.DataFrame, metric: Metric, client: ClientError) -> float:
    gap_ms = float(baseline["itl_ms"].mean()) if "itl_ms" in baseline else math.nan
    return client.floor(metric.name, float(baseline[metric.name].mean()), gap_ms)


def _cell(
    baseline: pd.DataFrame,
    candidate: pd.DataFrame,
    metric: Metric,
    stack: str,
    context: int,
    same_run: bool,
    margin: float,
    confidence: float,
    floor: float,
) -> Cell:
    first = baseline.set_index("block")[metric.name].dropna()
    second = candidate.set_index("block")[metric.name].dropna()
    if first.empty or second.empty:
        side = "baseline" if first.empty else "candidate"
        cell = (float(first.mean()), float(second.mean()), math.nan, math.nan, math.nan, 0, False)
        return Cell(
            stack, context, metric.name, metric.unit, *cell, Verdict.INVALID, f"no valid {side} value"
        )
    common = first.index.intersection(second.index) if same_run else first.index[:0]
    paired = len(common) >= 2 and len(common) == len(first) == len(second)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(first), np.log(second)
    differences = (logs[1].loc[common] - logs[0].loc[common]).tolist() if paired else []

    def spread_at(level: float) -> interval.Interval:
        if paired:
            return interval.of_mean(differences, level)
        return interval.of_difference(logs[0].tolist(), logs[1].tolist(), level)

    spread, narrow = spread_at(confidence), spread_at(1 - 2 * EQUIVALENCE_LEVEL)
    change, low, high = (_from_log(value) for value in (spread.mean, spread.low, spread.high))
    within = -margin <= _from_log(narrow.low) and _from_log(narrow.high) <= margin
    verdict, reason = _judge(metric, Change(change, low, high, spread.launches, within), margin, floor)
    return Cell(
        stack,
        context,
        metric.name,
        metric.unit,
        float(first.mean()),
        float(second.mean()),
        change,
        low,
        high,
        spread.launches,
        paired,
        verdict,
        reason,
    )


def _from_log(value: float) -> float:
    try:
        return math.expm1(value)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class Change:
    """A change with its interval, as fractions; `within` is the answer of the two one-sided tests."""

    change: float
    low: float
    high: float
    launches: int
    within: bool


def _judge(metric: Metric, seen: Change, margin: float, floor: float) -> tuple[Verdict, str]:
    """Name a change; nothing is named that the client's own error could make."""
    if seen.launches < 2:
        return Verdict.UNDECIDED, "one launch can't tell how much launches differ"
    if not (math.isfinite(seen.low) and math.isfinite(seen.high)):
        return Verdict.UNDECIDED, "too few launches to tell how much launches differ"
    if seen.within and floor <= margin:
        return Verdict.EQUIVALENT, ""
    if seen.within or (not seen.low <= 0.0 <= seen.high and abs(seen.change) < floor):
        return Verdict.UNDECIDED, f"smaller than the client's own error ({floor:.2%})"
    if seen.low <= 0.0 <= seen.high:
        return Verdict.UNDECIDED, "more launches (measure.launches) would narrow the interval"
    if metric.direction == Direction.NEITHER:
        return Verdict.UNDECIDED, "changed, but neither way is better"
    worse = seen.low > 0 if metric.direction == Direction.LOWER else seen.high < 0
    return (Verdict.REGRESSED if worse else Verdict.IMPROVED), ""
