"""Which combination to launch next: the one that is expected to tell most about the culprit set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchharness.bisect.factors.belief import NEGLIGIBLE, Belief, Tried, Weighed, weigh
from benchharness.bisect.factors.hypotheses import (
    LEVELS,
    Combination,
    Flags,
    Floats,
    Levels,
    candidates,
    flags,
    levels_of_candidates,
)

SHORTLIST = 48
"""Combinations whose information is worked out exactly."""
LEAST_BITS = 1e-3
"""Below that a launch tells nothing."""
ENDS = 2
"""Launches of each end before anything else, where levels are unknown."""
POINTS = 96
EXPECTED = 1e-4
"""Chance from which on a row counts when combinations are chosen for a closer look."""
SEED = 7

Indices = NDArray[np.int64]
Unbuildable = Collection[Combination] | Callable[[Combination], bool]
"""Combinations that failed to build, or a function that tells."""


@dataclass(frozen=True)
class Stop:
    """No further launch is asked for.

    Attributes:
        reason: `confident`: one set is likely enough. `no change`: the stacks are equally fast.
            `exhausted`: no combination that can be built tells the sets apart that are left.
        left: the sets that are still possible, likeliest first.
    """

    reason: Literal["confident", "no change", "exhausted"]
    left: tuple[Combination, ...]


def next_combination(
    factors: int,
    tried: Sequence[Tried],
    belief: Belief,
    confidence: float = 0.95,
    unbuildable: Unbuildable = (),
    cost: Callable[[Combination], float] | None = None,
    ends: int = ENDS,
) -> Combination | Stop:
    """The combination of the next launch, or why none is needed.

    Args:
        factors: how many there are.
        tried: launches so far.
        belief: what they say (see `believe`).
        confidence: enough to stop.
        unbuildable: combinations that can't be launched. From failed ones it is learnt which others would
            fail too: whatever takes one factor and leaves another as a failed one did, unless a
            combination that was launched did the same.
        cost: of launching a combination, in any unit; the most information for its cost wins.
        ends: launches of each end that come first, while levels are unknown.
    """
    if belief.confidence >= confidence:
        return Stop("confident" if belief.best else "no change", belief.left)
    prior = belief.prior
    nothing, all_of_them = frozenset[int](), frozenset(range(factors))
    if prior.level is None or prior.shift is None:
        seen = [sum(one.combination == end for one in tried) for end in (nothing, all_of_them)]
        if min(seen) < ends:
            return all_of_them if seen[1] < seen[0] else nothing
    rows = candidates(factors, SEED)
    levels = levels_of_candidates(factors, prior.size, prior.several, SEED)
    found = weigh(factors, tuple(tried), prior)
    buildable = _buildable(rows, tried, () if callable(unbuildable) else unbuildable)
    refused = unbuildable if callable(unbuildable) else None
    prices = np.ones(len(rows)) if cost is None else np.array([cost(_set(row)) for row in rows])
    chosen = _shortlist(rows, _expected(levels, found.chance), buildable / prices, refused)
    if not len(chosen):
        return Stop("exhausted", belief.left)
    told = information(found, levels[chosen])
    best = int((told * buildable[chosen] / prices[chosen]).argmax())
    if told[best] < LEAST_BITS:
        return Stop("exhausted", belief.left)
    return _set(rows[chosen[best]])


def information(found: Weighed, levels: Levels) -> Floats:
    """Expected information about the culprit from one launch, in bits, of each combination.

    Args:
        found: the posterior.
        levels: combinations x rows: what each would show, as positions in `LEVELS`.
    """
    kept = found.chance > NEGLIGIBLE
    chance = found.chance[kept] / found.chance[kept].sum()
    mean, spread, levels = found.mean[kept], found.spread[kept], levels[:, kept]
    widest = float(spread.max())
    low, high = float(mean.min()) - 4 * widest, float(mean.max()) + 4 * widest
    points = int(np.clip(2.5 * (high - low) / float(spread.min()), POINTS, 20 * POINTS))
    grid = np.linspace(low, high, points)
    own = 0.5 * np.log2(2 * np.pi * np.e * spread**2)
    mixed = np.zeros((len(levels), points))
    within = np.zeros(len(levels))
    for level in np.unique(levels):
        rows = np.flatnonzero((levels == level).any(axis=0))
        weights = (levels[:, rows] == level) * chance[rows]
        mixed += weights @ _density(grid, mean[rows, level], spread[rows, level])
        within += weights @ own[rows, level]
    entropy = -(mixed * np.log2(np.maximum(mixed, 1e-300))).sum(axis=1) * (grid[1] - grid[0])
    return np.asarray(entropy - within)


def swaps(hypothesis: Combination, factors: int) -> tuple[Combination, Combination]:
    """Two combinations that check a culprit: it alone in the good stack, and all but it of the bad one."""
    return hypothesis, frozenset(range(factors)) - hypothesis


def _expected(levels: Levels, chance: Floats) -> Floats:
    """Share of the shift that each combination is expected to show."""
    kept = chance > EXPECTED
    return np.asarray(LEVELS.astype(np.float32)[levels[:, kept]] @ chance[kept].astype(np.float32))


def _density(grid: Floats, mean: Floats, spread: Floats) -> Floats:
    """Normal densities, sets x points."""
    apart = (grid - mean[:, None]) / spread[:, None]
    return np.asarray(np.exp(-0.5 * apart**2) / (spread[:, None] * np.sqrt(2 * np.pi)))


def _shortlist(
    rows: Flags, bad: Floats, worth: Floats, refused: Callable[[Combination], bool] | None
) -> Indices:
    """Combinations that can be built and part the sets most evenly, and the ends.

    Args:
        rows: all candidates; the ends among them.
        bad: chance of each to be at the bad level.
        worth: chance of each to build, over its cost.
        refused: says of a combination that it can't be launched.
    """
    even = np.minimum(bad, 1 - bad) * worth
    ends = np.flatnonzero(rows.all(axis=1) | ~rows.any(axis=1))
    chosen: list[int] = []
    for at in np.concatenate([ends, np.argsort(-even, kind="stable")]):
        if worth[at] > 0 and at not in chosen and not (refused and refused(_set(rows[at]))):
            chosen.append(int(at))
        if len(chosen) >= SHORTLIST:
            break
    return np.array(sorted(chosen), dtype=np.int64)


def _buildable(rows: Flags, tried: Sequence[Tried], failed: Collection[Combination]) -> Floats:
    """The chance of each combination to build, as far as failed and launched ones tell."""
    chance = np.ones(len(rows))
    if not failed:
        return chance
    factors = rows.shape[1]
    launched = flags([one.combination for one in tried], factors)
    # A conflict is one factor of the bad stack beside one of the good: taken x left.
    harmless = (launched.astype(float).T @ (~launched).astype(float)) > 0
    for one in flags(list(failed), factors):
        suspects = np.outer(one, ~one) & ~harmless
        hits = np.einsum("ri,ij,rj->r", rows.astype(float), suspects.astype(float), (~rows).astype(float))
        chance *= 1 - hits / max(float(suspects.sum()), 1.0)
        chance[(rows == one).all(axis=1)] = 0.0
    return chance


def _set(row: Flags) -> Combination:
    return frozenset(map(int, np.flatnonzero(row)))
