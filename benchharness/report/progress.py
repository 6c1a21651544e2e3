"""Progress of a run: live on a terminal, a line a step elsewhere.

The screen is drawn only between events of the loop, never by a timer thread: a thread that wakes
while a stream is being read would take the interpreter from the client.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from benchharness.plan import Cost, Remaining
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
        self._begun = 0
        self._over = 0
        self._stacks = {launch.index: launch.stack for launch in plan.launches}
        self._stack = ""
        self._step = ""
        self._drawn = 0.0

    def launch_begins(self, planned: PlannedLaunch) -> None:
        """A launch is next."""
        self._begun += 1
        self._stack = planned.stack
        self._step = ""
        self._draw(force=True)
        if self._live is None:
            left = duration(self._left())
            place = f"launch {self._begun} of {len(self._plan.launches)}"
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
            stack = self._stacks.get(trial.launch, self._stack)
            place = f"{escape(stack)}, context {trial.workload.context_tokens}"
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


class RunTold:
    """Tells people of a run: of each of its rounds, and what is said between them."""

    def __init__(self, console: Console, costs: Mapping[str, Cost]) -> None:
        self._console = console
        self._costs = costs

    def line(self, text: str) -> None:
        """One line, between rounds."""
        sentence(self._console, escape(text))

    @contextmanager
    def round(self, left: Plan) -> Iterator[Progress]:
        """Hears launches that are about to be made."""
        remaining = Remaining(left, self._costs)
        if not self._console.is_terminal:
            yield Progress(self._console, left, remaining, None)
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            yield Progress(self._console, left, remaining, live)


def of_run(path: Path, costs: Mapping[str, Cost]) -> RunTold:
    """Tell of a run while it goes on; what was stored is named however it ends.

    Args:
        path: the run's folder.
        costs: what a launch of each stack takes.
    """
    console = consoles.progress()
    sentence(console, f"storing in {escape(str(path))}")
    return RunTold(console, costs)


@contextmanager
def watching(path: Path, plan: Plan, remaining: Remaining) -> Iterator[Progress]:
    """Tell of the launches of a plan while they are made."""
    with of_run(path, remaining.costs).round(plan) as progress:
        yield progress
