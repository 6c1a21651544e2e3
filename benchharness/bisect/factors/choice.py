"""Which combination to launch next: the one that is expected to tell most about the culprit set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchharness.bisect.factors.belief import Belief, Tried, Weighed, weigh
from benchharness.bisect.factors.hypotheses import (
    Combination,
    Flags,
    Floats,
    acting_in_candidates,
    candidates,
    flags,
)

SHORTLIST = 48
"""Combinations whose information is worked out exactly."""
LEAST_BITS = 1e-3
"""Below that a launch tells nothing."""
ENDS = 2
"""Launches of each end before anything else, where levels are unknown."""
POINTS = 96
NEGLIGIBLE = 1e-5
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
        return Stop("confident" if belief.best else "no change", _left(belief))
    prior = belief.prior
    nothing, all_of_them = frozenset[int](), frozenset(range(factors))
    if prior.level is None or prior.shift is None:
        seen = [sum(one.combination == end for one in tried) for end in (nothing, all_of_them)]
        if min(seen) < ends:
            return all_of_them if seen[1] < seen[0] else nothing
    rows = candidates(factors, SEED)
    acting = acting_in_candidates(factors, prior.size, SEED)
    found = weigh(factors, tuple(tried), prior)
    buildable = _buildable(rows, tried, () if callable(unbuildable) else unbuildable)
    refused = unbuildable if callable(unbuildable) else None
    prices = np.ones(len(rows)) if cost is None else np.array([cost(_set(row)) for row in rows])
    chosen = _shortlist(rows, acting @ found.chance, buildable / prices, refused)
    if not len(chosen):
        return Stop("exhausted", _left(belief))
    told = information(found, acting[chosen])
    best = int((told * buildable[chosen] / prices[chosen]).argmax())
    if told[best] < LEAST_BITS:
        return Stop("exhausted", _left(belief))
    return _set(rows[chosen[best]])


def information(found: Weighed, acting: NDArray[np.float32]) -> Floats:
    """Expected information about the culprit set from one launch, in bits, of each combination.

    Args:
        found: the posterior.
        acting: combinations x sets: 1 where the set acts in the combination, else 0.
    """
    kept = found.chance > NEGLIGIBLE
    chance = found.chance[kept] / found.chance[kept].sum()
    good, bad = found.good[kept], found.bad[kept]
    spreads = found.good_spread[kept], found.bad_spread[kept]
    widest = max(float(one.max()) for one in spreads)
    low = min(float(good.min()), float(bad.min())) - 4 * widest
    high = max(float(good.max()), float(bad.max())) + 4 * widest
    least = min(float(one.min()) for one in spreads)
    points = int(np.clip(2.5 * (high - low) / least, POINTS, 20 * POINTS))
    grid = np.linspace(low, high, points)
    step = grid[1] - grid[0]
    as_good, as_bad = (_density(grid, *pair) for pair in zip((good, bad), spreads, strict=True))
    weights = acting[:, kept] * chance
    mixed = weights @ as_bad + (chance - weights) @ as_good
    entropy = -(mixed * np.log2(np.maximum(mixed, 1e-300))).sum(axis=1) * step
    own_good, own_bad = (0.5 * np.log2(2 * np.pi * np.e * spread**2) for spread in spreads)
    return np.asarray(entropy - weights @ own_bad - (chance - weights) @ own_good)


def swaps(hypothesis: Combination, factors: int) -> tuple[Combination, Combination]:
    """Two combinations that check a culprit: it alone in the good stack, and all but it of the bad one."""
    return hypothesis, frozenset(range(factors)) - hypothesis


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


def _left(belief: Belief) -> tuple[Combination, ...]:
    """Sets that hold 95 % of the chance together."""
    order = sorted(belief.probability, key=lambda one: -belief.probability[one])
    held, left = 0.0, []
    for one in order:
        left.append(one)
        held += belief.probability[one]
        if held >= 0.95:
            break
    return tuple(left)
