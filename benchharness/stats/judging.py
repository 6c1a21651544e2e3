"""What to call one cell: regressed, improved, equivalent, undecided, or nothing that may be judged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchharness.metrics import Direction, Metric
from benchharness.stats import further
from benchharness.stats.estimate import Estimate
from benchharness.stats.modes import Modes

EQUIVALENCE_LEVEL = 0.05
"""Level of each of the two one-sided tests. It is not shared out over cells: all of them must pass for a
comparison to pass, which needs no correction (an intersection-union test)."""


class Verdict(StrEnum):
    """What a comparison answers; `invalid` where nothing may be judged."""

    REGRESSED = "regressed"
    IMPROVED = "improved"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"
    INVALID = "invalid"


@dataclass(frozen=True)
class Rules:
    """What a comparison is judged by.

    Attributes:
        margin: largest change (fraction) that still counts as none.
        level: two-sided, of this cell.
        same_run: launches to come share blocks.
        equivalence_level: of each of the two one-sided tests of equivalence.
    """

    margin: float
    level: float
    same_run: bool
    equivalence_level: float = EQUIVALENCE_LEVEL


@dataclass(frozen=True)
class Measured:
    """Both sides of one cell, before it is judged.

    Attributes:
        context_tokens, metric: the cell.
        first, second: launch values of baseline and candidate, by block.
        change: of their logs.
        modes: where launches fall into two clusters.
        floor: smallest change that can be told from the client's own error, as a fraction.
    """

    context_tokens: int
    metric: Metric
    first: pd.Series[float]
    second: pd.Series[float]
    change: Estimate
    modes: Modes | None
    floor: float

    @property
    def judged(self) -> Estimate:
        """What is judged: the change, or that within a mode."""
        return self.change if self.modes is None else self.modes.shift

    @property
    def p(self) -> float:
        """How often nothing would look like this by chance."""
        return self.change.p if self.modes is None else self.modes.p_any

    def residuals(self) -> NDArray[np.float64]:
        """What launches (or pairs of them) differ by from their mean, in order."""
        logs = np.log(self.first.to_numpy()), np.log(self.second.to_numpy())
        parts = (logs[1] - logs[0],) if self.change.paired else logs
        return np.concatenate([part - part.mean() for part in parts])


def fraction(value: float) -> float:
    """A difference of logs as a fraction of the baseline."""
    try:
        return math.expm1(value)
    except OverflowError:
        return math.inf


Answer = tuple[Verdict, str, int | None]


def judge(seen: Measured, rules: Rules, changed: bool) -> Answer:
    """Verdict, reason, and launches that would decide."""
    impossible = _impossible(seen)
    if impossible:
        return (*impossible, None)
    if seen.modes is not None:
        return _judge_modes(seen, seen.modes, rules, changed)
    ends = seen.change.interval(2 * rules.equivalence_level)
    within = -rules.margin <= fraction(ends.low) and fraction(ends.high) <= rules.margin
    if within and seen.floor <= rules.margin:
        return Verdict.EQUIVALENT, "", None
    if within or (changed and abs(fraction(seen.change.mean)) < seen.floor):
        return Verdict.UNDECIDED, f"smaller than the client's own error ({seen.floor:.2%})", None
    number = _further(seen, rules)
    if not changed:
        return Verdict.UNDECIDED, further.sentence(number), number
    if seen.metric.direction == Direction.NEITHER:
        return Verdict.UNDECIDED, "changed, but neither way is better", None
    return _named(seen.metric, seen.change.mean), "", None


def _impossible(seen: Measured) -> tuple[Verdict, str] | None:
    """Why a cell can't be judged at all."""
    if seen.first.empty or seen.second.empty:
        side = "baseline" if seen.first.empty else "candidate"
        if seen.metric.fewest:
            return (
                Verdict.INVALID,
                f"no launch of the {side} has the {seen.metric.fewest} observations it takes",
            )
        return Verdict.INVALID, f"no valid {side} value"
    if math.isnan(seen.change.mean):
        return Verdict.INVALID, "a launch value of 0 or less has no ratio"
    if seen.change.launches < 2:
        why = "one launch can't tell how much launches differ, so the luck of a start may be all of this"
        return Verdict.UNDECIDED, f"{why}; make two more a side"
    if not seen.change.known:
        return Verdict.UNDECIDED, "two launches that agree exactly may do so by chance: a third would tell"
    return None


def _judge_modes(seen: Measured, found: Modes, rules: Rules, changed: bool) -> Answer:
    """A bimodal cell: judged by how often the slow mode is drawn, and by the change within a mode."""
    (a, m), (b, n) = found.drawn
    if seen.metric.direction == Direction.HIGHER:
        a, b = m - a, n - b
    word = "upper" if seen.metric.direction == Direction.NEITHER else "slow"
    low, high = (f"{value:,.{seen.metric.decimals}f}" for value in found.levels)
    told = (
        f"bimodal: launches start at {low} or at {high} {seen.metric.unit}; the {word} mode was drawn in "
        f"{a} of {m} baseline and {b} of {n} candidate launches"
    )
    if changed and seen.metric.direction != Direction.NEITHER:
        if found.p <= found.shift.p:
            verdict = Verdict.REGRESSED if b / n > a / m else Verdict.IMPROVED
            return verdict, f"{told}: more than chance", None
        if abs(fraction(found.shift.mean)) >= max(seen.floor, rules.margin):
            return _named(seen.metric, found.shift.mean), f"{told}; both modes moved", None
    number = further.to_tell_shares(a / m, b / n, min(m, n), rules.level)
    return Verdict.UNDECIDED, f"{told}: a mean over both says nothing", number


def _named(metric: Metric, change: float) -> Verdict:
    worse = change > 0 if metric.direction == Direction.LOWER else change < 0
    return Verdict.REGRESSED if worse else Verdict.IMPROVED


def _further(seen: Measured, rules: Rules) -> int | None:
    tellable = rules.margin > 0 and seen.floor <= rules.margin
    return further.launches(
        seen.change,
        level=rules.level,
        equivalence_level=rules.equivalence_level,
        margin=math.log1p(rules.margin) if tellable else None,
        changes=seen.metric.direction != Direction.NEITHER and abs(seen.change.mean) >= seen.floor,
        pairs=rules.same_run,
    )
