"""The wrappers that stand around the engine's methods: the hot path.

Each calls the engine's method exactly once, with its own arguments, and returns what it returned or
raises what it raised. Outside of a cycle, and while the recording is off, it does nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from . import batches, hooks
from .cycle import (
    AT_STEP,
    DRAFT,
    EAGER,
    EXTEND,
    FORWARD,
    PLAIN,
    REPLAYED,
    UNRECORDED,
    VERIFY,
    VERIFY_IS_FORWARD,
)
from .recorder import Recorder

Method = Callable[..., Any]


def _cycle(method: Method, recorder: Recorder, flags: int = 0) -> Method:
    """A pass of a worker that nobody else's pass contains."""
    begin, end, abandon = recorder.begin, recorder.end, recorder.abandon

    def probed(*args: Any, **kwargs: Any) -> Any:
        if recorder.current is not None:
            return method(*args, **kwargs)
        if not recorder.switch[0]:
            # Switched on in the middle of this cycle, what it calls must not be taken for a whole one.
            recorder.gap = 1
            recorder.current = UNRECORDED
            try:
                return method(*args, **kwargs)
            finally:
                recorder.current = None
        cycle = begin(args, kwargs, flags)
        if cycle is None:
            return method(*args, **kwargs)
        try:
            result = method(*args, **kwargs)
        except BaseException:
            abandon(cycle)
            raise
        end(cycle, result)
        return result

    return probed


def _phase(method: Method, recorder: Recorder, place: int) -> Method:
    """A phase of a cycle; where it comes again in one cycle, the first time counts."""
    last = place + 1

    def probed(*args: Any, **kwargs: Any) -> Any:
        cycle = recorder.current
        if cycle is None or cycle.stamps[place]:
            return method(*args, **kwargs)
        clock = cycle.clock
        if clock is not None:
            clock.mark(cycle, place)
        stamps = cycle.stamps
        stamps[place] = monotonic_ns()
        result = method(*args, **kwargs)
        stamps[last] = monotonic_ns()
        if clock is not None:
            clock.mark(cycle, last)
        return result

    return probed


def _verify(method: Method, recorder: Recorder) -> Method:
    """Verify: a phase whose result may say what was accepted. (Written out: a call more costs 0.1 us.)"""
    last = VERIFY + 1

    def probed(*args: Any, **kwargs: Any) -> Any:
        cycle = recorder.current
        if cycle is None or cycle.stamps[VERIFY]:
            return method(*args, **kwargs)
        clock = cycle.clock
        if clock is not None:
            clock.mark(cycle, VERIFY)
        stamps = cycle.stamps
        stamps[VERIFY] = monotonic_ns()
        cycle.verified = result = method(*args, **kwargs)
        stamps[last] = monotonic_ns()
        if clock is not None:
            clock.mark(cycle, last)
        return result

    return probed


def _target(method: Method, recorder: Recorder) -> Method:
    """The target's worker: a cycle of its own, or verify where the cycle has no method for it."""
    plain = _cycle(method, recorder, PLAIN)
    verify = _phase(method, recorder, VERIFY)

    def probed(*args: Any, **kwargs: Any) -> Any:
        cycle = recorder.current
        if cycle is None:
            return plain(*args, **kwargs)
        if not cycle.stamps[VERIFY] and (kwargs.get("is_verify") or kwargs.get("skip_sample")):
            cycle.flags |= VERIFY_IS_FORWARD
            return verify(*args, **kwargs)
        return method(*args, **kwargs)

    return probed


def _forward(method: Method, recorder: Recorder) -> Method:
    """The target model's forward; a draft model's is part of draft and draft-extend."""
    flag_of = batches.graph_flag
    last = FORWARD + 1

    def probed(*args: Any, **kwargs: Any) -> Any:
        cycle = recorder.current
        if cycle is None or cycle.stamps[FORWARD] or getattr(args[0], "is_draft_worker", False):
            return method(*args, **kwargs)
        cycle.in_target = True
        clock = cycle.clock
        if clock is not None:
            clock.mark(cycle, FORWARD)
        stamps = cycle.stamps
        stamps[FORWARD] = monotonic_ns()
        output = method(*args, **kwargs)
        stamps[last] = monotonic_ns()
        if clock is not None:
            clock.mark(cycle, last)
        cycle.in_target = False
        if not cycle.graph:
            flag = flag_of(output)
            if flag is not None:
                cycle.graph = REPLAYED if flag else EAGER
        return output

    return probed


def _step(method: Method, recorder: Recorder) -> Method:
    """The scheduler's step: a cycle only where no worker's method is known. (Workers are imported late.)"""
    cycle = _cycle(method, recorder, AT_STEP)
    journal = recorder.journal

    def probed(*args: Any, **kwargs: Any) -> Any:
        if journal.has_cycles:
            return method(*args, **kwargs)
        return cycle(*args, **kwargs)

    return probed


def _replay(method: Method, recorder: Recorder) -> Method:
    """A replay of the decode graph: of the target's only within its forward."""

    def probed(*args: Any, **kwargs: Any) -> Any:
        cycle = recorder.current
        if cycle is not None and cycle.in_target:
            cycle.graph = REPLAYED
        return method(*args, **kwargs)

    return probed


def _draft_replay(method: Method, recorder: Recorder) -> Method:
    def probed(*args: Any, **kwargs: Any) -> Any:
        cycle = recorder.current
        if cycle is not None:
            cycle.draft_graph = REPLAYED
        return method(*args, **kwargs)

    return probed


def _extend_replay(method: Method, recorder: Recorder) -> Method:
    def probed(*args: Any, **kwargs: Any) -> Any:
        cycle = recorder.current
        if cycle is not None:
            cycle.extend_graph = REPLAYED
        return method(*args, **kwargs)

    return probed


def _capture(method: Method, recorder: Recorder) -> Method:
    def probed(*args: Any, **kwargs: Any) -> Any:
        cycle = recorder.capture_begins()
        try:
            return method(*args, **kwargs)
        finally:
            recorder.capture_ends(cycle)

    return probed


def _rank(method: Method, recorder: Recorder) -> Method:
    def probed(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        recorder.ranked(args[0])
        return result

    return probed


def _result(method: Method, recorder: Recorder) -> Method:
    def probed(*args: Any, **kwargs: Any) -> Any:
        done = method(*args, **kwargs)
        if recorder.pending:
            recorder.result(args, kwargs)
        return done

    return probed


_WRAPPERS: dict[str, Callable[[Method, Recorder], Method]] = {
    hooks.CYCLE: _cycle,
    hooks.DRAFT: functools.partial(_phase, place=DRAFT),
    hooks.VERIFY: _verify,
    hooks.DRAFT_EXTEND: functools.partial(_phase, place=EXTEND),
    hooks.TARGET: _target,
    hooks.FORWARD: _forward,
    hooks.REPLAY: _replay,
    hooks.DRAFT_REPLAY: _draft_replay,
    hooks.EXTEND_REPLAY: _extend_replay,
    hooks.CAPTURE: _capture,
    hooks.RANK: _rank,
    hooks.STEP: _step,
    hooks.RESULT: _result,
}


def wrap(method: Method, role: str, recorder: Recorder) -> Method:
    """The method with the probe around it, under its own name and signature."""
    probed = _WRAPPERS[role](method, recorder)
    functools.update_wrapper(probed, method)
    probed.__benchharness__ = True  # type: ignore[attr-defined]
    return probed
