"""Which sets of factors may be the culprit, and which combinations of two stacks can be launched."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchharness.errors import UsageError

Combination = frozenset[int]
"""Factors whose value is the bad stack's; all others have the good stack's."""
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MOST_LISTED = 12
"""Up to so many factors every combination is a candidate."""
DRAWN = 4096
"""Combinations that are drawn where there are too many to list."""
MOST_HYPOTHESES = 25_000


@dataclass(frozen=True)
class Hypotheses:
    """Every set that may be the culprit.

    Attributes:
        sets: singles, then pairs, then triples; the empty set last, which says that nothing acts.
        members: sets x factors: whether a factor belongs to a set.
        sizes: factors of each set.
    """

    sets: tuple[Combination, ...]
    members: Flags
    sizes: NDArray[np.int64]

    def acting(self, taken: Flags) -> Flags:
        """Which sets act in which combinations: a set acts where all its factors are taken.

        Args:
            taken: combinations x factors.

        Returns:
            Combinations x sets; False throughout for the empty set.
        """
        missing = (~taken).astype(np.float32) @ self.members.T.astype(np.float32)
        return np.asarray((missing == 0) & (self.sizes > 0))


@lru_cache(maxsize=8)
def up_to(factors: int, size: int) -> Hypotheses:
    """All sets of at most `size` of that many factors; UsageError where these are too many to weigh."""
    if factors < 1:
        raise UsageError("the two stacks don't differ in anything that can be switched", "name two others")
    sets = [
        frozenset(one)
        for count in range(1, min(size, factors) + 1)
        for one in itertools.combinations(range(factors), count)
    ]
    if len(sets) > MOST_HYPOTHESES:
        raise UsageError(
            f"{factors} factors in sets of up to {size} are {len(sets):,} hypotheses, more than "
            f"{MOST_HYPOTHESES:,}",
            "ask for smaller sets, or make the stacks more alike first",
        )
    sets.append(frozenset())
    return Hypotheses(tuple(sets), flags(sets, factors), np.array([len(one) for one in sets]))


def flags(combinations: Collection[Combination], factors: int) -> Flags:
    """Combinations x factors: whether a factor is taken; UsageError for a factor that there isn't."""
    found = np.zeros((len(combinations), factors), dtype=bool)
    for row, one in enumerate(combinations):
        if any(not 0 <= factor < factors for factor in one):
            raise UsageError(f"there are {factors} factors, numbered from 0, but {sorted(one)} was tried")
        found[row, list(one)] = True
    return found


@lru_cache(maxsize=4)
def candidates(factors: int, seed: int) -> Flags:
    """Combinations that may be launched, x factors: all of them, or a drawn part where they are many.

    The ends (nothing taken, all taken) always stand first.
    """
    if factors <= MOST_LISTED:
        rows = np.arange(2**factors)
        rows = np.concatenate([rows[[0, -1]], rows[1:-1]])
        return np.asarray((rows[:, None] >> np.arange(factors)) & 1, dtype=bool)
    random = np.random.default_rng(seed)
    share = random.uniform(0.2, 0.95, (DRAWN, 1))
    drawn = random.random((DRAWN, factors)) < share
    single = ~np.eye(factors, dtype=bool)
    ends = np.array([[False] * factors, [True] * factors])
    return np.unique(np.concatenate([ends, single, ~single, drawn]), axis=0)


@lru_cache(maxsize=4)
def acting_in_candidates(factors: int, size: int, seed: int) -> NDArray[np.float32]:
    """`Hypotheses.acting` of all candidates, as 0 and 1."""
    return up_to(factors, size).acting(candidates(factors, seed)).astype(np.float32)
