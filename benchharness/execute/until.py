"""Rounds of launches until every cell is decided or a budget is spent.

The experiment's own launches are the first round. After each round the data are looked at, at the part of
the level that this look may spend (`stats/looks.py`); then the plan grows (`plan.longer`) by as many launches
as the open cells ask for. What was looked at is kept in the run's folder, so that `--resume` spends no level
twice.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pandas as pd

from benchharness import plan as plans
from benchharness.errors import UsageError
from benchharness.execute import loop
from benchharness.execute.observer import Observer
from benchharness.metrics import METRICS, Metric
from benchharness.records import LaunchStatus, Plan
from benchharness.records.goal import Goal, Looks, TakenLook
from benchharness.stats import compare, duet, looks, until
from benchharness.stats.client_error import ClientError
from benchharness.stats.compare import Cell
from benchharness.stats.judging import EQUIVALENCE_LEVEL
from benchharness.stats.launch_means import launch_means, plain_metrics
from benchharness.stats.until import Outcome
from benchharness.store import RunFolder, StoredRun, open_run
from benchharness.store import looks as stored_looks


class Told(Protocol):
    """How a run gets word to people."""

    def round(self, left: Plan) -> AbstractContextManager[Observer]:
        """Who hears the launches that are about to be made."""

    def line(self, text: str) -> None:
        """One line, between rounds."""


def check(plan: Plan, goal: Goal) -> None:
    """Refuse what can never be decided; UsageError."""
    if len(plan.stacks) < 2:
        raise UsageError(
            "--until decided compares every stack with the first one, and this experiment has one stack",
            "give its matrix two values, or run it without --until",
        )
    plans.longer(plan, 1)
    own = plans.launches_of_each(plan)
    if goal.most_launches < max(own, looks.FEWEST):
        raise UsageError(
            f"--most-launches {goal.most_launches} is less than the {max(own, looks.FEWEST)} launches of "
            "each stack that are made in any case",
            "give a larger number, or lower measure.launches",
        )


def run(
    folder: RunFolder, cache: Path, declared: Plan, goal: Goal, most_minutes: float | None, told: Told
) -> Outcome:
    """Carry out a run, and add to it until it is decided.

    Args:
        folder: the run, new or begun.
        cache: environments, sources and models.
        declared: the experiment's own plan: its launches are made in any case.
        goal: what is to be decided.
        most_minutes: budget of time for what is added; None for none.
        told: who is told.

    Raises as `loop.run` does; UsageError if the run has set out to decide something else before.
    """
    campaign = _Campaign(folder, declared, goal, most_minutes, told)
    campaign.begin()
    while True:
        campaign.make_round(cache)
        cells = campaign.look()
        reason = campaign.over(cells) or campaign.grow(cells)
        if reason:
            folder.finish()
            return campaign.outcome(cells, reason)


class _Campaign:
    """One run on its way to a decision."""

    def __init__(
        self, folder: RunFolder, declared: Plan, goal: Goal, most_minutes: float | None, told: Told
    ) -> None:
        self.folder = folder
        self.goal = goal
        self.told = told
        self.planned = looks.planned(plans.launches_of_each(declared), goal.most_launches)
        self.kept = _kept(folder, goal)
        self.rounds = 0
        self.began = time.monotonic()
        self.most_minutes = most_minutes

    @property
    def launches(self) -> int:
        """Of each stack, made or planned."""
        return plans.launches_of_each(self.folder.run.plan)

    @property
    def last(self) -> int:
        """Index of the last look that was taken; -1 for none."""
        return self.kept.taken[-1].at if self.kept.taken else -1

    @property
    def level(self) -> float:
        """What the last look may spend."""
        return (1 - self.goal.confidence) * self.planned[self.last].share

    def begin(self) -> None:
        """One launch of each stack is nothing to look at."""
        missing = self.planned[0].launches - self.launches
        if missing > 0:
            self.folder.extend(plans.longer(self.folder.run.plan, missing))

    def make_round(self, cache: Path) -> None:
        """Make what is left of the plan."""
        left = plans.without(self.folder.run.plan, self.folder.done())
        if left.launches:
            with self.told.round(left) as observer:
                loop.run(self.folder, cache, observer, last=False)
            self.rounds += 1

    def look(self) -> tuple[Cell, ...]:
        """Compare what is stored; the same data as last time are no further look."""
        if not self.kept.taken or self.kept.taken[-1].launches != self.launches:
            at = min(looks.taken(self.planned, self.last, self.launches), len(self.planned) - 1)
            taken = (*self.kept.taken, TakenLook(at, self.launches))
            self.kept = replace(self.kept, taken=taken)
            stored_looks.keep(self.folder.path, self.kept)
        return compared(open_run(self.folder.path), self.goal, self.planned[self.last].share)

    def over(self, cells: Sequence[Cell]) -> str:
        """Why launches of any number would change nothing; empty where they might."""
        done = [cell for cell in cells if cell.verdict in until.DECIDED]
        self.told.line(
            f"look {self.last + 1} of {len(self.planned)}, {self.launches} launches of each stack, level "
            f"{self.level:.2%}: {len(done)} of {len(cells)} cells are decided"
        )
        failed = Counter(
            launch.stack for launch in open_run(self.folder.path).launches if loop.has_failed(launch)
        )
        dead = [name for name, count in failed.items() if count >= loop.MOST_FAILED_STARTS]
        if cells and len(done) == len(cells):
            return "every cell is decided"
        if dead:
            return f"{loop.MOST_FAILED_STARTS} launches of {', '.join(dead)} failed"
        if not cells:
            return "neither side has a valid figure for these metrics"
        if until.wanted(cells) is None:
            return "no number of launches would decide what is open, as things look"
        return ""

    def grow(self, cells: Sequence[Cell]) -> str:
        """Add launches to the plan; why not, where a budget is spent."""
        wanted = until.wanted(cells) or 1
        at = looks.following(self.planned, self.last, self.launches, wanted)
        if at == len(self.planned):
            return f"the budget of {self.goal.most_launches} launches of each stack is spent"
        further = self.planned[at].launches - self.launches
        seconds = self._seconds_a_launch_of_each()
        if self.most_minutes is not None:
            left_s = self.most_minutes * 60 - (time.monotonic() - self.began)
            further = min(further, int(left_s / max(seconds, 1e-3)))
            if further < 1:
                return (
                    f"the budget of {self.most_minutes:g} minutes is spent: one more launch of each stack "
                    f"takes about {seconds / 60:.1f}"
                )
        budget = self.goal.most_launches - self.launches
        minutes = min(wanted, budget) * seconds / 60
        self.told.line(
            f"{further} more of each stack next; about {wanted} would decide what is open, and {budget} are "
            f"left in the budget (about {minutes:.1f} min for that)"
        )
        self.folder.extend(plans.longer(self.folder.run.plan, further))
        return ""

    def _seconds_a_launch_of_each(self) -> float:
        """Of this run's own launches."""
        launches = open_run(self.folder.path).launches
        spent = sum(one.start_s + one.requests_s + one.stop_s for one in launches)
        each = len({(one.block, one.stack) for one in launches}) / max(self.launches, 1)
        return spent / max(len(launches), 1) * each

    def outcome(self, cells: tuple[Cell, ...], reason: str) -> Outcome:
        """What came of it."""
        return Outcome(
            decided=bool(cells) and not until.open_cells(cells),
            reason=reason,
            rounds=self.rounds,
            launches=self.launches,
            minutes=(time.monotonic() - self.began) / 60,
            look=self.last + 1,
            looks=len(self.planned),
            level=self.level,
            baseline=self.folder.run.plan.stacks[0].name,
            cells=cells,
        )


