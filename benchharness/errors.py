"""What can go wrong, as one small tree: each error knows its exit status and what to do next.

Exit statuses are part of the command line's contract (see docs/structure.md):
0 done or passed, 1 regression found, 2 wrong usage, 3 undecided, 4 invalid measurement,
5 infrastructure, 130 interrupted.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HarnessError(Exception):
    """Base of every error that a user can meet.

    Args:
        message: one line that says what is wrong.
        advice: one line that says what to do next; empty where nothing can be said.
    """

    exit_status = 5

    def __init__(self, message: str, advice: str = "") -> None:
        self.message = message
        self.advice = advice
        super().__init__(f"{message}; {advice}" if advice else message)


class UsageError(HarnessError):
    """The request itself is wrong: a name, a file, a value, two runs that may not be compared."""

    exit_status = 2


class InvalidMeasurementError(HarnessError):
    """A measurement broke an invariant: it must not be judged."""

    exit_status = 4


class InfrastructureError(HarnessError):
    """Something around the measurement failed: an engine, an environment, the disk."""

    exit_status = 5


class UnbuildableError(InfrastructureError):
    """An environment can't be resolved, installed or imported. A result of its own, never "slow"."""


class EngineError(InfrastructureError):
    """The engine didn't start, died, or didn't answer as it must.

    Args:
        message: one line that says what happened.
        advice: what to do next.
        exit_code: the engine's exit code; negative for a signal; None while it runs.
        last_lines: the last lines of its log, oldest first.
    """

    def __init__(
        self,
        message: str,
        advice: str = "",
        *,
        exit_code: int | None = None,
        last_lines: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, advice)
        self.exit_code = exit_code
        self.last_lines = last_lines


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: " (did you mean 'x'?)", or the known names, or nothing."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f" (did you mean {close[0]!r}?)"
    if 0 < len(names) <= 16:
        return f" (known: {', '.join(names)})"
    return ""
