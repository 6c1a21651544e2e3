"""What one more measurement is expected to tell of where the change lies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchharness.bisect.search.belief import Belief, split_masses
from benchharness.bisect.search.likelihood import Fits
from benchharness.bisect.search.problem import Floats, Ints

_STEPS = 96
_REACH = 4.5
"""Values are summed over this many steps, from so many deviations below to so many above all levels."""

_EVERY_POINT = 128
"""Usable points up to which each one is a candidate."""

_PARTS = np.linspace(0, 1, 11)[1:-1]


@dataclass(frozen=True)
class Candidates:
    """Points that might be measured, and how each parts the posterior.

    Attributes:
        points: of the axis.
        split: for each, the split whose gaps it parts; in lower ones it is bad, in higher ones good.
        before: for each, the mass of that split in which it is bad.
        masses: of all splits.
    """

    points: Ints
    split: Ints
    before: Floats
    masses: Floats


def candidates(belief: Belief, fits: Fits) -> Candidates:
    """All usable points of a short axis; of a long one those that part each split well, and the measured."""
    usable = belief.usable
    running = np.concatenate([[0.0], belief.gaps.cumsum()])
    masses = split_masses(fits.points, usable, belief.gaps)
    at = np.arange(len(usable))
    if len(usable) > _EVERY_POINT:
        edges = np.concatenate([[0.0], masses.cumsum()])
        wanted = edges[:-1, None] + masses[:, None] * _PARTS[None, :]
        parting = np.searchsorted(running, wanted[masses > 1e-5].ravel())
        measured = np.searchsorted(usable, fits.points)
        chosen = np.concatenate([parting, measured, measured - 1, measured + 1, [0, len(usable) - 1]])
        at = np.unique(chosen.clip(0, len(usable) - 1))
    split = np.searchsorted(fits.points, usable[at])
    lower = np.concatenate([[0.0], masses.cumsum()])[split]
    return Candidates(usable[at], split, np.clip(running[at] - lower, 0, masses[split]), masses)


def gain(
    chosen: Candidates, good: Floats, bad: Floats, good_variance: Floats, bad_variance: Floats
) -> Floats:
    """Expected information about the change's place, in nats, one for each candidate.

    The mutual information of the place and a value drawn from a normal whose mean and variance depend on the
    split and on whether the candidate is good or bad in it; all arrays but the first have one entry a split.
    """
    keep = np.flatnonzero(chosen.masses > 1e-9)
    levels = np.concatenate([good[keep], bad[keep]])
    sd = np.sqrt(np.concatenate([good_variance[keep], bad_variance[keep]]))
    low, high = (levels - _REACH * sd).min(), (levels + _REACH * sd).max()
    step = (high - low) / _STEPS
    # Levels far apart compared with their deviations are told apart for sure, however wide they are drawn.
    sd = np.maximum(sd, 1.1 * step)
    values = np.linspace(low, high, _STEPS)
    z = (values[None, :] - levels[:, None]) / sd[:, None]
    density = np.exp(-0.5 * z * z) / sd[:, None]
    density /= density.sum(axis=1, keepdims=True)
    own = (density * np.log(density + 1e-300)).sum(axis=1)
    count = len(keep)
    mass = chosen.masses[keep]
    rows = np.concatenate([density, own[:, None]], axis=1)
    good_rows, bad_rows = rows[:count], rows[count:]
    nothing = np.zeros((1, rows.shape[1]))
    bad_below = np.concatenate([nothing, (mass[:, None] * bad_rows).cumsum(axis=0)])
    good_above = np.concatenate([(mass[:, None] * good_rows)[::-1].cumsum(axis=0)[::-1], nothing])
    below = np.searchsorted(keep, chosen.split)
    inside = np.isin(chosen.split, keep)
    at = np.minimum(below, count - 1)
    before = np.where(inside, chosen.before, 0.0)[:, None]
    after = np.where(inside, chosen.masses[chosen.split], 0.0)[:, None] - before
    mixed = bad_below[below] + before * bad_rows[at] + after * good_rows[at]
    mixed += good_above[np.where(inside, below + 1, below)]
    mixture, parts = mixed[:, :-1], mixed[:, -1]
    return np.asarray(np.maximum(parts - (mixture * np.log(mixture + 1e-300)).sum(axis=1), 0.0))
