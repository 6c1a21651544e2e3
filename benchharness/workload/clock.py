"""Clocks: every time in a record is CLOCK_MONOTONIC, and kernel stamps have to be brought there.

The kernel stamps packets with CLOCK_REALTIME. Slewing (NTP) moves both clocks alike, so their offset
is constant until somebody sets the time of day; a request during which it moved is refused.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

MOVE_LIMIT_NS = 50_000
"""An offset that moved by more than this (50 us) between both ends of a request spoils its stamps."""

now_ns = time.monotonic_ns
"""The user clock: CLOCK_MONOTONIC in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Offset:
    """CLOCK_REALTIME minus CLOCK_MONOTONIC.

    Attributes:
        ns: the offset in nanoseconds.
        width_ns: how long the sample took; the true value lies within half of it.
    """

    ns: int
    width_ns: int


UNKNOWN = Offset(0, 0)


def sample_offset(tries: int = 8) -> Offset:
    """The offset between both clocks, from the narrowest of `tries` bracketed readings."""
    best = Offset(0, 1 << 62)
    for _ in range(tries):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        if after - before < best.width_ns:
            best = Offset(wall - (before + after) // 2, after - before)
    return best


def moved(start: Offset, end: Offset) -> int:
    """By how many nanoseconds the offset moved beyond what sampling it can explain; 0 if within the limit."""
    shift = end.ns - start.ns
    allowed = MOVE_LIMIT_NS + (start.width_ns + end.width_ns) // 2
    return shift if abs(shift) > allowed else 0
