"""What a campaign answers: the culprit, in which phase, how much, how sure, and what it was not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchharness.bisect.session.deciding import Outcome
from benchharness.bisect.session.effects import Effect
from benchharness.bisect.session.remaining import Rest
from benchharness.bisect.session.share import Share


@dataclass(frozen=True)
class Eliminated:
    """A suspect that it was not, and why."""

    what: str
    evidence: str


@dataclass(frozen=True)
class Swapped:
    """One direction of the swap: what it makes of a stack, as fractions."""

    direction: str
    before: str
    after: str
    change: float
    low: float
    high: float
    proven: bool


@dataclass(frozen=True)
class Culprit:
    """One culprit, or the range that holds it.

    Attributes:
        name: label of the first bad point, or names of the culprit factors; None with a range only.
        reason: what it stands on.
        range_: last good and first bad; of factors the good and the bad stack.
        stacks: of those whose launches tell the size, in the run.
        texts: of these two, where there is more to say of them: date and subject of a commit.
        confidence: probability that it is a culprit, or lies in the range.
        change, low, high: fractions of the good side, by fresh launches; NaN where nothing can be said.
        better: it made the metric better.
        phase: draft, verify, draft-extend, rest, acceptance, prefill, or empty where it can't be told.
        effects: last good against first bad by metric and context.
        contexts: lengths at which the metric changed.
        swaps: both directions.
        share: what it makes by itself of the difference of the ends; None where that can't be told.
        masked: the bad stack is as slow without it: something else is enough as well.
    """

    name: str | None
    reason: str
    range_: tuple[str, str]
    stacks: tuple[str, str]
    texts: tuple[str, str]
    confidence: float
    change: float = math.nan
    low: float = math.nan
    high: float = math.nan
    better: bool = False
    phase: str = ""
    effects: tuple[Effect, ...] = ()
    contexts: tuple[int, ...] = ()
    swaps: tuple[Swapped, ...] = ()
    share: Share | None = None
    masked: bool = False


@dataclass(frozen=True)
class Verdict:
    """The answer of a campaign.

    Attributes:
        outcome, reason: how the campaign ended.
        culprit: label of the first bad point, or names of the culprit factors; None with a range only. Where
            there are several, all that is said of one is said of the first.
        range_: last good and first bad; of factors the good and the bad stack.
        stacks: of those whose launches tell the size, in the run.
        texts: of these two, where there is more to say of them: date and subject of a commit.
        confidence: probability that it is the culprit, or lies in the range.
        metric, unit: what was judged.
        change, low, high: fractions of the good side, by fresh launches; NaN where nothing can be said.
        better: the bad end is the better one: what was found made it faster.
        phase: draft, verify, draft-extend, rest, acceptance, prefill, or empty where it can't be told.
        effects: last good against first bad by metric and context.
        contexts: lengths at which the metric changed.
        declared, effective: what sets the two apart, as declared and as attested.
        swaps: both directions.
        eliminated: suspects that it was not.
        unusable: places that could not be measured, with the reason.
        launches, hours: what it cost.
        warnings: what stands against the answer.
        notes: of the axes and the stacks.
        culprits: all that were found, in this order; empty where none was.
        rest: what they leave of the difference of the ends, where that is surely something.
        every: all culprits were asked for.
        asked: arguments of a command that asks the same again.
    """

    outcome: Outcome
    reason: str
    culprit: str | None
    range_: tuple[str, str]
    stacks: tuple[str, str]
    texts: tuple[str, str]
    confidence: float
    metric: str
    unit: str
    change: float = math.nan
    low: float = math.nan
    high: float = math.nan
    better: bool = False
    phase: str = ""
    effects: tuple[Effect, ...] = ()
    contexts: tuple[int, ...] = ()
    declared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    effective: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    swaps: tuple[Swapped, ...] = ()
    eliminated: tuple[Eliminated, ...] = ()
    unusable: Mapping[str, str] = field(default_factory=dict)
    launches: int = 0
    hours: float = 0.0
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    culprits: tuple[Culprit, ...] = ()
    rest: Rest | None = None
    every: bool = False
    asked: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """There is a culprit; where all were asked for, each of them was named, and nothing is left."""
        named = self.culprit is not None
        if not self.every:
            return named
        unspent = self.outcome is not Outcome.BUDGET
        return named and unspent and self.rest is None and all(one.name for one in self.culprits)
