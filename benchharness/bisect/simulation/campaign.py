"""The search on a simulated machine, one move at a time, and plain bisection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchharness.bisect.search import (
    Axis,
    Belief,
    Limits,
    Move,
    Observation,
    Reason,
    Stop,
    believe,
    next_move,
)
from benchharness.bisect.search.problem import Floats
from benchharness.bisect.simulation.machine import Machine
from benchharness.bisect.simulation.outcome import Outcome
from benchharness.bisect.simulation.scene import Scene
from benchharness.stats import twolevel


class Campaign:
    """A search on a machine, one move at a time.

    Args:
        machine: what is measured.
        confidence: at which the search stops.
        limits: when it ends in any case.
    """

    def __init__(self, machine: Machine, confidence: float, limits: Limits | None = None) -> None:
        self.machine = machine
        self.axis = Axis(machine.scene.versions)
        self.confidence = confidence
        self.limits = limits or Limits()
        self.prior = machine.scene.prior()
        self._values: list[tuple[int, int, Floats]] = []
        self._blocks = 0

    def observations(self) -> list[Observation]:
        """What was measured, as the search is told."""
        lag = twolevel.lag_one([values for _, _, values in self._values]) if self.machine.scene.lag else 0.0
        shown = []
        for point, block, values in self._values:
            scatter = float(((values - values.mean()) ** 2).sum())
            effective = twolevel.effective_requests(len(values), lag)
            shown.append(Observation(point, float(values.mean()), len(values), scatter, block, effective))
        return shown

    def run(self) -> Outcome:
        """Go on until the search stops."""
        while True:
            shown = self.observations()
            belief = believe(self.axis, shown, self.prior)
            running = len(shown) - 1 if shown else None
            limits = replace(self.limits, spent_s=self.machine.seconds)
            move = next_move(
                self.axis,
                shown,
                belief,
                self.machine.prices,
                self.confidence,
                limits=limits,
                running=running,
                prior=self.prior,
            )
            if isinstance(move, Stop):
                return self._outcome(move, belief)
            self._carry_out(move)

    def _carry_out(self, move: Move) -> None:
        if move.stay:
            point, block, values = self._values[-1]
            self._values[-1] = point, block, np.append(values, self.machine.measure(move.repeats))
            return
        # Without drift there is nothing that blocks could share.
        self._blocks += self.machine.scene.drift > 0
        for point in (move.point,) if move.beside is None else (move.point, move.beside):
            if self.machine.launch(point):
                self._values.append((point, self._blocks, self.machine.measure(move.repeats)))
            else:
                self.axis = replace(self.axis, unusable=self.axis.unusable | {point})

    def _outcome(self, stop: Stop, belief: Belief) -> Outcome:
        machine = self.machine
        named = stop.reason != Reason.CANNOT_TELL and (stop.good, stop.bad) == machine.truth()
        return Outcome(
            named,
            stop.reason,
            belief.confidence,
            machine.measurements,
            machine.launches,
            machine.seconds / 3600,
        )


def campaign(scene: Scene, confidence: float, seed: Sequence[int], limits: Limits | None = None) -> Outcome:
    """One campaign; the seed alone decides what is drawn."""
    random = np.random.default_rng(list(seed))
    machine = Machine(scene, random, int(random.integers(0, scene.versions - 1)))
    return Campaign(machine, confidence, limits).run()


def plain(scene: Scene, repeats: int, seed: Sequence[int]) -> Outcome:
    """Plain bisection: one launch a version, called bad where its mean is nearer to the bad end's.

    Both ends are measured once, as versions are: a threshold has to come from somewhere. Versions that can't
    be built are passed over to the next that can.
    """
    random = np.random.default_rng(list(seed))
    machine = Machine(scene, random, int(random.integers(0, scene.versions - 1)))
    low, high = 0, scene.versions - 1
    levels = [_mean(machine, end, repeats) for end in (low, high)]
    skipped: set[int] = set()
    while inner := [point for point in range(low + 1, high) if point not in skipped]:
        middle = inner[(len(inner) - 1) // 2]
        value = _mean(machine, middle, repeats)
        if value is None:
            skipped.add(middle)
        elif abs(value - (levels[1] or 0.0)) < abs(value - (levels[0] or 0.0)):
            high = middle
        else:
            low = middle
    return Outcome(
        (low, high) == machine.truth(),
        Reason.FOUND,
        float("nan"),
        machine.measurements,
        machine.launches,
        machine.seconds / 3600,
    )


def _mean(machine: Machine, point: int, repeats: int) -> float | None:
    return float(machine.measure(repeats).mean()) if machine.launch(point) else None
