"""The process's one recorder: which cycle is running, and which ones still wait for something.

All of it belongs to one thread, the first that runs a cycle: events are read there too, since CUDA must
be asked from a thread that isn't capturing. Only results may be handed in from another one.

Nothing raised in here reaches the engine. Each kind of fault is counted and told in the file; after a few
of one kind what causes it is switched off.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from threading import get_ident
from time import monotonic_ns
from typing import Any

from . import batches, process
from .cycle import CAPTURED, DRAFT, EAGER, EXTEND, FORWARD, PLAIN, TOKENS_UNKNOWN, TOTAL, UNKNOWN, Cycle
from .eventclock import EventClock
from .hooks import DRAFT_REPLAY, EXTEND_REPLAY, REPLAY
from .journal import Journal
from .rowfile import RowFile

# A V2 result comes one step later; what has not come after so many cycles won't.
PATIENCE = 4
OFF = b"\0"


class Recorder:
    """See the module.

    Args:
        folder: where the process's file goes; OSError where it can't be made.
        declared: names of variables whose values are wanted beside the allow-list.

    Attributes:
        journal: what the process tells of itself.
        current: the cycle that is running, None outside of cycles and while a graph is captured,
            `UNRECORDED` in one that began while the recording was off.
        switch: its one byte is 0 while nothing is to be recorded; looked at once a cycle.
        gap: 1 where cycles went by unrecorded since the last one, else 0.
        pending: cycles that are over on the host but lack events or tokens, oldest first.
    """

    def __init__(self, folder: str, declared: tuple[str, ...] = ()) -> None:
        rows = RowFile(folder)
        self.journal = Journal(rows, declared)
        self.current: Cycle | None = None
        self.switch: bytes | memoryview = rows.switch
        self.gap = 0
        self.pending: deque[Cycle] = deque()
        self._folder = folder
        self._rows = rows
        self._owner = 0
        self._seq = 0
        self._free: list[Cycle] = []
        self._awaited: dict[int, Cycle] = {}
        self._clock: EventClock | None = None
        self._workers: set[type] = set()
        self._capturing = 0
        self.journal.starts()

    def begin(self, args: tuple[Any, ...], kwargs: dict[str, Any], flags: int) -> Cycle | None:
        """A cycle starts now; None where it is not to be recorded."""
        if self._capturing or (self._owner != get_ident() and not self._claim()):
            return None
        try:
            if self.pending:
                self._drain()
            self._seq += 1 + self.gap
            self.gap = 0
            if type(args[0]) not in self._workers:
                self._meet(type(args[0]))
            cycle = self._free.pop() if self._free else Cycle()
            batch = batches.of_call(args, kwargs)
            cycle.seq = self._seq
            cycle.flags = flags
            cycle.mode, cycle.batch_size, cycle.context = batches.describe(batch)
        except Exception as error:  # noqa: BLE001
            if self.journal.fault("begin", error):
                self.switch = OFF
            return None
        if self._clock is not None:
            self._clock.begin(cycle)
        self.current = cycle
        cycle.stamps[0] = monotonic_ns()
        return cycle

    def _meet(self, worker: type) -> None:
        """The first cycle of a worker's class; the first of all chooses the clock."""
        if not self._workers and process.cuda_in_use():
            self._clock = EventClock(sys.modules["torch"], self._clock_fault)
        self._workers.add(worker)
        self.journal.works(worker, "host" if self._clock is None else "cuda-event")

    def _claim(self) -> bool:
        """The first thread with a cycle keeps the recorder, unless it has left nothing behind."""
        if self._owner and (self.current is not None or self.pending):
            return False
        self._owner = get_ident()
        return True

    def _clock_fault(self, error: BaseException) -> None:
        if self.journal.fault("events", error):
            self._clock = None
            self.journal.tell({"clock": "host"})

    def end(self, cycle: Cycle, result: Any) -> None:
        """The cycle is over on the host."""
        cycle.stamps[1] = monotonic_ns()
        if cycle.clock is not None:
            cycle.clock.mark(cycle, TOTAL + 1)
        self.current = None
        try:
            self._count(cycle, result)
            cycle.verified = None
            if cycle.key or cycle.clock is not None or self.pending:
                self.pending.append(cycle)
            else:
                self._write(cycle, None)
        except Exception as error:  # noqa: BLE001
            if self.journal.fault("end", error):
                self.switch = OFF

    def abandon(self, cycle: Cycle) -> None:
        """The engine's own method raised: there is no such cycle."""
        self.current = None
        if cycle.clock is not None and self._clock is not None:
            self._clock.release(cycle)
        cycle.verified = None
        cycle.in_target = False
        cycle.clear()
        self._free.append(cycle)

    def _count(self, cycle: Cycle, result: Any) -> None:
        """What the cycle produced, or the promise of it; and what is known of graphs without a word."""
        stamps, known = cycle.stamps, self.journal.graph_roles
        if cycle.graph == UNKNOWN and stamps[FORWARD] and REPLAY in known:
            cycle.graph = EAGER
        if cycle.flags & PLAIN or cycle.mode != batches.DECODE:
            cycle.tokens = cycle.batch_size
            return
        if cycle.draft_graph == UNKNOWN and stamps[DRAFT] and DRAFT_REPLAY in known:
            cycle.draft_graph = EAGER
        if cycle.extend_graph == UNKNOWN and stamps[EXTEND] and EXTEND_REPLAY in known:
            cycle.extend_graph = EAGER
        if batches.comes_later(result):
            # On a CPU they are there already; a GPU's are not even being copied yet.
            counts = batches.accepted_later(result)
            if counts is None:
                cycle.key = id(result)
                self._awaited[cycle.key] = cycle
                return
        else:
            counts = batches.accepted_by(result)
        if counts is None and cycle.verified is not None:
            counts = batches.accepted_within(cycle.verified)
        if counts is not None:
            cycle.accepted = bytes(counts)
            cycle.tokens = sum(counts)
            return
        total = batches.accepted_total(result, cycle.batch_size)
        if total is None:
            cycle.flags |= TOKENS_UNKNOWN
        else:
            cycle.tokens = total

    def result(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A result was processed: what it accepted is on the host now, and its events are over."""
        try:
            result = args[2] if len(args) > 2 else kwargs.get("result")
            cycle = self._awaited.pop(id(result), None)
            if cycle is not None:
                counts = batches.accepted_later(result)
                if counts is None:
                    cycle.flags |= TOKENS_UNKNOWN
                else:
                    cycle.accepted = bytes(counts)
                    cycle.tokens = sum(counts)
                cycle.key = 0
            if self.pending and self._owner == get_ident() and not self._capturing:
                self._drain()
        except Exception as error:  # noqa: BLE001
            self.journal.fault("result", error)

    def _drain(self) -> None:
        """Write the oldest cycles that are complete; never waits for one that is not."""
        pending = self.pending
        while pending:
            cycle = pending[0]
            if cycle.key:
                if self._seq - cycle.seq < PATIENCE:
                    return
                self._awaited.pop(cycle.key, None)
                cycle.key = 0
                cycle.flags |= TOKENS_UNKNOWN
            events = None
            if cycle.clock is not None and self._clock is not None:
                try:
                    if not self._clock.is_over(cycle):
                        return
                    events = self._clock.read(cycle)
                except Exception as error:  # noqa: BLE001
                    self._clock_fault(error)
            pending.popleft()
            self._write(cycle, events)

    def _write(self, cycle: Cycle, events: tuple[float, ...] | None) -> None:
        try:
            self._rows.cycle(cycle, events)
        except Exception as error:  # noqa: BLE001
            if isinstance(error, OSError) or self.journal.fault("write", error):
                self.switch = OFF
        cycle.clear()
        self._free.append(cycle)

    # Capture

    def capture_begins(self) -> Cycle | None:
        """A graph is being captured: nothing is recorded until it ends. Returns the cycle it came into."""
        cycle, self.current = self.current, None
        self._capturing += 1
        return cycle

    def capture_ends(self, cycle: Cycle | None) -> None:
        """The capture is over; the cycle that it came into goes on, and is marked."""
        self._capturing -= 1
        if cycle is not None:
            cycle.flags |= CAPTURED
            self.current = cycle

    def ranked(self, runner: object) -> None:
        """A model runner is set up. A forked worker gets its own file here."""
        if self.journal.rows is None:
            try:
                self._rows = self.journal.rows = RowFile(self._folder)
                self.switch = self._rows.switch
                self.journal.starts()
            except OSError as error:
                sys.stderr.write(f"benchharness probe: no file for process {os.getpid()}: {error!r}\n")
        self.journal.ranked(runner)

    def forked(self) -> None:
        """This is a child now: the file, the events and what waits belong to the parent."""
        self.switch = OFF
        self.current = None
        self.journal.rows = None
        self.pending.clear()
        self._awaited.clear()
        self._free.clear()
        self._owner = self._capturing = 0
        self._clock = None

    def close(self) -> None:
        """The process ends of itself: write what is complete and cut the file to its length."""
        self.switch = OFF
        if self.journal.rows is None:
            return
        try:
            if self._owner == get_ident():
                self._drain()
            self._rows.close()
        except Exception as error:  # noqa: BLE001
            sys.stderr.write(f"benchharness probe: at exit: {error!r}\n")
