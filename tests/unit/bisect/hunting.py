"""A machine that is a function: hunts and whole campaigns, asked and answered without a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchharness.bisect.search import Prices
from benchharness.bisect.session.axes import Choice
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.deciding import Ended, Wanted
from benchharness.bisect.session.factoring import first_leg
from benchharness.bisect.session.legs import Legs
from benchharness.bisect.session.observed import Observed
from benchharness.bisect.session.question import Question
from benchharness.bisect.session.standing import Standing
from benchharness.bisect.session.state import Leg, Place, State, Step
from benchharness.records import Model, Plan, Run, Source, Stack
from benchharness.store import StoredRun

PRICES = Prices(cold_s=300, relaunch_s=60, repeat_s=5)


@dataclass
class Machine:
    """Measures places: by a value for each launch, or by why there is none.

    Attributes:
        launch: place's label -> logarithm of the launch's value.
        broken: label -> why it can't be built.
        seen: what was measured so far.
    """

    launch: Callable[[str], float]
    broken: Mapping[str, str] = field(default_factory=dict)
    seen: list[Observed] = field(default_factory=list)

    def measure(self, wanted: Wanted) -> None:
        """One block."""
        block = 1 + max((one.block for one in self.seen), default=-1)
        for place in wanted.places:
            why = self.broken.get(place.label, "")
            value = None if why else self.launch(place.label)
            index = len(self.seen)
            self.seen.append(
                Observed(
                    step=index,
                    leg=0,
                    role=wanted.role,
                    place=place.label,
                    block=block,
                    stack=place.stack,
                    launch=index,
                    value=value,
                    repeats=wanted.repeats,
                    unknown=why,
                    unbuildable=bool(why),
                )
            )


def axis(labels: Sequence[str]) -> tuple[Place, ...]:
    return tuple(Place(label, label) for label in labels)


def hunted(
    places: tuple[Place, ...], machine: Machine, confidence: float = 0.95, most: int = 150
) -> tuple[AxisHunt, Ended | None]:
    """A whole hunt: the last state of it, and how it ended; None where it did not within the budget."""
    while True:
        hunt = AxisHunt(places, tuple(machine.seen), {}, confidence, 1, PRICES)
        coming = hunt.next()
        if isinstance(coming, Ended):
            return hunt, coming
        if len(machine.seen) >= most:
            return hunt, None
        machine.measure(coming)


NOTHING = StoredRun(Path("nowhere"), Run("", "", "", {}, Plan("e", (), (), (), "", 1), ""))
"""A run without launches."""


class Simulated(Standing):
    """A campaign whose launches are told instead of stored."""

    told: tuple[Observed, ...] = ()

    @property
    def seen(self) -> tuple[Observed, ...]:  # type: ignore[override]
        return self.told


MOST_LEGS = 40
"""No campaign here comes near: one that does goes round in circles."""


@dataclass
class World:
    """A whole campaign on stacks whose launches are a function of the stack."""

    launch: Callable[[Stack], float]
    legs: Legs
    state: State
    seen: list[Observed] = field(default_factory=list)
    unbuildable: Callable[[Stack], bool] = lambda _: False

    def standing(self) -> Simulated:
        standing = Simulated(Path("nowhere"), self.state, NOTHING, self.legs)
        object.__setattr__(standing, "told", tuple(self.seen))
        return standing

    def run(self, *, every: bool = True, most: int = 200) -> tuple[Simulated, Wanted | Ended]:
        """Go on to the end, as `Campaign` does."""
        asked = replace(self.state.question, every=every, most_launches=most)
        self.state = replace(self.state, question=asked)
        while True:
            standing = self.standing()
            last = standing.ended(len(self.state.legs) - 1)
            further = self.legs.following(standing, last) if last is not None else None
            if further is not None:
                self.state = replace(self.state, legs=(*self.state.legs, further))
                assert len(self.state.legs) <= MOST_LEGS, [leg.notes for leg in self.state.legs]
                continue
            coming = standing.next()
            if isinstance(coming, Ended):
                return standing, coming
            self.measure(standing, coming)

    def measure(self, standing: Standing, wanted: Wanted) -> None:
        """One block."""
        block, at = 1 + max((one.block for one in self.seen), default=-1), len(self.state.legs) - 1
        for place in wanted.places:
            leg = self.state.legs[-1]
            if all(known.label != place.label for known in leg.places):
                leg = replace(leg, places=(*leg.places, place))
                self.state = replace(self.state, legs=(*self.state.legs[:-1], leg))
            stack = self.legs.stack(standing, leg, place)
            gone = self.unbuildable(stack)
            index = len(self.seen)
            value = None if gone else self.launch(stack)
            self.state = self.state.with_step(Step(at, wanted.role, place.label, block, "", index))
            self.seen.append(
                Observed(
                    index,
                    at,
                    wanted.role,
                    place.label,
                    block,
                    place.stack,
                    index,
                    value,
                    wanted.repeats,
                    unknown="no wheel" if gone else "",
                    unbuildable=gone,
                )
            )


def stack(name: str, **parts: Any) -> Stack:
    """A stack of the stand-in."""
    source = Source(repo="synthetic", commit=parts.pop("commit", None))
    return Stack(name=name, engine="standin", source=source, model=Model(), **parts)


def on_axis(launch: Callable[[Stack], float], labels: Sequence[str], confidence: float = 0.95) -> World:
    """A campaign over the versions of one package."""
    question = Question("e", "axis", "x", labels[0], labels[-1], "s", "cycle_ms", (16,), confidence)
    places = tuple(Place(label, label, {"packages.x": label}) for label in labels)
    legs = Legs({"s": stack("s")}, Choice({}))
    return World(launch, legs, State("id", question, (Leg("axis", "x", "s", places),)))


def on_factors(
    launch: Callable[[Stack], float],
    good: Mapping[str, str],
    bad: Mapping[str, str],
    values: Mapping[str, Sequence[str]] | None = None,
) -> World:
    """A campaign over the variables in which two stacks differ."""
    stacks = {"good": stack("good", env=good), "bad": stack("bad", env=bad)}
    question = Question("e", "factors", "", "good", "bad", "", "cycle_ms", (16,))
    legs = Legs(stacks, Choice(values or {}))
    return World(launch, legs, State("id", question, (first_leg(stacks, question),)))
