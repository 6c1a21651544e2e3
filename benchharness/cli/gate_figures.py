"""What a gate judges by: figures of a run with their intervals, and changes against a baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchharness.cli.stack_name import Side, both
from benchharness.errors import HarnessError
from benchharness.gate import Cell, Seen
from benchharness.metrics import METRICS, Metric
from benchharness.records import Stack
from benchharness.records.bound import Bound
from benchharness.stats import campaigns, compare, interval
from benchharness.stats.client_error import ClientError
from benchharness.stats.launch_means import launch_means
from benchharness.store import StoredRun, open_run, runs


def metrics_of(bounds: Sequence[Bound], *, relative: bool) -> list[Metric]:
    """The metrics that bounds of that kind name, each once."""
    names = dict.fromkeys(bound.metric for bound in bounds if bound.limit.relative == relative)
    return [METRICS[name] for name in names]


def values(stored: StoredRun, metrics: Sequence[Metric], confidence: float) -> dict[Cell, Seen]:
    """Each metric of each cell with its interval over launches, at that confidence each."""
    means = launch_means(stored.connect(), metrics) if metrics else pd.DataFrame()
    found: dict[Cell, Seen] = {}
    for _, rows in means.groupby(["stack", "context_tokens"]) if len(means) else ():
        stack, context = str(rows["stack"].iloc[0]), int(rows["context_tokens"].iloc[0])
        for metric in metrics:
            found[stack, context, metric.name] = _seen(rows[metric.name].dropna().tolist(), confidence)
    return found


def _seen(numbers: list[float], confidence: float) -> Seen:
    """Mean and interval over launches, on the log scale where all are above 0."""
    if not numbers:
        return Seen(math.nan, math.nan, math.nan, 0, "no launch has a valid figure for it")
    mean = float(np.mean(numbers))
    if min(numbers) > 0:
        spread = interval.of_mean([math.log(number) for number in numbers], confidence)
        low, high = (_exp(value) for value in (spread.low, spread.high))
    else:
        spread = interval.of_mean(numbers, confidence)
        low, high = spread.low, spread.high
    few = len(numbers) == 1
    reason = "one launch can't tell how much launches differ: make more (measure.launches)" if few else ""
    return Seen(mean, low, high, len(numbers), reason)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def changes(
    candidate: StoredRun,
    pairs: Mapping[str, Side],
    bounds: Sequence[Bound],
    confidence: float,
    results: Path,
) -> dict[Cell, Seen]:
    """The change against a baseline of each metric of each cell that a bound holds a change of.

    Args:
        candidate: the run.
        pairs: its stacks -> what each is held against.
        bounds: which ones; absolute ones among them are passed over.
        confidence: of one decision; a stack's share of doubt is that of all its decisions.
        results: folder of stored runs, from which the spread between campaigns is taken.
    """
    contexts = [workload.context_tokens for workload in candidate.run.plan.workloads]
    found: dict[Cell, Seen] = {}
    for stack, baseline in pairs.items():
        held = [
            (bound, context)
            for bound in bounds
            for context in contexts
            if bound.limit.relative and bound.covers(stack, context)
        ]
        if not held:
            continue
        metrics = metrics_of([bound for bound, _ in held], relative=True)
        whole = 1 - (1 - confidence) * len(held)
        side = Side(candidate, stack)
        same_run = baseline.stored.path.resolve() == candidate.path.resolve()
        first, second, duet = both(baseline, side, metrics)
        first, second = (one[one["context_tokens"].isin({c for _, c in held})] for one in (first, second))
        cells = compare.compare(
            first,
            second,
            metrics,
            stack=stack,
            same_run=same_run,
            confidence=whole,
            duet=duet,
            client=ClientError.of(
                [baseline.stored.run.client, candidate.run.client],
                client_cycles=baseline.stored.client_cycles or candidate.client_cycles,
            ),
        )
        for cell in cells:
            seen = Seen(cell.change, cell.low, cell.high, cell.launches, cell.reason)
            if not same_run:
                others = [one.path for one in runs(results) if one.path.resolve() != candidate.path.resolve()]
                seen = _between_campaigns(seen, cell, baseline, confidence, others)
            found[stack, cell.context_tokens, cell.metric] = seen
    return found


def _between_campaigns(
    seen: Seen, cell: compare.Cell, baseline: Side, confidence: float, others: Sequence[Path]
) -> Seen:
    """The interval widened by the spread between campaigns; without ends where none is known."""
    spread = campaigns.spread(_campaign_means(baseline, cell, others))
    if spread is None:
        reason = (
            f"fewer than {campaigns.FEWEST} runs of the baseline's stack are stored, so nothing tells how "
            "much one campaign differs from the next: use --relaunch"
        )
        return replace(seen, low=-math.inf, high=math.inf, reason=reason)
    reach = spread.reach(confidence)
    if not (math.isfinite(seen.low) and math.isfinite(seen.high)):
        return seen
    middle = math.log1p(seen.value)
    within = max(math.log1p(seen.high) - middle, middle - math.log1p(seen.low))
    whole = math.hypot(reach, within)
    return replace(seen, low=math.expm1(middle - whole), high=math.expm1(middle + whole))


def _campaign_means(baseline: Side, cell: compare.Cell, others: Sequence[Path]) -> list[float]:
    """The metric's mean in every run, but for the judged one, of the same stack, machine and work."""
    found: list[float] = []
    for path in others:
        try:
            stored = baseline.stored if path == baseline.stored.path else open_run(path)
            found += _means_of_same(stored, baseline, cell)
        except HarnessError:  # what is wrong with another run is no matter of this gate
            continue
    return found


def _means_of_same(stored: StoredRun, baseline: Side, cell: compare.Cell) -> list[float]:
    """The metric's mean over each stack of a run that is the baseline's, measured alike; often none."""
    if Side(stored, baseline.stack).conditions(baseline) or stored.run.plan.workloads != (
        baseline.stored.run.plan.workloads
    ):
        return []
    wanted = _identity(baseline.stored.run.plan.stack(baseline.stack))
    found = []
    for stack in stored.run.plan.stacks:
        if _identity(stack) == wanted:
            means = Side(stored, stack.name).means([METRICS[cell.metric]])
            rows = means[means["context_tokens"] == cell.context_tokens]
            found.append(float(rows[cell.metric].mean()))
    return found


def _identity(stack: Stack) -> Stack:
    return replace(stack, name="")
