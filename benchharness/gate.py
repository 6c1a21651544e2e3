"""Does a run keep its bounds? Every bound against every cell that it covers; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from benchharness.records.bound import Bound, Thresholds, Undecided


class Outcome(StrEnum):
    """What became of one bound at one cell, or of the whole gate."""

    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    INVALID = "invalid"


@dataclass(frozen=True)
class Seen:
    """What a run says of one metric at one cell, or how it changed against a baseline.

    Attributes:
        value, low, high: with the interval over launches; in the metric's unit, or as fractions.
        launches: that it stands on.
        reason: one line where the interval needs one.
    """

    value: float
    low: float
    high: float
    launches: int
    reason: str = ""


Cell = tuple[str, int, str]
"""Stack, context length, metric."""


@dataclass(frozen=True)
class GateFinding:
    """One bound at one cell.

    Attributes:
        bound: what was demanded.
        stack, context_tokens: the cell.
        outcome: see `Outcome`.
        seen: what was measured; None where nothing was.
        reason: one line for people.
    """

    bound: Bound
    stack: str
    context_tokens: int
    outcome: Outcome
    seen: Seen | None
    reason: str = ""

    @property
    def fails(self) -> bool:
        """Whether it keeps the gate from passing, validity aside."""
        undecided = self.outcome == Outcome.UNDECIDED and self.bound.undecided == Undecided.FAIL
        return undecided or self.outcome == Outcome.FAILED


def judge(
    thresholds: Thresholds,
    cells: Iterable[tuple[str, int]],
    values: Mapping[Cell, Seen],
    changes: Mapping[Cell, Seen],
) -> tuple[GateFinding, ...]:
    """Hold every bound against every cell that it covers.

    Args:
        thresholds: the demands.
        cells: stacks and context lengths of the run.
        values: of each cell and metric, for absolute bounds.
        changes: against the baseline, for relative ones.
    """
    known = tuple(cells)
    return tuple(
        _held(bound, stack, context, changes if bound.limit.relative else values)
        for bound in thresholds.bounds
        for stack, context in known
        if bound.covers(stack, context)
    )


def _held(bound: Bound, stack: str, context: int, figures: Mapping[Cell, Seen]) -> GateFinding:
    seen = figures.get((stack, context, bound.metric))
    if seen is None or not math.isfinite(seen.value):
        why = seen.reason if seen else ""
        return GateFinding(
            bound, stack, context, Outcome.INVALID, seen, why or "the run has no valid figure for it"
        )
    outcome = _outcome(bound, seen)
    reason = "" if outcome != Outcome.UNDECIDED else seen.reason or "the interval reaches over the bound"
    return GateFinding(bound, stack, context, outcome, seen, reason)


def _outcome(bound: Bound, seen: Seen) -> Outcome:
    """A bound is kept or broken when the whole interval lies on one side of it."""
    kept = seen.high <= bound.value if bound.limit.from_above else seen.low >= bound.value
    broken = seen.low > bound.value if bound.limit.from_above else seen.high < bound.value
    if kept:
        return Outcome.PASSED
    return Outcome.FAILED if broken else Outcome.UNDECIDED


def verdict(findings: Iterable[GateFinding], thresholds: Thresholds, *, valid: bool) -> Outcome:
    """Of the whole gate, in the order invalid, failed, undecided, passed.

    Args:
        findings: of `judge`.
        thresholds: say whether the whole run must be valid.
        valid: whether it is.
    """
    findings = tuple(findings)
    outcomes = {finding.outcome for finding in findings}
    if thresholds.require_valid and (not valid or Outcome.INVALID in outcomes):
        return Outcome.INVALID
    if outcomes <= {Outcome.INVALID}:  # nothing was judged, so nothing can have passed
        return Outcome.INVALID
    if Outcome.FAILED in outcomes:
        return Outcome.FAILED
    return Outcome.UNDECIDED if any(one.fails for one in findings) else Outcome.PASSED


EXIT_STATUS = {Outcome.PASSED: 0, Outcome.FAILED: 1, Outcome.UNDECIDED: 3, Outcome.INVALID: 4}
