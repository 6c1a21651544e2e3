"""Where a campaign stands: its state, its run, and what its hunts make of them. Nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from benchharness.bisect.session import costs, findings, observed, state
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.deciding import Ended, Outcome, Wanted
from benchharness.bisect.session.factor_hunt import FactorHunt
from benchharness.bisect.session.legs import Hunt, Legs
from benchharness.bisect.session.observed import Observed
from benchharness.bisect.session.state import State
from benchharness.bisect.session.swap_hunt import SwapHunt
from benchharness.records import Launch
from benchharness.store import StoredRun, open_run


@dataclass(frozen=True)
class Standing:
    """One campaign as it is stored now.

    Attributes:
        path: its folder.
        state: what was asked and begun.
        stored: what was measured.
        legs: what places mean.
    """

    path: Path
    state: State
    stored: StoredRun
    legs: Legs

    @classmethod
    def of(cls, path: Path, legs: Legs, running: Launch | None = None) -> Standing:
        """Read it, with a launch that runs still; UsageError where that can't be done."""
        return cls(path, state.read(path), open_run(path, running), legs)

    @cached_property
    def seen(self) -> tuple[Observed, ...]:
        """Every step that is over."""
        return observed.observe(self.state, self.stored)

    @cached_property
    def hunts(self) -> tuple[Hunt, ...]:
        """The hunt of each leg."""
        return tuple(
            self.legs.hunt(self.state, self.seen, self.stored, index) for index in range(len(self.state.legs))
        )

    @property
    def first(self) -> AxisHunt | FactorHunt:
        """The hunt that answers the question as it was asked."""
        return next(hunt for hunt in self.hunts if not isinstance(hunt, SwapHunt))

    @property
    def main(self) -> AxisHunt | FactorHunt:
        """The hunt that searched last for the first culprit."""
        found = findings.of(self)[0]
        return found.axes[-1][1] if found.axes else found.first

    def ended(self, at: int) -> Ended | None:
        """How a leg ended, whatever the budget says; None while it goes on."""
        found = self._ended[at]
        if isinstance(found, Ended):
            return found
        return None if at == len(self.hunts) - 1 else Ended(Outcome.UNTOLD, "the campaign went on from here")

    @cached_property
    def _ended(self) -> tuple[Wanted | Ended, ...]:
        return tuple(hunt.next() for hunt in self.hunts)

    @property
    def launches(self) -> int:
        """Launches that were asked for."""
        return sum(step.launch is not None for step in self.state.steps)

    @property
    def hours(self) -> float:
        """Wall time that they took."""
        return costs.hours(self.state)

    def next(self) -> Wanted | Ended:
        """What the last leg wants, within the budget, or how the campaign ended."""
        found = self._ended[-1]
        question = self.state.question
        if isinstance(found, Ended):
            return self._whole(found)
        if self.launches + (0 if found.stay else len(found.places)) > question.most_launches:
            return Ended(Outcome.BUDGET, f"{self.launches} launches were made, and no more were allowed")
        if question.most_hours is not None and self.hours >= question.most_hours:
            return Ended(Outcome.BUDGET, f"{self.hours:.2f} hours were spent, and no more were allowed")
        return found

    def _whole(self, last: Ended) -> Ended:
        """How the campaign ended, by how its last leg did: the first culprit stands, whatever came after."""
        first = findings.of(self)[0].ended
        if first is None or first == last or first.outcome not in findings.TOLD:
            return last
        return Ended(first.outcome, f"{first.reason}; and then: {last.reason}")
