"""One cycle while it is being measured. Objects of it are used again and again."""

from __future__ import annotations

from typing import Any

# Places of the begins in `stamps` and `events`; each end stands behind its begin.
TOTAL, DRAFT, VERIFY, FORWARD, EXTEND = 0, 2, 4, 6, 8
PLACES = 10

CAPTURED, VERIFY_IS_FORWARD, TOKENS_UNKNOWN, EVENTS_MISSING, PLAIN, AT_STEP = 1, 2, 4, 8, 16, 32

UNKNOWN, EAGER, REPLAYED = 0, 1, 2

_NO_STAMPS = (0,) * PLACES
_ALL_STAMPS = (1,) * PLACES
_NO_EVENTS = (None,) * PLACES


class Cycle:
    """What is known of a cycle so far.

    Attributes:
        stamps: CLOCK_MONOTONIC ns at both ends of each phase, 0 where it has not happened.
        events: the CUDA events at the same places.
        clock: takes its CUDA events; None where it has none.
        stream: the stream of those events; an event on another one is left out.
        in_target: the target's forward is running.
        verified: what verify returned, until the cycle ends.
        key: identity of the result that will tell what was accepted; 0 where none is awaited.
    """

    __slots__ = (
        "accepted",
        "batch_size",
        "clock",
        "context",
        "draft_graph",
        "events",
        "extend_graph",
        "flags",
        "graph",
        "in_target",
        "key",
        "mode",
        "seq",
        "stamps",
        "stream",
        "tokens",
        "verified",
    )

    def __init__(self) -> None:
        self.stamps: list[int] = [0] * PLACES
        self.events: list[Any] = [None] * PLACES
        self.verified: Any = None
        self.stream = 0
        self.clock: Any = None
        self.in_target = False
        self.seq = self.mode = self.flags = self.batch_size = 0
        self.context = -1
        self.clear()

    def clear(self) -> None:
        """Make it as new, but for what each cycle sets at its start."""
        self.stamps[:] = _NO_STAMPS
        if self.clock is not None:
            self.events[:] = _NO_EVENTS
            self.clock = None
        self.graph = self.draft_graph = self.extend_graph = UNKNOWN
        self.tokens = self.key = 0
        self.accepted = b""


def _unrecorded() -> Cycle:
    """A cycle in which every phase has happened already, so that none is recorded."""
    cycle = Cycle()
    cycle.stamps[:] = _ALL_STAMPS
    return cycle


UNRECORDED = _unrecorded()
"""Stands for any cycle that began while the recording was off."""
