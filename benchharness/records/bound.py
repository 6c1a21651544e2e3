"""What a gate demands of a run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Limit(StrEnum):
    """What a bound limits."""

    AT_MOST = "at most"
    AT_LEAST = "at least"
    CHANGE_AT_MOST = "change at most"
    CHANGE_AT_LEAST = "change at least"

    @property
    def relative(self) -> bool:
        """Whether it limits the change against a baseline."""
        return self in (Limit.CHANGE_AT_MOST, Limit.CHANGE_AT_LEAST)

    @property
    def from_above(self) -> bool:
        """Whether more than the limit breaks it."""
        return self in (Limit.AT_MOST, Limit.CHANGE_AT_MOST)


class Undecided(StrEnum):
    """What a gate does with what can't be decided."""

    FAIL = "fail"
    WARN = "warn"
    PASS = "pass"  # noqa: S105 - no password


@dataclass(frozen=True)
class Bound:
    """One demand.

    Attributes:
        metric: its name.
        limit: what is limited.
        value: in the metric's unit, or the change as a fraction of the baseline (0.03 is +3 %).
        text: as it was written.
        stacks: names that it holds for; empty for all.
        contexts: context lengths that it holds for; empty for all.
        undecided: what to do where it can't be decided.
    """

    metric: str
    limit: Limit
    value: float
    text: str
    stacks: tuple[str, ...] = ()
    contexts: tuple[int, ...] = ()
    undecided: Undecided = Undecided.FAIL

    def covers(self, stack: str, context_tokens: int) -> bool:
        """Whether it holds for that cell."""
        return (not self.stacks or stack in self.stacks) and (
            not self.contexts or context_tokens in self.contexts
        )


@dataclass(frozen=True)
class Thresholds:
    """A thresholds file.

    Attributes:
        bounds: all demands, in the file's order.
        require_valid: an invalid trial or launch of the run ends the gate, whatever the bounds say.
        confidence: of all decisions together.
    """

    bounds: tuple[Bound, ...]
    require_valid: bool = True
    confidence: float = 0.95
