"""What the launches so far say: the chance of every set of factors, by Bayes' rule.

A launch of a combination is at the bad level where the whole culprit is taken, else at the good one; of a
culprit in several parts it may lie in between: `value = level + shift * share + noise`. Level, shift and
deviation are unknown and integrated out: the level over all values, the deviation with an inverse-gamma
prior, the shift on a grid. Launches of one block share an offset whose size is unknown, too. This is the
linear model with a normal-inverse-gamma prior (Gelman et al., Bayesian Data Analysis, 3rd ed., section 14.8).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from benchharness.bisect.factors.hypotheses import (
    LEVELS,
    Combination,
    Floats,
    Hypotheses,
    Hypothesis,
    flags,
    up_to,
)
from benchharness.bisect.factors.prior import Prior, log_chances, log_sum
from benchharness.errors import UsageError

BLOCK_RATIOS = (0.0, 0.5, 2.0)
"""Variance of what a block's launches share, over the variance of a launch; equally likely beforehand."""
INTERVAL = 0.95
NEGLIGIBLE = 1e-5
"""Chance below which a row is left out of what is expected of a launch."""
NO_CONTRAST = 1e-9
"""Of a set that acts alike in all launches, but for rounding."""
MIN_FITTED = 3
"""Launches from which on a shift has a standard error."""


@dataclass(frozen=True)
class Tried:
    """One launch.

    Attributes:
        combination: factors that had the bad stack's value.
        value: natural logarithm of the launch's value, turned so that more is worse.
        block: launches of one block stood next to each other in time; None stands alone.
    """

    combination: Combination
    value: float
    block: int | None = None


