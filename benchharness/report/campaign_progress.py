"""Progress of a campaign: what is measured now and why, and what is believed after it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from benchharness.bisect.session.deciding import Wanted
from benchharness.bisect.session.forecast import Forecast
from benchharness.bisect.session.standing import Standing
from benchharness.records import Launch, LaunchStatus, PlannedLaunch, Trial
from benchharness.report import console as consoles
from benchharness.report import forecast_view
from benchharness.report.console import duration, sentence

_REDRAW_S = 0.25


class CampaignProgress:
    """Hears the loop (see `execute.Observer`) and the campaign, and tells people."""

    def __init__(self, console: Console, live: Live | None) -> None:
        self._console = console
        self._live = live
        self._began = time.monotonic()
        self._stack = ""
        self._step = ""
        self._drawn = 0.0
        self._last = math.nan
        """Launches after which the campaign is expected to be over."""
        self._made = 0

    def expects(self, standing: Standing, found: Forecast | None) -> None:
        """What the campaign is expected to take still, where that was worked out anew."""
        self._made = standing.launches
        if found is not None:
            self._last = standing.launches + found.launches.middle
        if not standing.launches:
            told = forecast_view.beginning(standing.state.legs[-1], found)
        elif found is not None:
            told = f"to go: {forecast_view.words(found)}"
        else:
            return
        sentence(self._console, f"[dim]{escape(told)}[/dim]")

    def block_begins(self, wanted: Wanted, number: int) -> None:
        """A block is next, after so many launches."""
        places = ", ".join(place.label for place in wanted.places)
        words = f"after {number} launches, {wanted.role}: [bold]{escape(places)}[/bold]"
        sentence(self._console, f"{words}: {escape(wanted.reason)}")

    def launch_begins(self, planned: PlannedLaunch) -> None:
        """A launch is next."""
        self._stack, self._step = planned.stack, ""
        self._made += 1
        self._draw(force=True)

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
        self._step = f"{self._step.split(', request', 1)[0]}, request {done} of {total}"
        self._draw()

    def trial_ends(self, trial: Trial) -> None:
        """A trial is stored; what makes it invalid is told."""
        for finding in trial.findings:
            if finding.grave:
                place = f"{escape(self._stack)}, context {trial.workload.context_tokens}"
                sentence(self._console, f"[red]invalid[/red] {place}: {escape(finding.sentence)}")

    def launch_ends(self, launch: Launch) -> None:
        """A launch is stored."""
        if launch.status != LaunchStatus.DONE:
            place = f"launch {launch.index} ({escape(launch.stack)})"
            sentence(self._console, f"[red]{launch.status}[/red] {place}: {escape(launch.reason)}")
            for line in launch.last_lines[-8:]:
                sentence(self._console, f"    [dim]| {escape(line)}[/dim]")

    def _draw(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if self._live is None or (not force and now - self._drawn < _REDRAW_S):
            return
        self._drawn = now
        line = Text.assemble(
            (duration(now - self._began), "dim"),
            self._to_go(),
            "  ",
            (self._stack, "bold"),
            f"  {self._step}",
        )
        line.truncate(self._console.width, overflow="ellipsis")
        self._live.update(line, refresh=True)

    def _to_go(self) -> tuple[str, str]:
        """Launches still to go, in a few words; nothing where that is not known."""
        left = self._last - self._made + 1
        return (f", about {left:.0f} to go" if left >= 1 else "", "dim")


@contextmanager
def watching() -> Iterator[CampaignProgress]:
    """Tell of a campaign while it goes on."""
    console = consoles.progress()
    if not console.is_terminal:
        yield CampaignProgress(console, None)
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield CampaignProgress(console, live)
