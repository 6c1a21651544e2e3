"""A beat on the event loop that shows when the client was not running.

A kernel stamp is right however late a read comes, but one read has one stamp, that of its last byte.
When a client is held off (no CPU, a long callback), the events of several writes pile up and come in
one read, so all but the last get too late a stamp. The delay between stamp and read doesn't show it:
the last byte may have come just before the client ran again. A missed beat does.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence

from benchharness.workload import clock

BEAT_S = 0.002
HELD_OFF_NS = 4_000_000
"""Two beats further apart than this (4 ms) mean that the client was held off between them."""

Gap = tuple[int, int]
"""(last beat before, first beat after) a time in which the client was held off, monotonic ns."""


class Pulse:
    """Beats while a drive lasts.

    Attributes:
        gaps: times in which the client was held off, in order.
    """

    def __init__(self) -> None:
        self.gaps: list[Gap] = []
        self._last_ns = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to beat on the running loop."""
        self._last_ns = clock.now_ns()
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def stop(self) -> None:
        """End; a gap that lasts until now is noted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._note()

    def _beat(self) -> None:
        self._note()
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._beat)

    def _note(self) -> None:
        now = clock.now_ns()
        if now - self._last_ns > HELD_OFF_NS:
            self.gaps.append((self._last_ns, now))
        self._last_ns = now


def held_off(gaps: Sequence[Gap], since_ns: int, until_ns: int) -> bool:
    """Whether the client was held off somewhere between two moments (its previous read and this one)."""
    place = bisect_left(gaps, (since_ns, 0))
    if place and gaps[place - 1][1] > since_ns:
        return True
    return place < len(gaps) and gaps[place][0] < until_ns
