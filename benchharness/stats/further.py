"""How many more launches would decide a cell, if it goes on as it looks now."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from benchharness.stats.estimate import Estimate

POWER = 0.8
"""How likely the launches named would decide."""

MOST = 500
"""Launches a side beyond which the answer is that more launches don't help."""


def launches(
    estimate: Estimate,
    *,
    level: float,
    equivalence_level: float,
    margin: float | None,
    changes: bool = True,
    pairs: bool,
) -> int | None:
    """Further launches a side that would decide, with a chance of about `POWER`.

    Args:
        estimate: what is known now, of n launches a side.
        level: two-sided level of a change.
        equivalence_level: of each of the two one-sided tests.
        margin: log of the largest change that counts as none; None where equivalence can't be said.
        changes: a change could be called.
        pairs: launches to come share blocks.

    Returns:
        At least 1; None where `MOST` would not do or nothing is known of the spread.
    """
    if not estimate.known or estimate.launches < 2:
        return None
    many = np.arange(estimate.launches + 1, estimate.launches + MOST + 1)
    error = estimate.error * np.sqrt(estimate.launches / many)
    freedom = (many - 1.0) * (1 if pairs else 2)
    size = abs(estimate.mean)
    decided = np.zeros(many.size, dtype=bool)
    if changes:
        reach = special.stdtrit(freedom, 1 - level / 2) + special.stdtrit(freedom, POWER)
        decided |= size >= reach * error
    if margin is not None:
        reach = special.stdtrit(freedom, 1 - equivalence_level) + special.stdtrit(freedom, (1 + POWER) / 2)
        decided |= margin - size >= reach * error
    return int(decided.argmax()) + 1 if decided.any() else None


def sentence(number: int | None) -> str:
    """The same in words."""
    if number is None:
        return f"not even {MOST} more launches a side would decide, as things look"
    return f"about {number} more launch{'es' if number > 1 else ''} a side would decide"


def to_tell_shares(first: float, second: float, launches_now: int, level: float) -> int | None:
    """Further launches a side that would tell two shares of slow starts apart; None where they are alike.

    Args:
        first, second: shares, 0 to 1.
        launches_now: launches a side so far.
        level: two-sided level.
    """
    if first == second:
        return None
    middle = (first + second) / 2
    reach = float(special.ndtri(1 - level / 2) + special.ndtri(POWER))
    wanted = math.ceil(reach**2 * 2 * middle * (1 - middle) / (first - second) ** 2)
    further = max(1, wanted - launches_now)
    return further if further <= MOST else None