def _kept(folder: RunFolder, goal: Goal) -> Looks:
    """What the run has looked at so far; UsageError if that was for another goal."""
    kept = stored_looks.kept(folder.path)
    if kept is None:
        return Looks(goal)
    if kept.goal != goal:
        was = kept.goal
        raise UsageError(
            f"this run has looked at its data {len(kept.taken)} times for {', '.join(was.metrics)} at a "
            f"margin of {was.margin:.3g} and at most {was.most_launches} launches: a look for something else "
            "would have no level left",
            "resume with the same --metric, --margin and --most-launches, or make a new run",
        )
    return kept


def compared(stored: StoredRun, goal: Goal, share: float) -> tuple[Cell, ...]:
    """Every stack that could be built against the first one, at a share of the level."""
    metrics = [METRICS[name] for name in goal.metrics]
    built = {one.stack for one in stored.launches if one.status != LaunchStatus.UNBUILDABLE}
    baseline, *others = (stack.name for stack in stored.run.plan.stacks)
    client = ClientError.of([stored.run.client], client_cycles=stored.client_cycles)
    paired = stored.run.plan.pairing == plans.DUET
    cells: list[Cell] = []
    for name in others:
        if name in built:
            first, second = _sides(stored, baseline, name, metrics, paired=paired)
            cells += compare.compare(
                first,
                second,
                metrics,
                stack=name,
                same_run=True,
                margin=goal.margin,
                confidence=1 - (1 - goal.confidence) * share,
                equivalence_level=EQUIVALENCE_LEVEL * share,
                client=client,
                duet=paired,
            )
    return tuple(cells)


def _sides(
    stored: StoredRun, first: str, second: str, metrics: Sequence[Metric], *, paired: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    connections = stored.connect(first), stored.connect(second)
    if paired:
        return duet.sides(*connections, metrics)
    every = tuple(dict.fromkeys((*plain_metrics(), *metrics)))
    return launch_means(connections[0], every), launch_means(connections[1], every)
