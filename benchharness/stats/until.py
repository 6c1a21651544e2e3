"""Has a run decided what it set out to decide, and what would it take?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchharness.stats.compare import Cell, Verdict

DECIDED = (Verdict.REGRESSED, Verdict.IMPROVED, Verdict.EQUIVALENT)


@dataclass(frozen=True)
class Outcome:
    """How a run until decided ended.

    Attributes:
        decided: every cell has a verdict.
        reason: why no more launches were added.
        rounds: rounds of launches made by this command.
        launches: of each stack, in the whole run.
        minutes: that this command took.
        look: number of the last look, from 1, of `looks` planned ones.
        level: two-sided, that this look could spend.
        baseline: name of the stack that all others are compared with.
        cells: as that look saw them.
    """

    decided: bool
    reason: str
    rounds: int
    launches: int
    minutes: float
    look: int
    looks: int
    level: float
    baseline: str
    cells: tuple[Cell, ...]

    @property
    def undecided(self) -> tuple[Cell, ...]:
        """The cells without a verdict."""
        return open_cells(self.cells)


def open_cells(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """Those that are neither regressed, nor improved, nor equivalent."""
    return tuple(cell for cell in cells if cell.verdict not in DECIDED)


def wanted(cells: Sequence[Cell]) -> int | None:
    """Further launches of each stack that would decide all cells that more launches can decide.

    Returns:
        None where no number would, as things look; 1 where launches are too few to say.
    """
    numbers = [_wanted(cell) for cell in open_cells(cells)]
    return max((number for number in numbers if number is not None), default=None)


def _wanted(cell: Cell) -> int | None:
    unknown = cell.verdict == Verdict.UNDECIDED and not math.isfinite(cell.high - cell.low)
    return 1 if unknown and cell.further_launches is None else cell.further_launches
