"""Which decode windows say how fast decoding was, and what is wrong with the others.

SGLang's `gen throughput` is the tokens since the last decode line over the time since it: a window that
holds a prefill, an idle server or a compilation is slower than its decoding. Such a window is marked with the
reason; it stays in the record, and whoever computes a median leaves it out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.uint8]

PREFILL, IDLE, RETRACTION, CAPTURE, JIT, START = 1, 2, 4, 8, 16, 32
REASONS = {
    PREFILL: "window spans idle/prefill",
    IDLE: "window spans a pause: much longer than its neighbours, with nothing logged that explains it",
    RETRACTION: "requests were retracted",
    CAPTURE: "a graph was captured in it",
    JIT: "a kernel was compiled in it",
    START: "window began before the server was ready",
}
SHORT = {
    PREFILL: "prefill",
    IDLE: "pause",
    RETRACTION: "retraction",
    CAPTURE: "capture",
    JIT: "jit",
    START: "start",
}

EVERYWHERE = ""
"""Rank of an event whose line names none: it concerns all of them."""

_NEIGHBOURS = 4
_TIMES_LONGER = 2.0
_SECONDS_LONGER = 0.25
_STEPS = 40.0
"""Decode steps of a window: SGLang's own default of --decode-log-interval."""


def reason(mark: int) -> str | None:
    """The reasons of a mark as a sentence; None for a clean window."""
    return "; ".join(text for bit, text in REASONS.items() if mark & bit) or None


class Marker:
    """Marks windows block after block, in the order of the log; holds a few figures a rank.

    Lines of several ranks may be mixed: a window lasts from one decode line of its rank to the next.
    """

    def __init__(self) -> None:
        self._last_decode: dict[str, int] = {}
        self._last_event: dict[tuple[str, int], int] = {}
        self._steps: dict[str, Floats] = {}

    def mark(
        self,
        decodes: Mapping[str, tuple[Ints, Floats, Floats, Floats]],
        events: Mapping[tuple[str, int], Sequence[int] | Ints],
        retracted: Mapping[str, Flags] | None = None,
    ) -> dict[str, Flags]:
        """The marks of one block's windows.

        Args:
            decodes: by rank: line numbers, seconds a step up to a factor (running requests times accept
                length over tok/s), tokens in the pool (NaN where not told), and tokens a step.
            events: by (rank, reason): line numbers of what pollutes the window it falls in.
            retracted: by rank: whether the line itself tells of retracted requests.

        Returns:
            By rank: the reasons of each window, ORed.
        """
        found = {rank: self._marked(rank, *columns, events) for rank, columns in decodes.items()}
        for rank, flags in (retracted or {}).items():
            found[rank] |= flags.astype(np.uint8) * np.uint8(RETRACTION)
        for key, lines in events.items():
            if len(lines):
                self._last_event[key] = int(lines[-1])
        for rank, (lines, *_) in decodes.items():
            if len(lines):
                self._last_decode[rank] = int(lines[-1])
        return found

    def _marked(
        self,
        rank: str,
        lines: Ints,
        step: Floats,
        tokens: Floats,
        per_step: Floats,
        events: Mapping[tuple[str, int], Sequence[int] | Ints],
    ) -> Flags:
        marks = np.zeros(len(lines), np.uint8)
        if not len(lines):
            return marks
        before = np.empty_like(lines)
        before[0] = self._last_decode.get(rank, 0)
        before[1:] = lines[:-1]
        for where in {rank, EVERYWHERE}:
            for bit in REASONS:
                at = np.asarray(events.get((where, bit), ()), np.int64)
                last = self._last_event.get((where, bit))
                if last is not None:
                    at = np.concatenate(([last], at))
                if len(at):
                    inside = np.searchsorted(at, lines) > np.searchsorted(at, before)
                    marks[inside] |= np.uint8(bit)
        started = marks & START > 0
        marks[started] &= np.uint8(255 - CAPTURE - JIT)  # the start-up's own
        marks[self._pauses(rank, step, tokens, per_step, marks)] |= np.uint8(IDLE)
        return marks

    def _pauses(self, rank: str, step: Floats, tokens: Floats, per_step: Floats, marks: Flags) -> Ints:
        """Windows far longer than the clean ones around them."""
        earlier = self._steps.get(rank, np.empty(0))
        known = np.concatenate((earlier, np.where(marks == 0, step, np.nan)))
        offset = len(earlier)
        clean = known[np.isfinite(known)]
        self._steps[rank] = clean[-_NEIGHBOURS:]
        if len(clean) < 2:
            return np.empty(0, np.int64)
        before = np.concatenate((known[offset - 1 : offset] if offset else [np.nan], step[:-1]))
        longer = (step > _TIMES_LONGER * np.median(clean)) | (step > _TIMES_LONGER * before)
        suspects = np.flatnonzero(longer & (marks == 0))
        if not len(suspects):
            return suspects
        return suspects[_stand_out(known, suspects + offset, _window_steps(tokens, per_step))]


def _stand_out(known: Floats, places: Ints, steps: float) -> npt.NDArray[np.bool_]:
    """Whether windows are far longer than the clean ones around them."""
    around = places[:, None] + np.r_[-_NEIGHBOURS:0, 1 : _NEIGHBOURS + 1]
    inside = (around >= 0) & (around < len(known))
    values = np.sort(np.where(inside, known[np.clip(around, 0, len(known) - 1)], np.nan), axis=1)
    finite = np.isfinite(values).sum(axis=1)
    rows = np.arange(len(places))
    middle = np.maximum(finite - 1, 0)
    usual = (values[rows, middle // 2] + values[rows, (middle + 1) // 2]) / 2
    step = known[places]
    seconds = (step - usual) * steps
    found: npt.NDArray[np.bool_] = (
        (finite >= 2) & (step > _TIMES_LONGER * usual) & (seconds > _SECONDS_LONGER)
    )
    return found


def _window_steps(tokens: Floats, per_step: Floats) -> float:
    """Decode steps of a window, from how fast the pool fills; the default where it can't be told."""
    if len(tokens) < 2:
        return _STEPS
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.diff(tokens) / per_step[1:]
    steps = steps[np.isfinite(steps) & (steps > 0.5)]
    return float(np.median(steps)) if len(steps) else _STEPS
