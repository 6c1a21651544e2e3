"""A campaign: it asks its hunts what to measure, has it measured, and stores what was asked.

Everything is worked out anew from the state and the run after each block, so a campaign that was killed goes
on where it stopped, and one that is over can be told again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from benchharness import execute
from benchharness.bisect.session import observed, state
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.deciding import Ended, Wanted
from benchharness.bisect.session.factor_hunt import FactorHunt
from benchharness.bisect.session.legs import Legs
from benchharness.bisect.session.standing import Standing
from benchharness.bisect.session.state import Place, Role, Skipped, State, Step
from benchharness.bisect.session.swap_hunt import SwapHunt
from benchharness.errors import UsageError
from benchharness.execute import Observer
from benchharness.records import Launch, Plan, PlannedLaunch, Stack
from benchharness.store import RunFolder, open_run

Hunt = AxisHunt | FactorHunt | SwapHunt


@dataclass
class Campaign:
    """One campaign, open for going on.

    Attributes:
        folder: the run that holds its launches.
        state: as last written.
        legs: makes stacks of places, and finds what follows a leg.
        cache: environments, sources and models.
        tell: hears what is looked up.
    """

    folder: RunFolder
    state: State
    legs: Legs
    cache: Path
    tell: Callable[[str], None]
    _made: dict[str, Stack] = field(default_factory=dict)

    def standing(self) -> Standing:
        """What is known now."""
        return Standing(self.folder.path, self.state, open_run(self.folder.path), self.legs)

    def next(self) -> Wanted | Ended:
        """What to measure next, or how the campaign ended; opens the leg that follows one that is over."""
        while True:
            attested = self.legs.attested(self.standing())
            if attested != self.state:
                self.write(attested)
            standing = self.standing()
            found = standing.next()
            last = standing.ended(len(self.state.legs) - 1)
            further = self.legs.following(standing, last) if last is not None else None
            if further is None:
                return found
            self.write(replace(self.state, legs=(*self.state.legs, further)))

    def write(self, new: State) -> None:
        """Store the state from which the campaign goes on."""
        self.state = new
        state.write(self.folder.path, new)

    def finish_begun(self, observer: Observer) -> None:
        """Carry out what was asked for and did not end: the last launches of a campaign that was killed."""
        planned = len(self.folder.run.plan.launches)
        steps = tuple(s for s in self.state.steps if s.launch is None or s.launch < planned)
        if steps != self.state.steps:
            self.write(replace(self.state, steps=steps))
        over = {launch.index for launch in open_run(self.folder.path).launches}
        for step in steps:
            if step.launch is not None and step.launch not in over:
                self._launch(step.launch, observer)

    def measure(self, wanted: Wanted, observer: Observer) -> None:
        """Carry out one block."""
        places = self._usable(wanted.places)
        if not places:
            return
        block = 1 + max((step.block for step in self.state.steps), default=-1)
        plan = self._longer(places, block, wanted.repeats)
        first = len(self.folder.run.plan.launches)
        leg = len(self.state.legs) - 1
        for offset, place in enumerate(places):
            made = Step(leg, wanted.role, place.label, block, wanted.reason, first + offset, at=_now())
            self.state = self.state.with_step(made)
        self.write(self.state)
        self.folder.extend(plan)
        for offset in range(len(places)):
            self._launch(first + offset, observer)

    def _usable(self, places: Sequence[Place]) -> list[Place]:
        """Places of a block; new ones join their leg, and one that can be seen to be wrong is taken out."""
        for place in places:
            self.write(_with_place(self.state, place))
            try:
                self.stack(place)
            except UsageError as error:
                self.write(refused(self.state, place, error.message))
                return []
        return list(places)

    def stack(self, place: Place) -> Stack:
        """The stack of a place, its commit named in full; UsageError where it can be seen to be wrong."""
        plan = self.folder.run.plan
        known = {stack.name for stack in plan.stacks}
        if place.stack in known:
            return plan.stack(place.stack)
        if place.stack in self._made:
            return self._made[place.stack]
        made = self.legs.stack(self.standing(), self.state.legs[-1], place)
        alone = replace(plan, stacks=(made,))
        execute.check(alone)
        resolved = execute.resolve(alone, self.cache, self.tell)
        self.folder.keep_diffs(execute.diffs(resolved, self.cache))
        self._made[place.stack] = resolved.stacks[0]
        return resolved.stacks[0]

    def _longer(self, places: Sequence[Place], block: int, repeats: int) -> Plan:
        plan = self.folder.run.plan
        stacks = {stack.name: stack for stack in plan.stacks}
        for place in places:
            stacks.setdefault(place.stack, self.stack(place))
        random_ = random.Random(f"{self.state.question.seed} {block}")  # noqa: S311 - an order, not a secret
        order = self._cells(repeats, random_)
        seed = random_.getrandbits(32)
        first = len(plan.launches)
        new = tuple(
            PlannedLaunch(first + offset, block, place.stack, order, seed)
            for offset, place in enumerate(places)
        )
        return replace(plan, stacks=tuple(stacks.values()), launches=(*plan.launches, *new))

    def _launch(self, index: int, observer: Observer) -> None:
        began = time.monotonic()
        last = index == len(self.folder.run.plan.launches) - 1
        further = self._stay if last else None
        execute.run(self.folder, self.cache, observer, last=False, only=(index,), further=further)
        self.write(self.state.ended(index, time.monotonic() - began))

    def _stay(self, running: Launch) -> Sequence[int]:
        """Workloads to drive once more in the launch that runs, where that tells most for its time."""
        coming = Standing.of(self.folder.path, self.legs, running).next()
        if not (isinstance(coming, Wanted) and coming.stay):
            return ()
        return self._cells(coming.repeats, random.Random(running.seed))  # noqa: S311

    def _cells(self, repeats: int, random_: random.Random) -> tuple[int, ...]:
        """All cells in random order, so many times."""
        cells = range(len(self.folder.run.plan.workloads))
        return tuple(cell for _ in range(repeats) for cell in random_.sample(cells, len(cells)))

    def skip(self, label: str, reason: str) -> Place:
        """Take a place out of the leg that goes on; UsageError for an end or an unknown one."""
        leg = self.state.legs[-1]
        place = leg.place(label)
        if place in (leg.places[0], leg.places[-1] if leg.kind == "axis" else leg.places[1]):
            raise UsageError(f"{label} is an end of the campaign", "begin another one with other ends")
        one = Skipped(len(self.state.legs) - 1, label, reason)
        self.write(replace(self.state, skipped=(*self.state.skipped, one)))
        return place

    def enter(self, label: str, value: float) -> None:
        """A value that was measured elsewhere; UsageError where it can't be one."""
        place = self.state.legs[-1].place(label)
        if observed.scaled(self.state.question.metric, value) is None:
            raise UsageError(f"{value:g} is no {self.state.question.metric}", "enter a positive figure")
        block = 1 + max((step.block for step in self.state.steps), default=-1)
        leg = len(self.state.legs) - 1
        made = Step(leg, Role.HAND, place.label, block, "entered by hand", None, value, _now(), 0.0)
        self.write(self.state.with_step(made))

    def end(self) -> None:
        """Mark the run as finished."""
        self.folder.finish()


def _with_place(now: State, place: Place) -> State:
    leg = now.legs[-1]
    if any(known.label == place.label for known in leg.places):
        return now
    return replace(now, legs=(*now.legs[:-1], replace(leg, places=(*leg.places, place))))


def refused(now: State, place: Place, why: str) -> State:
    """The place is marked in its leg, so that every hunt knows it for one that can't be measured."""
    leg = now.legs[-1]
    places = tuple(replace(one, unusable=why) if one.label == place.label else one for one in leg.places)
    return replace(now, legs=(*now.legs[:-1], replace(leg, places=places)))


def _now() -> str:
    return datetime.now(UTC).astimezone().isoformat(timespec="seconds")
