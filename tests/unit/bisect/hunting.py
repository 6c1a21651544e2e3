"""A machine that is a function: hunts asked and answered without a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchharness.bisect.search import Prices
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.deciding import Ended, Wanted
from benchharness.bisect.session.observed import Observed
from benchharness.bisect.session.state import Place

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
