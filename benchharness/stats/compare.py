"""Baseline against candidate, cell by cell: how much, how sure, and what to call it.

Changes are worked out on the log scale and told as fractions of the baseline. Launches of one block are
paired from four blocks on, in a duet from two, since they ran next to each other on equal prompts
(`estimate.py`). All cells of a comparison share one level (`family.py`). Launches in two clusters are not
judged by their mean: the stack is bimodal (`modes.py`). An undecided cell says how many launches would decide
it (`further.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from benchharness.metrics import METRICS, Metric
from benchharness.stats import estimate, family, modes
from benchharness.stats.client_error import ClientError
from benchharness.stats.estimate import Estimate
from benchharness.stats.judging import EQUIVALENCE_LEVEL, Measured, Rules, Verdict, fraction, judge

__all__ = ["Cell", "Verdict", "compare"]

NO_CLIENT_ERROR = ClientError()
CONFIDENCE = 0.95
MARGIN = 0.01


@dataclass(frozen=True)
class Cell:
    """One metric at one context length.

    Attributes:
        stack: the candidate's name.
        context_tokens: the cell.
        metric, unit: what is compared.
        baseline, candidate: means over launches, in the unit.
        change, low, high: fractions of the baseline (0.03 is +3 %) with the confidence interval;
            NaN or infinite where nothing can be said. Of a bimodal cell: within a mode.
        launches: launches (or pairs of launches) on the smaller side.
        paired: launches were compared within blocks.
        verdict: see `Verdict`.
        reason: one line where the verdict needs one.
        change_abs, low_abs, high_abs: the same change in the metric's unit.
        further_launches: launches a side that would decide an undecided cell; None where none are
            needed, or no number would do.
        bimodal: a side draws a slow mode when it starts.
        duet: both launches of a pair served at the same time, request against request.
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
    change_abs: float = math.nan
    low_abs: float = math.nan
    high_abs: float = math.nan
    further_launches: int | None = None
    bimodal: bool = False
    duet: bool = False


def compare(
    baseline: pd.DataFrame,
    candidate: pd.DataFrame,
    metrics: Sequence[Metric],
    *,
    stack: str,
    same_run: bool,
    margin: float = MARGIN,
    confidence: float = CONFIDENCE,
    equivalence_level: float = EQUIVALENCE_LEVEL,
    client: ClientError = NO_CLIENT_ERROR,
    duet: bool = False,
) -> tuple[Cell, ...]:
    """Compare two stacks.

    Args:
        baseline, candidate: rows of `launch_means`, one stack each.
        metrics: what to compare; one that neither side knows is left out, unless it is a percentile, whose
            sample may be too small.
        stack: name of the candidate.
        same_run: both come from one run, so equal block numbers mean equal blocks.
        margin: largest change (fraction) that still counts as none.
        confidence: of all cells together.
        equivalence_level: of each of the two one-sided tests of equivalence.
        client: what the client's own error lets anybody see.
        duet: the two launches of a block served at the same time: the rows are those of `stats.duet`.

    Returns:
        One cell for each context length and metric that at least one side measured.
    """
    contexts = sorted(set(baseline["context_tokens"]) | set(candidate["context_tokens"]))
    known = [
        m for m in metrics if m.fewest or baseline[m.name].notna().any() or candidate[m.name].notna().any()
    ]
    measured = []
    for context in contexts:
        first = baseline[baseline["context_tokens"] == context]
        second = candidate[candidate["context_tokens"] == context]
        measured += [_measured(first, second, m, int(context), same_run, client, duet) for m in known]
    alpha = 1 - confidence
    told = [one for one in measured if one.change.known]
    correlated = _correlation(told)
    freedom = min((one.change.freedom for one in told), default=1.0)
    each = family.level(alpha, len(told), correlated, freedom)
    found = family.rejected([one.p for one in told], [one.change.freedom for one in told], alpha, correlated)
    changed = {id(one) for one, yes in zip(told, found, strict=True) if yes}
    rules = Rules(margin, each, same_run, equivalence_level)
    cells = (_cell(one, stack, rules, id(one) in changed) for one in measured)
    return tuple(replace(cell, duet=duet and cell.paired) for cell in cells)


def _measured(
    baseline: pd.DataFrame,
    candidate: pd.DataFrame,
    metric: Metric,
    context: int,
    same_run: bool,
    client: ClientError,
    duet: bool,
) -> Measured:
    first, second = _values(baseline, metric), _values(candidate, metric)
    common = first.index.intersection(second.index) if same_run else first.index[:0]
    fewest = estimate.FEWEST_DUETS if duet else estimate.FEWEST_PAIRS
    if len(common) and (duet or len(common) >= fewest):  # a launch whose partner failed is left out
        first, second = first.loc[common], second.loc[common]
    blocks = common.tolist() if len(common) == len(first) == len(second) else None
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(first.to_numpy()), np.log(second.to_numpy())
    if not all(np.isfinite(side).all() for side in logs):  # a metric that is 0 has no ratio
        change = Estimate(math.nan, math.nan, math.nan, 0, False)
        return Measured(context, metric, first, second, change, None, 0.0)
    change = estimate.of_launches(*logs, blocks, fewest_pairs=fewest)
    gap_ms = float(baseline["itl_ms"].mean()) if "itl_ms" in baseline else math.nan
    floor = client.floor(metric.name, float(first.mean()), gap_ms)
    return Measured(context, metric, first, second, change, modes.detect(*logs), floor)


def _values(side: pd.DataFrame, metric: Metric) -> pd.Series[float]:
    """Launch values by block; NaN and infinite ones are left out."""
    values = side.set_index("block")[metric.name].astype(float).sort_index()
    return values[np.isfinite(values)]


def _correlation(measured: Sequence[Measured]) -> float:
    """Of the cells' launches; 0 (cells are independent) where not all of them come from the same ones."""
    if len(measured) < 2:
        return 0.0
    first = measured[0]
    for one in measured[1:]:
        alike = one.first.index.equals(first.first.index) and one.second.index.equals(first.second.index)
        if not alike or one.change.paired != first.change.paired:
            return 0.0
    rows = np.column_stack([one.residuals() for one in measured])
    return family.correlation(rows, len(rows) - (1 if first.change.paired else 2))


def _cell(seen: Measured, stack: str, rules: Rules, changed: bool) -> Cell:
    spread = seen.judged.interval(rules.level)
    low, high = spread.low, spread.high
    # A cell that was told from no change only in its order among others: its interval ends at no change.
    if changed and seen.modes is None and low < 0.0 < high:
        low, high = (0.0, high) if spread.mean > 0 else (low, 0.0)
    change, low, high = (fraction(value) for value in (spread.mean, low, high))
    verdict, reason, number = judge(seen, rules, changed)
    base = float(seen.first.mean())
    return Cell(
        stack,
        seen.context_tokens,
        seen.metric.name,
        seen.metric.unit,
        base,
        float(seen.second.mean()),
        change,
        low,
        high,
        seen.change.launches,
        seen.change.paired,
        verdict,
        reason,
        change * base,
        low * base,
        high * base,
        number,
        seen.modes is not None,
    )


def refused(cells: Sequence[Cell], table: str, reason: str) -> tuple[Cell, ...]:
    """The same cells with all metrics of a table judged invalid: what was compared isn't one thing."""
    return tuple(
        replace(cell, verdict=Verdict.INVALID, reason=reason) if METRICS[cell.metric].table == table else cell
        for cell in cells
    )
