"""When data that grow are looked at, and what part of the level each look may spend.

Whoever looks again and again at a stated 5 % is wrong far more often than that. So the level is shared out
over looks that are planned beforehand, each in proportion to its launches (the union bound: Bonferroni 1936).
It holds for any number of cells and any test, and still does if some of the looks are skipped because of what
the data showed. See docs/method.md for what that costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 2
"""Launches a side without which there is nothing to look at."""

GROWTH = 1.5
"""How much launches grow from one look to the next, at most (but for what whole numbers ask for)."""


@dataclass(frozen=True)
class Look:
    """One planned look.

    Attributes:
        launches: of each stack, by then.
        share: of the level that it may spend; all looks together have 1.
    """

    launches: int
    share: float


def planned(first: int, most: int) -> tuple[Look, ...]:
    """The looks from `first` launches of each stack to `most`, in order.

    Args:
        first: launches that are made in any case.
        most: the budget; ValueError if it is less than `first` or than `FEWEST`.
    """
    if most < max(first, FEWEST):
        raise ValueError(f"no look fits from {first} launches to {most}")
    begin = max(first, FEWEST)
    steps = math.ceil(math.log(most / begin) / math.log(GROWTH)) if most > begin else 0
    counts = sorted({round(begin * (most / begin) ** (step / max(steps, 1))) for step in range(steps + 1)})
    return tuple(Look(count, count / sum(counts)) for count in counts)


def following(looks: Sequence[Look], last: int, launches: int, wanted: int) -> int:
    """Which look to take next.

    Args:
        looks: those planned.
        last: index of the last one taken; -1 for none.
        launches: of each stack so far.
        wanted: further launches that would decide what is open.

    Returns:
        The index of the first look that has as many, but not beyond twice the present launches where an
        earlier one is left; `len(looks)` if none is left.
    """
    left = [at for at in range(last + 1, len(looks)) if looks[at].launches > launches]
    if not left:
        return len(looks)
    near = [at for at in left if looks[at].launches <= 2 * launches] or left[:1]
    return next((at for at in near if looks[at].launches >= launches + wanted), near[-1])


def taken(looks: Sequence[Look], last: int, launches: int) -> int:
    """Index of the look that launches now at hand are; `len(looks)` if all are spent.

    A round that was cut short, by its time or by an interrupt, spends the look that it was made for.
    """
    reached = [at for at, look in enumerate(looks) if look.launches <= launches]
    return max(last + 1, reached[-1] if reached else 0)
