"""What a run that goes on until it is decided has set out to decide, and how often it has looked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """What is to be decided.

    Attributes:
        metrics: names; each context and each stack but the first one has a cell of each.
        margin: largest change (fraction) that counts as none.
        confidence: of all cells of a stack and of all looks together.
        most_launches: of each stack, over which the looks are planned.
    """

    metrics: tuple[str, ...]
    margin: float
    confidence: float
    most_launches: int


@dataclass(frozen=True)
class TakenLook:
    """One look at the data: its place among the planned ones, and the launches of each stack by then."""

    at: int
    launches: int


@dataclass(frozen=True)
class Looks:
    """What a run's folder keeps as `until.json`."""

    goal: Goal
    taken: tuple[TakenLook, ...] = ()
