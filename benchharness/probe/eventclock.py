"""GPU times by CUDA events: recorded on the current stream, read when they are over, never waited for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .cycle import DRAFT, EVENTS_MISSING, EXTEND, FORWARD, PLAIN, TOTAL, VERIFY, Cycle

POOL = 256
NOT_TIMED: tuple[float, ...] = (math.nan,) * 7


class EventClock:
    """A pool of events and the way to the current stream.

    Nothing is recorded while the current stream captures a graph. Where an event would come on another
    stream than the cycle's own, or none is free, it is left out and the cycle says so.

    Args:
        torch: the engine's own torch, with CUDA in use.
        fault: told what went wrong where an event couldn't be recorded.
    """

    def __init__(self, torch: Any, fault: Callable[[BaseException], None]) -> None:
        cuda = torch.cuda
        self._pool: list[Any] = [cuda.Event(enable_timing=True) for _ in range(POOL)]
        self._fault = fault
        # torch's own methods are Python around these: with ten events a cycle that is a fifth of the cost.
        event = getattr(torch._C, "_CudaEventBase", type(self._pool[0]))
        self._record, self._elapsed, self._query = event.record, event.elapsed_time, event.query
        self._capturing = getattr(
            torch._C, "_cuda_isCurrentStreamCapturing", cuda.is_current_stream_capturing
        )
        self._current_stream = cuda.current_stream
        self._device = cuda.current_device()
        # Present since torch 1.x, since Triton needs it; a Stream object costs ten times as much.
        self._raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        self._raw = -1
        self._stream: Any = None
        self._before: Any = None  # start event of the cycle before, its stream and number
        self._before_stream = 0
        self._before_seq = -1

    def _stream_now(self) -> int:
        """The current stream's handle; `_stream` is that stream afterwards."""
        if self._raw_stream is not None:
            raw: int = self._raw_stream(self._device)
            if raw != self._raw:
                self._stream, self._raw = self._current_stream(), raw
            return raw
        self._stream = self._current_stream()
        self._raw = int(self._stream.cuda_stream)
        return self._raw

    def begin(self, cycle: Cycle) -> None:
        """Record the cycle's first event; the cycle is not timed where that can't be."""
        try:
            if self._capturing() or not self._pool:
                cycle.flags |= EVENTS_MISSING
                return
            cycle.stream = self._stream_now()
            event = self._pool.pop()
            self._record(event, self._stream)
            cycle.events[TOTAL] = event
            cycle.clock = self
        except Exception as error:  # noqa: BLE001
            self._fault(error)

    def mark(self, cycle: Cycle, place: int) -> None:
        """Record the event of that place."""
        try:
            if self._capturing() or not self._pool or self._stream_now() != cycle.stream:
                cycle.flags |= EVENTS_MISSING
                return
            event = self._pool.pop()
            self._record(event, self._stream)
            cycle.events[place] = event
        except Exception as error:  # noqa: BLE001
            self._fault(error)

    def is_over(self, cycle: Cycle) -> bool:
        """Whether the GPU has passed the cycle's end; asks and doesn't wait."""
        end = cycle.events[TOTAL + 1]
        return end is None or bool(self._query(end))

    def read(self, cycle: Cycle) -> tuple[float, ...]:
        """The seven times of a cycle that is over (see rowfile.py), and its events are free again."""
        events, between = cycle.events, self._between
        try:
            if events[TOTAL + 1] is None:
                return NOT_TIMED
            verified = TOTAL + 1 if cycle.flags & PLAIN else VERIFY + 1
            return (
                between(events, TOTAL, TOTAL + 1),
                between(events, DRAFT, DRAFT + 1),
                between(events, VERIFY, VERIFY + 1),
                between(events, FORWARD, FORWARD + 1),
                between(events, FORWARD + 1, verified),
                between(events, EXTEND, EXTEND + 1),
                self._since_before(cycle),
            )
        finally:
            self.release(cycle)

    def _between(self, events: list[Any], first: int, last: int) -> float:
        begin, end = events[first], events[last]
        return math.nan if begin is None or end is None else float(self._elapsed(begin, end))

    def _since_before(self, cycle: Cycle) -> float:
        follows = self._before_seq == cycle.seq - 1 and self._before_stream == cycle.stream
        if self._before is None or not follows:
            return math.nan
        return float(self._elapsed(self._before, cycle.events[TOTAL]))

    def release(self, cycle: Cycle) -> None:
        """Free a cycle's events, but for the first: the next cycle is measured from there."""
        events = cycle.events
        if self._before is not None:
            self._pool.append(self._before)
        self._before, self._before_stream, self._before_seq = events[TOTAL], cycle.stream, cycle.seq
        events[TOTAL] = None
        for place, event in enumerate(events):
            if event is not None:
                self._pool.append(event)
                events[place] = None
