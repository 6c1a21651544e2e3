"""Where the change may lie, after what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from benchharness.bisect.search.likelihood import Fits, fit
from benchharness.bisect.search.problem import Axis, Floats, Ints, Observation, Prior
from benchharness.errors import UsageError


@dataclass(frozen=True)
class Belief:
    """The posterior of one campaign.

    Attributes:
        probability: for each of `points - 1` positions; entry i is P(the change lies between i and i + 1).
        gaps: the same for the gaps between neighbouring usable points, which is all that can be told apart.
        usable: the usable points, in order; gap j lies between usable[j] and usable[j + 1].
        shift, low, high: bad level less good level, and its 95 % interval.
        good, bad: levels.
        between_sd, within_sd: deviations of launches and of repeats.
        drift_sd: deviation of what launches of one block share.
        best: the first bad point, in the most likely gap.
        confidence: how likely that gap is.
        fits: what follows for each split of the points that were measured; None before the first one.
    """

    probability: Floats
    gaps: Floats
    usable: Ints
    shift: float
    low: float
    high: float
    good: float
    bad: float
    between_sd: float
    within_sd: float
    drift_sd: float
    best: int
    confidence: float
    fits: Fits | None

    def range_(self, confidence: float) -> tuple[int, int]:
        """(last good, first bad): the shortest run of points that holds this much probability."""
        running = np.concatenate([[0.0], self.gaps.cumsum()])
        # For each first gap, the first end that holds enough.
        ends = np.searchsorted(running, running[:-1] + confidence * (1 - 1e-12))
        inside = np.flatnonzero(ends < len(running))
        if not inside.size:
            return int(self.usable[0]), int(self.usable[-1])
        lengths = self.usable[ends[inside]] - self.usable[inside]
        held = running[ends[inside]] - running[inside]
        first = inside[np.lexsort((-held, lengths))[0]]
        return int(self.usable[first]), int(self.usable[ends[first]])


def believe(axis: Axis, observations: Sequence[Observation], prior: Prior | None = None) -> Belief:
    """The posterior after these observations.

    Args:
        axis: the points.
        observations: launches, in any order.
        prior: what is known before; None for nothing.

    Raises:
        UsageError: an observation of a point that is not on the axis or can't be used.
    """
    prior = prior or Prior()
    for one in observations:
        if not 0 <= one.point < axis.points or one.point in axis.unusable:
            raise UsageError(f"point {one.point} was measured but is no usable point of the axis")
    usable = axis.usable()
    log_prior = prior.log_positions(axis)
    fits = fit(observations, prior) if observations else None
    weights = log_prior
    if fits is not None:
        split = np.zeros(axis.points, dtype=np.int64)
        split[fits.points] = 1
        weights = log_prior + fits.log_marginal[split.cumsum()[:-1]]
    probability = np.exp(weights - weights.max())
    probability /= probability.sum()
    gaps = np.add.reduceat(probability, usable[:-1])
    return _told(probability, gaps, usable, fits)


def _told(probability: Floats, gaps: Floats, usable: Ints, fits: Fits | None) -> Belief:
    best = int(gaps.argmax())
    place, sure = int(usable[best + 1]), float(gaps[best])
    if fits is None:
        nan = math.nan
        return Belief(probability, gaps, usable, nan, nan, nan, nan, nan, nan, nan, nan, place, sure, None)
    weights = split_masses(fits.points, usable, gaps)
    shifts = fits.bad - fits.good
    shift = float(weights @ shifts)
    spread = float(np.sqrt(weights @ (fits.shift_variance + (shifts - shift) ** 2)))
    reach = spread * float(stdtrit(max(fits.freedom, 1.0), 0.975))
    deviations = [float(np.sqrt(weights @ one)) for one in (fits.between, fits.within, fits.drift)]
    good, bad = float(weights @ fits.good), float(weights @ fits.bad)
    return Belief(
        probability=probability,
        gaps=gaps,
        usable=usable,
        shift=shift,
        low=shift - reach,
        high=shift + reach,
        good=good,
        bad=bad,
        between_sd=deviations[0],
        within_sd=deviations[1],
        drift_sd=deviations[2],
        best=place,
        confidence=sure,
        fits=fits,
    )


def split_masses(points: Ints, usable: Ints, gaps: Floats) -> Floats:
    """Probability of each split: in split s the first s of the measured points are good."""
    running = np.concatenate([[0.0], gaps.cumsum()])
    edges = running[np.searchsorted(usable, points)]
    return np.diff(np.concatenate([[0.0], edges, [running[-1]]]))
