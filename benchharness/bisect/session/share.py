"""How much of the difference of the ends something explains (pure)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchharness.bisect.session.difference import RESOLUTION
from benchharness.bisect.session.levels import LEAST
from benchharness.bisect.session.observed import Observed
from benchharness.stats.interval import t_quantile


@dataclass(frozen=True)
class Share:
    """A part of the difference of the ends, in logs: 1 is all of it."""

    mean: float
    low: float
    high: float

    @property
    def rest(self) -> Share:
        """What it leaves."""
        return Share(1 - self.mean, 1 - self.high, 1 - self.low)

    @property
    def told(self) -> bool:
        """It is surely not nothing, and worth a word."""
        return abs(self.mean) >= LEAST and (self.low > 0 or self.high < 0)


@dataclass(frozen=True)
class Levels:
    """Launches of all places of a campaign; how much they differ about their place is one figure for all.

    Attributes:
        mean: stack -> mean of its launches.
        count: stack -> launches.
        variance, freedom: of a launch about its stack's mean.
    """

    mean: Mapping[str, float]
    count: Mapping[str, int]
    variance: float
    freedom: int

    @classmethod
    def of(cls, seen: Sequence[Observed]) -> Levels:
        """By all launches that have a value."""
        by_stack: dict[str, list[float]] = {}
        for one in seen:
            if one.value is not None:
                by_stack.setdefault(one.stack, []).append(one.value)
        sides = {stack: np.array(values, dtype=float) for stack, values in by_stack.items()}
        freedom = sum(side.size - 1 for side in sides.values())
        squares = sum(float(((side - side.mean()) ** 2).sum()) for side in sides.values())
        means = {stack: float(side.mean()) for stack, side in sides.items()}
        counts = {stack: side.size for stack, side in sides.items()}
        return cls(means, counts, squares / freedom if freedom else math.inf, freedom)

    def share(
        self, steps: Sequence[tuple[str, str]], whole: tuple[str, str], confidence: float
    ) -> Share | None:
        """What some steps from one stack to another make of the step from the good end to the bad one.

        The interval is Fieller's (1954), of a ratio of means that may share launches. None where a stack was
        not launched, or the ends differ too little for it.
        """
        stacks = sorted({stack for step in (*steps, whole) for stack in step})
        if any(stack not in self.mean for stack in stacks) or self.freedom < 1:
            return None
        means = np.array([self.mean[stack] for stack in stacks])
        variance = self.variance / np.array([self.count[stack] for stack in stacks])
        part, ends = _contrast(steps, stacks), _contrast([whole], stacks)
        top, bottom = float(part @ means), float(ends @ means)
        reach = t_quantile(confidence, self.freedom) ** 2
        of_top, of_both, of_bottom = (
            reach * float(a @ (variance * b)) for a, b in ((part, part), (part, ends), (ends, ends))
        )
        lead = bottom**2 - of_bottom
        if abs(bottom) <= RESOLUTION or lead <= 0:
            return None
        middle = top * bottom - of_both
        spread = math.sqrt(max(middle**2 - lead * (top**2 - of_top), 0.0))
        return Share(top / bottom, (middle - spread) / lead, (middle + spread) / lead)


def _contrast(steps: Sequence[tuple[str, str]], stacks: Sequence[str]) -> NDArray[np.float64]:
    weights = dict.fromkeys(stacks, 0.0)
    for before, after in steps:
        weights[before] -= 1
        weights[after] += 1
    return np.array([weights[stack] for stack in stacks])
