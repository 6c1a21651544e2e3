"""Whole campaigns on a simulated machine: the hunt that real ones follow, with drawn launches (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchharness.bisect.search import Prior, Reason
from benchharness.bisect.search.problem import Floats
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.confidence import held
from benchharness.bisect.session.deciding import Ended, Outcome, Wanted
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.observed import Observed
from benchharness.bisect.session.state import Place, Role
from benchharness.bisect.simulation import Machine, Scene
from benchharness.bisect.simulation import Outcome as Simulated

KNOWN_FREEDOM = 20.0
"""Degrees of freedom of deviations that are known beforehand: earlier runs tell no more of them."""

_TOLD = {Outcome.FOUND: Reason.FOUND, Outcome.RANGE: Reason.RANGE}


@dataclass(frozen=True)
class Budget:
    """What a campaign may take.

    Attributes:
        launches: so many.
        hours: of wall time; None for any.
    """

    launches: int = 150
    hours: float | None = None


@dataclass(frozen=True)
class Rehearsed:
    """How a campaign ended.

    Attributes:
        outcome: as the campaign tells it.
        right: it named the change, or the shortest range that usable points allow.
        confidence: that its verdict would state; NaN where it names neither point nor range.
        launches: by what they were for; those that came to nothing count too, those made before do not.
        measurements: repeats of all launches.
        hours: by the machine's clock.
    """

    outcome: Outcome
    right: bool
    confidence: float
    launches: Mapping[Role, int]
    measurements: int
    hours: float


@dataclass(frozen=True)
class Scale:
    """How the machine's deviations become values of a hunt.

    Attributes:
        good: value of the good end.
        unit: value of one deviation; below 0 where the bad end is the lower one.
    """

    good: float
    unit: float


class Rehearsal:
    """One campaign, from where its hunt stands to its end.

    Args:
        machine: what is measured; its clock begins where it stands.
        hunt: as it stands; a new one has observed nothing.
        scale: of the values.
        budget: what is left of it.
    """

    def __init__(self, machine: Machine, hunt: AxisHunt, scale: Scale, budget: Budget) -> None:
        self._machine = machine
        self._hunt = hunt
        self._scale = scale
        self._budget = budget
        self._seen = list(hunt.observed)
        self._before = len(self._seen)
        self._running: Floats | None = None
        self._at = {place.stack: index for index, place in enumerate(hunt.places)}

    def run(self) -> Rehearsed:
        """Go on until the campaign ends."""
        while True:
            ended = self.step()
            if ended is not None:
                return ended

    def step(self) -> Rehearsed | None:
        """One block, or more trials in the launch that runs; how the campaign ended, once it did."""
        hunt = self.hunt
        coming = hunt.next()
        if isinstance(coming, Wanted) and self._is_spent(coming):
            coming = Ended(Outcome.BUDGET, "no more is allowed")
        if isinstance(coming, Ended):
            return self._ended(hunt, coming)
        if coming.stay:
            self._stay(coming.repeats)
        else:
            self._measure(coming)
        return None

    @property
    def hunt(self) -> AxisHunt:
        """The hunt after what was seen, while its last launch runs. Where it does not stay in that one, it
        wants what it would want after its end, so it need not be asked twice."""
        running = self._seen[-1].launch if self._running is not None else None
        prices = self._machine.prices
        return replace(self._hunt, observed=tuple(self._seen), running=running, prices=prices)

    def _is_spent(self, coming: Wanted) -> bool:
        more = 0 if coming.stay else len(coming.places)
        hours = self._budget.hours
        return self._made + more > self._budget.launches or (
            hours is not None and self._machine.seconds / 3600 >= hours
        )

    @property
    def _made(self) -> int:
        return len(self._seen) - self._before

    def _measure(self, wanted: Wanted) -> None:
        """One block of launches."""
        block = 1 + max((one.block for one in self._seen), default=-1)
        for place in wanted.places:
            starts = self._machine.launch(self._at[place.stack])
            self._running = self._machine.measure(wanted.repeats) if starts else None
            self._seen.append(self._observed(place, wanted.role, block))

    def _stay(self, repeats: int) -> None:
        """More trials in the launch that runs."""
        if self._running is None:
            raise RuntimeError("the hunt stays in a launch that does not run")
        self._running = np.append(self._running, self._machine.measure(repeats))
        self._seen[-1] = self._measured(self._seen[-1], self._running)

    def _observed(self, place: Place, role: Role, block: int) -> Observed:
        index = len(self._seen)
        made = Observed(index, 0, role, place.label, block, place.stack, index, value=None)
        if self._running is None:
            return replace(made, unknown="can't be built", unbuildable=True)
        return self._measured(made, self._running)

    def _measured(self, made: Observed, drawn: Floats) -> Observed:
        values = self._scale.good + self._scale.unit * drawn
        mean = float(values.mean())
        scatter = float(((values - mean) ** 2).sum())
        return replace(made, value=mean, repeats=values.size, scatter=scatter)

    def so_far(self) -> Rehearsed:
        """What it took by now, as if the budget were spent."""
        return self._ended(self.hunt, Ended(Outcome.BUDGET, "cut short"))

    def _ended(self, hunt: AxisHunt, ended: Ended) -> Rehearsed:
        good, bad = (hunt.places.index(place) for place in hunt.suspects())
        ends = hunt.ends()
        told = ended.outcome in _TOLD and isinstance(ends, Difference)
        return Rehearsed(
            ended.outcome,
            told and (good, bad) == self._machine.truth(),
            held(hunt, ends) if told and isinstance(ends, Difference) else float("nan"),
            Counter(one.role for one in self._seen[self._before :]),
            self._machine.measurements,
            self._machine.seconds / 3600,
        )


def rehearse(
    scene: Scene, confidence: float, seed: Sequence[int], budget: Budget | None = None, repeats: int = 1
) -> Rehearsed:
    """One whole campaign from its first launch; the seed alone decides what is drawn."""
    random = np.random.default_rng(list(seed))
    machine = Machine(scene, random, int(random.integers(0, scene.versions - 1)))
    places = tuple(Place(f"v{index}", f"v{index}") for index in range(scene.versions))
    hunt = AxisHunt(places, (), {}, confidence, repeats, scene.prices, _known(scene))
    return Rehearsal(machine, hunt, Scale(0.0, scene.deviation), budget or Budget()).run()


def told(scene: Scene, confidence: float, seed: Sequence[int], budget: Budget | None = None) -> Simulated:
    """One whole campaign, as a search alone tells of itself."""
    one = rehearse(scene, confidence, seed, budget)
    reason = _TOLD.get(one.outcome, Reason.CANNOT_TELL)
    count = sum(one.launches.values())
    return Simulated(one.right, reason, one.confidence, one.measurements, count, one.hours)


def _known(scene: Scene) -> Prior | None:
    """What earlier runs would have told: how launches and repeats differ, never the levels."""
    if not scene.known:
        return None
    known = scene.prior()
    if known.between_sd is None or known.within_sd is None:
        return None
    return Prior(
        between_sd=known.between_sd * scene.deviation,
        within_sd=known.within_sd * scene.deviation,
        between_weight=KNOWN_FREEDOM,
        within_weight=KNOWN_FREEDOM,
    )
