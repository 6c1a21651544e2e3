"""The probe's file: one a process, each record in it safe from the moment it is written.

Little-endian. The file starts with 16 bytes: magic `BHPROBE1`, format version (u16), switch (u8), 5 bytes
of zero. The switch is for others to write: cycles are recorded while it is 1; 0 turns the recording off.
It must be written in place, since a file cut short under a mapping would end the engine.
Records follow, each at a multiple of 8 bytes:

    kind     u8    0: nothing is written from here on; 1: facts; 2: cycle
    zero     3 bytes
    size     u32   of the payload, without the padding to the next multiple of 8
    payload

Facts are a JSON object in UTF-8; a later one adds to and overrides the keys of those before it.

A cycle is 136 bytes, then one byte for each request of the batch whose accepted tokens are known
(bonus token included):

    seq          u32   counts the cycles of the process; where some were not recorded, a number is left out
    mode         u8    0 other, 1 decode, 2 prefill, 3 idle
    flags        u8    1: a graph was captured in it; 2: the target's forward stands for verify;
                       4: tokens not known; 8: some events left out (another stream, none free, capture);
                       16: without speculation; 32: timed at the scheduler's step
    graph        u8    target, draft and draft-extend, two bits each from the lowest:
                       0 not known, 1 run without a graph, 2 replayed
    zero         u8
    batch_size   u16
    tokens       u16   of all requests together
    accepted     u16   how many bytes follow the 136
    zero         u16
    context      i32   sequence lengths of the batch at the cycle's start, added up; -1 not known
    zero         u32
    stamps       10 i64, CLOCK_MONOTONIC ns on the host, 0 where it didn't happen: begin and end of
                 cycle, draft, verify, target forward, draft-extend
    events       7 f32, ms between CUDA events, NaN where not known: cycle, draft, verify, target
                 forward, from there to the end of verify (of the cycle without speculation),
                 draft-extend, from the start of the cycle before to this one's
    zero         u32

The file is written through a shared mapping, so a process that is killed loses nothing: the kernel has
the pages. Its space is reserved ahead, since a full disk would otherwise kill the engine by a signal.
The byte `kind` is written last, so a record that was cut off by the end of the process doesn't exist.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct

from .cycle import Cycle

MAGIC = b"BHPROBE1"
FORMAT = 1
SWITCH_AT = 10
FACTS = 1
CYCLE = 2
STEP_BYTES = 1 << 20
MAX_BYTES = 256 << 20

_pack_cycle = struct.Struct("<xxxxIIBBBxHHHxxixxxx10q28sxxxx").pack_into
_pack_events = struct.Struct("<7f").pack
NO_EVENTS = _pack_events(*(math.nan,) * 7)
CYCLE_BYTES = 136
_pack_size = struct.Struct("<xxxxI").pack_into


class RowFile:
    """A file that grows by reserved steps; OSError where it can't be made or the disk is full.

    Args:
        folder: where it goes; the name is `PID.probe`, with a number behind it where that one exists.

    Attributes:
        path: the file.
        switch: one byte, 0 while somebody has turned the recording off.
    """

    def __init__(self, folder: str) -> None:
        self.path, self._fd = _create(os.path.join(folder, f"{os.getpid()}.probe"))  # noqa: PTH118
        self._size = 0
        self._map = self._grow(STEP_BYTES)
        self._map[: len(MAGIC)] = MAGIC
        struct.pack_into("<HB", self._map, len(MAGIC), FORMAT, 1)
        self._at = 16
        # A mapping of its own, so that it stays where it is when the file grows.
        self.switch = memoryview(mmap.mmap(self._fd, mmap.PAGESIZE, prot=mmap.PROT_READ))[
            SWITCH_AT : SWITCH_AT + 1
        ]

    def _grow(self, by: int) -> mmap.mmap:
        size = self._size + by
        if size > MAX_BYTES:
            raise OSError(f"the probe's file has reached its limit of {MAX_BYTES} bytes")
        os.posix_fallocate(self._fd, 0, size)
        grown = mmap.mmap(self._fd, size)
        self._size = size
        return grown

    def _room(self, payload: int) -> int:
        """Where the next record starts, with room for its payload and the zero behind it."""
        start = self._at
        end = start + ((payload + 15) & ~7)
        if end + 8 > self._size:
            self._map = self._grow(max(STEP_BYTES, end + 8 - self._size))
        self._at = end
        return start

    def facts(self, facts: dict[str, object]) -> None:
        """Add a facts record."""
        payload = json.dumps(facts, default=str).encode()
        start = self._room(len(payload))
        _pack_size(self._map, start, len(payload))
        self._map[start + 8 : start + 8 + len(payload)] = payload
        self._map[start] = FACTS

    def cycle(self, cycle: Cycle, events: tuple[float, ...] | None) -> None:
        """Add a cycle with its seven times between events, None where it has none."""
        accepted = cycle.accepted
        count = len(accepted)
        size = CYCLE_BYTES + count
        start = self._at
        end = start + ((size + 15) & ~7)
        if end + 8 > self._size:
            self._room(size)
        self._at = end
        mapped = self._map
        _pack_cycle(
            mapped,
            start,
            size,
            cycle.seq,
            cycle.mode,
            cycle.flags,
            cycle.graph | cycle.draft_graph << 2 | cycle.extend_graph << 4,
            cycle.batch_size,
            cycle.tokens,
            count,
            cycle.context,
            *cycle.stamps,
            NO_EVENTS if events is None else _pack_events(*events),
        )
        if count:
            mapped[start + 8 + CYCLE_BYTES : start + 8 + size] = accepted
        mapped[start] = CYCLE

    def close(self) -> None:
        """Cut the file to what was written; nothing may be added afterwards."""
        self._map.close()
        os.ftruncate(self._fd, self._at + 8)
        os.close(self._fd)


def _create(path: str) -> tuple[str, int]:
    """A new file; a process id may come twice in one folder."""
    for number in range(100):
        name = f"{path}.{number}" if number else path
        try:
            return name, os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            continue
    raise FileExistsError(path)
