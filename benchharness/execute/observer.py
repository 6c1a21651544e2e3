"""Who wants to hear how the loop gets on."""

from __future__ import annotations

from typing import Protocol

from benchharness.records import Launch, PlannedLaunch, Trial


class Observer(Protocol):
    """Who wants to hear how the loop gets on. All calls come from the loop's own thread."""

    def launch_begins(self, planned: PlannedLaunch) -> None:
        """A launch is next."""

    def step(self, text: str) -> None:
        """What is being done now, in a few words."""

    def waiting(self, seconds: float) -> None:
        """Still waiting for the engine, since so many seconds."""

    def request_ends(self, done: int, total: int) -> None:
        """Requests of the present trial that are over."""

    def trial_ends(self, trial: Trial) -> None:
        """A trial is stored."""

    def launch_ends(self, launch: Launch) -> None:
        """A launch is stored."""