@dataclass(frozen=True)
class Shift:
    """How much worse it gets, on the log scale (`exp(x) - 1` is a share), with a 95 % interval."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Weighed:
    """The posterior, with what it predicts of the next launch.

    Attributes:
        sets: what is weighed.
        chance: of each row.
        shifts: the grid that was summed over.
        shift_chance: rows x shifts, given the row.
        mean, spread: of a launch that shows each of `LEVELS` of the shift, unknown parameters included;
            rows x levels. Of rows that are next to impossible nothing is worked out.
        deviation: of a launch about its level.
    """

    sets: Hypotheses
    chance: Floats
    shifts: Floats
    shift_chance: Floats
    mean: Floats
    spread: Floats
    deviation: float


@dataclass(frozen=True)
class Belief:
    """What is believed after some launches.

    Attributes:
        weighed: the posterior.
        best: the likeliest part of a culprit: it acts as a whole, whatever else may; empty if nothing does.
        confidence: its probability.
        shift: what `best` makes by itself.
        deviation: of a launch's value about its level, on the log scale.
        marginal: of each factor, the chance that it belongs to a culprit.
        parts: of each set, the chance that it acts as a whole, whatever else does.
        prior: what was believed beforehand.
    """

    weighed: Weighed
    best: Combination
    confidence: float
    shift: Shift
    deviation: float
    marginal: tuple[float, ...]
    parts: Mapping[Combination, float]
    prior: Prior

    @cached_property
    def probability(self) -> Mapping[Hypothesis, float]:
        """Of everything that may be to blame, whatever the shares of its parts. They sum to 1."""
        merged: dict[Hypothesis, float] = {}
        for row, chance in zip(self.weighed.sets.rows, self.weighed.chance, strict=True):
            merged[row] = merged.get(row, 0.0) + float(chance)
        return merged

    @property
    def left(self) -> tuple[Combination, ...]:
        """`best`, and then the sets that hold 95 % of the chance together, likeliest first."""
        by_set: dict[Combination, float] = {self.best: 1.0}
        for row, chance in self.probability.items():
            by_set[row.factors] = by_set.get(row.factors, 0.0) + chance
        held, left = -1.0, list[Combination]()
        for one in sorted(by_set, key=lambda one: -by_set[one]):
            left.append(one)
            held += by_set[one]
            if held >= INTERVAL:
                break
        return tuple(left)


def believe(factors: int, tried: Sequence[Tried], prior: Prior | None = None) -> Belief:
    """Weigh every set of factors by the launches so far.

    Args:
        factors: how many there are; they are numbered from 0.
        tried: launches in any order; unbuildable combinations have no value and are left out.
        prior: what was known before.

    Raises:
        UsageError: values that are no numbers, factors that there aren't, too many hypotheses.
    """
    prior = prior or Prior()
    found = weigh(factors, tuple(tried), prior)
    by_part = np.minimum(found.sets.of_each_part(found.chance), 1.0)
    at = int(by_part.argmax())
    nothing = bool(found.chance[-1] > by_part[at])
    best = frozenset[int]() if nothing else found.sets.parts[at]
    return Belief(
        weighed=found,
        best=best,
        confidence=float(found.chance[-1] if nothing else by_part[at]),
        shift=_of_best(found, best),
        deviation=found.deviation,
        marginal=tuple(map(float, np.minimum(found.chance @ found.sets.members, 1.0))),
        parts=dict(zip(found.sets.parts, map(float, by_part), strict=True)),
        prior=prior,
    )


def _of_best(found: Weighed, best: Combination) -> Shift:
    """What it makes by itself, by the likeliest row in which it does."""
    if not best:
        return _shift(found.shifts, found.shift_chance[-1])
    mine = found.sets.held == found.sets.parts.index(best)
    row = int((found.chance * mine.any(axis=1)).argmax())
    share = float(found.sets.shares[row][mine[row]][0])
    whole = _shift(found.shifts, found.shift_chance[row])
    return Shift(whole.middle * share, whole.low * share, whole.high * share)


@lru_cache(maxsize=8)
def weigh(factors: int, tried: tuple[Tried, ...], prior: Prior) -> Weighed:
    """The posterior over sets and shifts, and what it predicts; kept, since two ask for it in turn."""
    values = np.array([one.value for one in tried], dtype=float)
    if not np.isfinite(values).all():
        raise UsageError("a launch's value is not a number", "leave failed launches out")
    sets = up_to(factors, prior.size, prior.several)
    acts = LEVELS[sets.levels(flags([one.combination for one in tried], factors))]
    ratios = BLOCK_RATIOS if _has_blocks(tried) else (0.0,)
    precisions = [_precision(tried, ratio) for ratio in ratios]
    before = log_chances(factors, prior)
    shifts = _grid(values, acts, precisions[0], prior, before)
    fits = [_fit(values, acts, precision, prior, shifts) for precision in precisions]
    logs = np.stack([fit.log_evidence for fit in fits]) + np.log(prior.chance_of(shifts))
    logs = logs + before[:, None]
    joint = np.exp(logs - logs.max())  # ratios x sets x shifts
    joint /= joint.sum()
    each = joint.sum(axis=(0, 2))
    share = joint / np.maximum(each, 1e-300)[:, None]
    level = np.stack([fit.level for fit in fits])
    variance = np.stack([fit.variance for fit in fits])
    mean, spread = np.zeros((len(before), len(LEVELS))), np.ones((len(before), len(LEVELS)))
    kept = each > NEGLIGIBLE
    level, variance, given = level[:, kept], variance[:, kept], share[:, kept]
    for at, shown in enumerate(LEVELS):
        mean[kept, at], spread[kept, at] = _moments(level + shown * shifts, variance, given)
    noise = np.stack([fit.noise for fit in fits])
    deviation = math.sqrt(float((joint * noise).sum()))
    return Weighed(sets, np.minimum(each, 1.0), shifts, share.sum(axis=0), mean, spread, deviation)


def _grid(values: Floats, acts: Floats, precision: Floats, prior: Prior, before: Floats) -> Floats:
    """Shifts to sum over: a coarse grid, and a close one about what likely sets fit."""
    shifts = prior.shifts()
    if len(values) < MIN_FITTED or prior.shift is not None:
        return shifts
    fit = _fit(values, acts, precision, prior, shifts)
    likely = log_sum(fit.log_evidence + np.log(prior.chance_of(shifts))) + before
    fitted = fit.own > NO_CONTRAST
    if not fitted.any():
        return shifts
    chance = np.exp(likely[fitted] - log_sum(likely[fitted]))
    estimates = fit.cross[fitted] / fit.own[fitted]
    about = float(chance @ estimates)
    nearest = int(np.abs(shifts - about).argmin())
    variance = fit.noise[fitted, nearest] / fit.own[fitted] + (estimates - about) ** 2
    return prior.shifts(about, math.sqrt(float(chance @ variance)))


@dataclass(frozen=True)
class _Fit:
    """One size of block offsets: sets x shifts, but for two arrays of each set.

    Attributes:
        log_evidence: of the values.
        level, variance: of a launch in which the set doesn't act.
        noise: squared deviation of a launch.
        cross, own: the set's shift is estimated as `cross / own`, with the variance `noise / own`.
    """

    log_evidence: Floats
    level: Floats
    variance: Floats
    noise: Floats
    cross: Floats
    own: Floats


def _fit(values: Floats, acts: Floats, precision: Floats, prior: Prior, shifts: Floats) -> _Fit:
    """The evidence of each set and shift, with level and deviation integrated out."""
    one = np.ones(len(values))
    weight = float(one @ precision @ one)
    if prior.level is not None:
        centred, count = precision, len(values)
        values = values - prior.level
    else:
        centred = precision - np.outer(precision @ one, precision @ one) / max(weight, 1e-300)
        count = max(len(values) - 1, 0)
    whole = float(values @ centred @ values)
    cross = acts.T @ centred @ values
    own = np.einsum("is,ij,js->s", acts, centred, acts)
    rest = np.maximum(whole - 2 * cross[:, None] * shifts + own[:, None] * shifts**2, 0.0)
    log_determinant = np.linalg.slogdet(precision)[1] if len(values) else 0.0
    if prior.level is None and len(values):
        log_determinant -= math.log(weight)
    if math.isinf(prior.deviation_launches):
        noise = np.full_like(rest, prior.deviation**2)
        log_evidence = -rest / (2 * prior.deviation**2)
    else:
        shape = (prior.deviation_launches + count) / 2
        scale = (prior.deviation_launches * prior.deviation**2 + rest) / 2
        log_evidence = -shape * np.log(scale)
        noise = scale / max(shape - 1, 0.5)
    level, uncertain = _levels(values, acts, precision, weight, prior, shifts)
    return _Fit(0.5 * log_determinant + log_evidence, level, noise * (1 + uncertain), noise, cross, own)


def _levels(
    values: Floats, acts: Floats, precision: Floats, weight: float, prior: Prior, shifts: Floats
) -> tuple[Floats, float]:
    """The good level for each set and shift, and its variance in variances of a launch."""
    shape = (acts.shape[1], len(shifts))
    if prior.level is not None:
        return np.full(shape, prior.level), 0.0
    if not len(values):
        return np.zeros(shape), 1e6
    share = precision.sum(axis=0) / weight
    return float(share @ values) - (share @ acts)[:, None] * shifts, 1 / weight


def _moments(level: Floats, variance: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of a mixture over ratios and shifts, for each set."""
    mean = (share * level).sum(axis=(0, 2))
    spread = (share * (variance + (level - mean[:, None]) ** 2)).sum(axis=(0, 2))
    return mean, np.sqrt(np.maximum(spread, 1e-30))


def _has_blocks(tried: Sequence[Tried]) -> bool:
    """Whether offsets of blocks can be told from launches: some launches share one, and there are several."""
    blocks = [one.block for one in tried if one.block is not None]
    return 1 < len(set(blocks)) < len(blocks)


def _precision(tried: Sequence[Tried], ratio: float) -> Floats:
    """Inverse of the covariance of the launches, in variances of a launch."""
    numbers = np.array([np.nan if one.block is None else one.block for one in tried], dtype=float)
    return np.linalg.inv(np.eye(len(tried)) + ratio * (numbers[:, None] == numbers))


def _shift(shifts: Floats, chance: Floats) -> Shift:
    """Median and interval of a distribution on the grid, interpolated between its points."""
    if len(shifts) == 1:
        return Shift(*[float(shifts[0])] * 3)
    total = np.cumsum(chance) - chance / 2
    outside = (1 - INTERVAL) / 2
    logs = np.interp([0.5, outside, 1 - outside], total / chance.sum(), np.log(shifts))
    return Shift(*map(float, np.exp(logs)))
