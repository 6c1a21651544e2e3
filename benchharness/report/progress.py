"""Progress of a run: live on a terminal, a line a step elsewhere.

The screen is drawn only between events of the loop, never by a timer thread: a thread that wakes
while a stream is being read would take the interpreter from the client.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from benchharness.plan import Remaining
from benchharness.records import Launch, LaunchStatus, Plan, PlannedLaunch, Trial
from benchharness.report import console as consoles
from benchharness.report.console import duration, sentence

_REDRAW_S = 0.25


class Progress:
    """Hears the loop (see `execute.Observer`) and tells people."""

    def __init__(self, console: Console, plan: Plan, remaining: Remaining, live: Live | None) -> None:
        self._console = console
        self._plan = plan
        self._remaining = remaining
        self._live = live
        self._began = time.monotonic()
        self._over = 0
        self._stack = ""
        self._step = ""
        self._drawn = 0.0

    def launch_begins(self, planned: PlannedLaunch) -> None:
        """A launch is next."""
        self._stack = planned.stack
        self._step = ""
        self._draw(force=True)
        if self._live is None:
            left = duration(self._left())
            place = f"launch {self._over + 1} of {len(self._plan.launches)}"
            sentence(self._console, f"{place}: {escape(planned.stack)} (about {left} left)")

    def step(self, text: str) -> None:
        """What is being done now."""
        self._step = text
        self._draw(force=True)

    def waiting(self, seconds: float) -> None:
        """Still waiting for the engine."""
        self._step = f"starting the engine, {seconds:.0f} s"
        self._draw()

    def request_ends(self, done: int, total: int) -> None:
        """Requests of the present trial that are over."""
        words = self._step.split(", request", 1)[0]
        self._step = f"{words}, request {done} of {total}"
        self._draw()

    def trial_ends(self, trial: Trial) -> None:
        """A trial is stored."""
        for finding in trial.findings:
            word = "[red]invalid[/red]" if finding.grave else "[yellow]note[/yellow]"
            place = f"{escape(self._stack)}, context {trial.workload.context_tokens}"
            sentence(self._console, f"{word} {place}: {escape(finding.sentence)}")

    def launch_ends(self, launch: Launch) -> None:
        """A launch is stored."""
        self._over += 1
        if launch.status != LaunchStatus.DONE:
            place = f"launch {launch.index} ({escape(launch.stack)})"
            sentence(self._console, f"[red]{launch.status}[/red] {place}: {escape(launch.reason)}")
            for line in launch.last_lines[-8:]:
                sentence(self._console, f"    [dim]| {escape(line)}[/dim]")
        self._draw(force=True)

    def _left(self) -> float:
        return self._remaining.seconds(self._over, time.monotonic() - self._began)

    def _draw(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if self._live is None or (not force and now - self._drawn < _REDRAW_S):
            return
        self._drawn = now
        total = len(self._plan.launches)
        filled = 24 * self._over // max(total, 1)
        line = Text.assemble(
            ("━" * filled, "green"),
            ("━" * (24 - filled), "dim"),
            f" {self._over}/{total} launches, about {duration(self._left())} left  ",
            (self._stack, "bold"),
            f"  {self._step}",
        )
        line.truncate(self._console.width, overflow="ellipsis")
        self._live.update(line, refresh=True)


@contextmanager
def watching(path: Path, plan: Plan, remaining: Remaining) -> Iterator[Progress]:
    """Tell of a run while it goes on; what was stored is named however it ends."""
    console = consoles.progress()
    sentence(console, f"storing in {escape(str(path))}")
    if not console.is_terminal:
        yield Progress(console, plan, remaining, None)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield Progress(console, plan, remaining, live)
