"""What a search is given: the axis, what was measured, what measuring costs, and what is known before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchharness.errors import UsageError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KNOWN = 1e5
"""A weight, in degrees of freedom, that counts as known for sure."""


@dataclass(frozen=True)
class Axis:
    """Points in order, 0 the good end and the last one the bad end.

    Attributes:
        points: how many.
        unusable: points that can't be built or measured; they are neither good nor bad.
    """

    points: int
    unusable: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if self.points < 2:
            raise UsageError(f"an axis of {self.points} points has no two ends", "name a good and a bad end")
        for end in (0, self.points - 1):
            if end in self.unusable:
                raise UsageError(f"point {end} is an end of the axis and can't be used", "choose another end")

    def usable(self) -> Ints:
        """The points that can be measured, in order; both ends are among them."""
        if not self.unusable:
            return np.arange(self.points)
        mask = np.ones(self.points, dtype=bool)
        mask[[point for point in self.unusable if 0 <= point < self.points]] = False
        return np.flatnonzero(mask)


@dataclass(frozen=True)
class Observation:
    """One launch at one point.

    Attributes:
        point: of the axis.
        value: mean over the repeats, as the log of a positive metric.
        repeats: measurements in the launch.
        scatter: sum of squared deviations of the repeats about their mean; 0 for one repeat.
        block: launches of one block stand next to each other in time and share the host's drift; blocks are
            numbered in the order of time. Launches that all carry one number are taken to have no drift.
        effective: as how many independent repeats they count; None for all of them.
    """

    point: int
    value: float
    repeats: int = 1
    scatter: float = 0.0
    block: int = 0
    effective: float | None = None

    @property
    def independent(self) -> float:
        """As how many independent repeats those of this launch count."""
        return float(self.repeats) if self.effective is None else min(self.effective, float(self.repeats))


@dataclass(frozen=True)
class Prices:
    """What a measurement costs, in seconds.

    Attributes:
        cold_s: a launch at a point whose environment has yet to be built.
        relaunch_s: a launch at a point whose environment stands.
        repeat_s: one repeat in a launch that runs.
        built: the points whose environment stands.
    """

    cold_s: float
    relaunch_s: float
    repeat_s: float
    built: frozenset[int] = frozenset()

    def launch_s(self, point: int) -> float:
        """Seconds until a launch at a point is ready to be measured."""
        return self.relaunch_s if point in self.built else self.cold_s


@dataclass(frozen=True)
class Prior:
    """What is known before the campaign. A weight is in degrees of freedom; `KNOWN` is for sure.

    Attributes:
        between_sd: deviation of launches of one point, on the log scale, with `between_weight`.
        within_sd: deviation of repeats of one launch, with `within_weight`.
        shift: size of the change, without its sign, with `shift_weight`.
        good: level of the good end, with `good_weight` in launches.
        positions: log-prior over positions, one for each of `axis.points - 1`; None for all alike.
        modes: how likely it is that starts come in modes; not weighed where `between_sd` has a weight of 5 or
            more, since then earlier campaigns have shown how launches spread.
        direction: +1 where the bad end is known to be higher, -1 lower, 0 where it may be either.
    """

    between_sd: float | None = None
    within_sd: float | None = None
    shift: float | None = None
    good: float | None = None
    between_weight: float = 4.0
    within_weight: float = 4.0
    shift_weight: float = 1.0
    good_weight: float = 1.0
    positions: Sequence[float] | None = None
    direction: int = 0
    modes: float = 0.2

    def __post_init__(self) -> None:
        for name in ("between_sd", "within_sd", "shift"):
            given = getattr(self, name)
            if given is not None and not (math.isfinite(given) and given > 0):
                raise UsageError(f"a prior {name} of {given} is no deviation", "give a positive figure")
        if self.direction not in (-1, 0, 1):
            raise UsageError(f"a direction of {self.direction} is none of -1, 0, 1")

    @property
    def knows_levels(self) -> bool:
        """Whether both levels are known well enough that the ends need not be measured."""
        given = self.good is not None and self.shift is not None and self.direction != 0
        return given and min(self.good_weight, self.shift_weight) >= KNOWN

    def log_positions(self, axis: Axis) -> Floats:
        """The log-prior, one for each position."""
        if self.positions is None:
            return np.zeros(axis.points - 1)
        given = np.asarray(self.positions, dtype=float)
        if given.shape != (axis.points - 1,):
            raise UsageError(f"the prior has {given.size} positions, the axis {axis.points - 1}")
        return given


@dataclass(frozen=True)
class Limits:
    """When a campaign must end.

    Attributes:
        budget_s: seconds that it may take; None for any.
        spent_s: seconds that it took.
        launches: launches that it may make.
    """

    budget_s: float | None = None
    spent_s: float = 0.0
    launches: int = 400
