"""Which sets of factors may be to blame and how they act, and which combinations can be launched."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchharness.errors import UsageError

Combination = frozenset[int]
"""Factors whose value is the bad stack's; all others have the good stack's."""
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Levels = NDArray[np.int8]
"""Positions in `LEVELS`."""

LEVELS = np.array([0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0])
"""Shares of the shift that a launch may show, by what is taken."""
SHARES = (0.2, 0.35, 0.5, 0.65, 0.8)
"""What the first of two parts that add may make of the shift; the rest is the other's."""
FEW_SHARES = (0.35, 0.5, 0.65)
MOST_LISTED = 12
"""Up to so many factors every combination is a candidate, and three factors may act in two or three parts."""
MOST_SHARED = 20
"""Up to so many factors two that add may do so in any share; of more in halves."""
DRAWN = 4096
"""Combinations that are drawn where there are too many to list."""
MOST_HYPOTHESES = 25_000


class Form(StrEnum):
    """How the parts of a culprit act.

    TOGETHER: there is one part: it acts where all of it is taken, and only there.
    ADDED: each part acts by itself, and their effects add up.
    EITHER: each part acts by itself, and any of them is enough.
    """

    TOGETHER = "together"
    ADDED = "added"
    EITHER = "either"


@dataclass(frozen=True)
class Hypothesis:
    """What may be to blame.

    Attributes:
        parts: sets of which each acts as a whole; none where nothing acts.
        form: how they do.
    """

    parts: tuple[Combination, ...]
    form: Form = Form.TOGETHER

    @property
    def factors(self) -> Combination:
        """Of all parts."""
        return frozenset[int]().union(*self.parts)


@dataclass(frozen=True)
class Hypotheses:
    """All that may be to blame.

    Attributes:
        rows: sets that act together, by their size, then several parts (those that add once for each
            share); last of all that nothing acts.
        parts: every set that is a part of any row.
        of_parts: parts x factors: what belongs to it.
        held: rows x most parts of a row: positions in `parts`; -1 where a row has fewer.
        shares: the same, of the shift; 0 where a row has fewer parts.
        members: rows x factors.
        sizes: factors of each row.
    """

    rows: tuple[Hypothesis, ...]
    parts: tuple[Combination, ...]
    of_parts: Flags
    held: NDArray[np.int64]
    shares: Floats
    members: Flags
    sizes: NDArray[np.int64]

    def levels(self, taken: Flags) -> Levels:
        """What each combination shows of each row's shift, as positions in `LEVELS`.

        Args:
            taken: combinations x factors.

        Returns:
            Combinations x rows; 0 throughout where nothing acts.
        """
        missing = (~taken).astype(np.float32) @ self.of_parts.T.astype(np.float32)
        there = (missing == 0).astype(np.float32)
        shown = np.zeros((len(taken), len(self.rows)), dtype=np.float32)
        for held, shares in zip(self.held.T, self.shares.T.astype(np.float32), strict=True):
            shown += there[:, held] * shares
        return np.searchsorted((LEVELS[1:] + LEVELS[:-1]) / 2, shown).astype(np.int8)

    def of_each_part(self, chance: Floats) -> Floats:
        """Chance of each of `parts` to act by itself, given that of each row."""
        real = self.held >= 0
        each = np.broadcast_to(chance[:, None], real.shape)
        found = np.bincount(self.held[real], weights=each[real], minlength=len(self.parts))
        return np.asarray(found, dtype=np.float64)


@lru_cache(maxsize=8)
def up_to(factors: int, size: int, several: bool = True) -> Hypotheses:
    """Sets of at most `size` of that many factors; UsageError where these are too many to weigh.

    Args:
        factors: how many there are.
        size: of the largest set.
        several: a culprit may have several parts.
    """
    if factors < 1:
        raise UsageError("the two stacks don't differ in anything that can be switched", "name two others")
    found: list[tuple[Hypothesis, tuple[float, ...]]] = [
        (Hypothesis((frozenset(one),)), (1.0,))
        for count in range(1, min(size, factors) + 1)
        for one in itertools.combinations(range(factors), count)
    ]
    if several and size > 1:
        found += _in_parts(factors)
    if len(found) > MOST_HYPOTHESES:
        raise UsageError(
            f"{factors} factors in sets of up to {size} are {len(found):,} hypotheses, more than "
            f"{MOST_HYPOTHESES:,}",
            "ask for smaller sets, or make the stacks more alike first",
        )
    return _arranged([*found, (Hypothesis(()), ())], factors)


def _in_parts(factors: int) -> Iterator[tuple[Hypothesis, tuple[float, ...]]]:
    """Culprits of two or three factors in several parts, with the share of each part."""
    singles = [frozenset({factor}) for factor in range(factors)]
    shares = SHARES if factors <= MOST_SHARED else (0.5,)
    for pair in itertools.combinations(singles, 2):
        yield Hypothesis(pair, Form.EITHER), (1.0, 1.0)
        for share in shares:
            yield Hypothesis(pair, Form.ADDED), (share, 1 - share)
    for triple in itertools.combinations(range(factors), 3) if factors <= MOST_LISTED else ():
        yield Hypothesis(tuple(singles[one] for one in triple), Form.EITHER), (1.0, 1.0, 1.0)
        for apart in triple:
            parts = (frozenset(triple) - {apart}, singles[apart])
            yield Hypothesis(parts, Form.EITHER), (1.0, 1.0)
            for share in FEW_SHARES:
                yield Hypothesis(parts, Form.ADDED), (share, 1 - share)


def _arranged(found: Sequence[tuple[Hypothesis, tuple[float, ...]]], factors: int) -> Hypotheses:
    rows = tuple(row for row, _ in found)
    parts = tuple(dict.fromkeys(part for row in rows for part in row.parts))
    at = {part: index for index, part in enumerate(parts)}
    most = max(len(row.parts) for row in rows)
    held = np.full((len(rows), most), -1, dtype=np.int64)
    shares = np.zeros((len(rows), most))
    for index, (row, share) in enumerate(found):
        held[index, : len(share)] = [at[part] for part in row.parts]
        shares[index, : len(share)] = share
    members = flags([row.factors for row in rows], factors)
    return Hypotheses(rows, parts, flags(parts, factors), held, shares, members, members.sum(axis=1))


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
def levels_of_candidates(factors: int, size: int, several: bool, seed: int) -> Levels:
    """`Hypotheses.levels` of all candidates."""
    return up_to(factors, size, several).levels(candidates(factors, seed))
