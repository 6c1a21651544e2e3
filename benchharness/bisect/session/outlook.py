"""What a stored campaign, or one that was not begun, is expected to take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchharness.bisect.search import Prices, Prior
from benchharness.bisect.session import costs, forecast, state
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.deciding import Ended, Outcome, Wanted
from benchharness.bisect.session.forecast import Forecast
from benchharness.bisect.session.legs import Legs
from benchharness.bisect.session.question import Question
from benchharness.bisect.session.rehearsal import Budget
from benchharness.bisect.session.standing import Standing
from benchharness.bisect.session.state import Leg, State
from benchharness.errors import HarnessError
from benchharness.records import LaunchStatus, Plan, Run
from benchharness.store import StoredRun, open_run, runs

MOST_RUNS = 5
"""Newest runs that are looked at."""

GUESSED = 0.01
"""Deviation of launches, and of repeats, where nothing is known of them (in logs)."""

_HARMLESS = (HarnessError, ArithmeticError, ValueError)
"""What a rehearsal may come to on figures that nobody thought of; a campaign does not fail for it."""


SHARE = 0.05
"""Of a campaign's time that forecasts may take."""

LEAST_CPU_S = 0.3
"""Seconds in which no forecast can be made that is worth telling."""


@dataclass
class Outlook:
    """Forecasts of a campaign while it goes on: renewed after so much of its time that they cost little."""

    _spent_s: float = 0.0
    _begun: bool = False

    def renewed(self, standing: Standing, coming: Wanted | Ended) -> Forecast | None:
        """A new forecast, between two launches; None where it is too early for one, or none can be made."""
        spent_s = standing.hours * 3600
        share_s = SHARE * (spent_s - self._spent_s)
        if standing.launches == 0 and not self._begun:
            share_s = forecast.MOST_CPU_S
        self._begun = True
        if share_s < LEAST_CPU_S:
            return None
        self._spent_s = spent_s
        return ahead(standing, coming, min(share_s, forecast.MOST_CPU_S))


def before(
    leg: Leg, legs: Legs, question: Question, plan: Plan, results: Path, *, guess: bool = False
) -> Forecast | None:
    """What a campaign is expected to take that was not begun; None where that can't be told.

    Args:
        leg: its first one.
        legs: what places mean.
        question: that it asks.
        plan: of its experiment.
        results: where earlier runs tell what launches take.
        guess: where nothing is known of the noise, guess it, and say so.
    """
    nothing = StoredRun(results / "not begun", Run("", "", "", {}, plan, ""))
    hunt = legs.hunt(State("", question, (leg,)), (), nothing)
    if not isinstance(hunt, AxisHunt):
        return None
    hunt = replace(hunt, prices=_earlier(results, question, hunt.prices))
    budget = Budget(question.most_launches, question.most_hours)
    noise = Prior(between_sd=GUESSED, within_sd=GUESSED) if guess else None
    try:
        found = forecast.of_axis(hunt, budget, guess=noise)
    except _HARMLESS:
        return None
    if found is not None and guess and hunt.prior is None:
        return replace(found, assumed=f"nothing is known of the noise here yet; {found.assumed}")
    return found


def ahead(standing: Standing, coming: Wanted | Ended, cpu_s: float = forecast.MOST_CPU_S) -> Forecast | None:
    """What the last leg of a campaign still takes; None where it is over, is no axis, or where that
    can't be told.

    Of a campaign that ended with its budget it is what a larger one would take.

    Args:
        standing: as it is stored.
        coming: what is next.
        cpu_s: seconds of CPU that telling it may take.
    """
    hunt, question = standing.hunts[-1], standing.state.question
    spent = isinstance(coming, Ended) and coming.outcome is Outcome.BUDGET
    if not isinstance(hunt, AxisHunt) or (isinstance(coming, Ended) and not spent):
        return None
    hours = None if question.most_hours is None else question.most_hours - standing.hours
    left = Budget() if spent else Budget(question.most_launches - standing.launches, hours)
    try:
        if not standing.launches:
            hunt = replace(hunt, prices=_earlier(standing.path.parents[1], question, hunt.prices))
        found = forecast.of_axis(hunt, left, cpu_s=cpu_s)
    except _HARMLESS:
        return None
    return replace(found, assumed="with a larger budget") if found is not None and spent else found


def _earlier(results: Path, question: Question, usual: Prices) -> Prices:
    """What launches took in the newest run of the experiment that tells; else what is usual."""
    for path, stored in _runs(results, question):
        done = [one for one in stored.launches if one.status == LaunchStatus.DONE]
        if not done:
            continue
        relaunch_s = sum(one.start_s + one.stop_s for one in done) / len(done)
        building_s = max(0.0, usual.cold_s - usual.relaunch_s)
        if (path / state.FILE).is_file():
            steps = state.read(path)
            return costs.prices(steps, stored, (), (), usual_start_s=relaunch_s, builds=building_s > 0)
        rounds = {one.index: len(one.workloads) for one in stored.run.plan.launches}
        cells = max(1, len(stored.run.plan.workloads))
        trials = sum(max(1, rounds[one.index]) for one in done)
        repeat_s = sum(one.requests_s for one in done) * cells / trials
        return Prices(max(relaunch_s + building_s, 1e-3), max(relaunch_s, 1e-3), max(repeat_s, 1e-3))
    return usual


def _runs(results: Path, question: Question) -> Iterator[tuple[Path, StoredRun]]:
    names = (question.experiment, f"{question.experiment}-bisect")
    known = [one for one in runs(results) if one.experiment in names]
    for one in reversed(known[-MOST_RUNS:]):
        try:
            stored = open_run(one.path)
            if stored.launches:
                yield one.path, stored
        except HarnessError:
            continue
