"""What a campaign measures on a simulated machine, and the clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchharness.bisect.search import Prices
from benchharness.bisect.search.problem import Floats
from benchharness.bisect.simulation.scene import Scene, Tails

_SLOW = 0.6
"""Chance that a start draws the slow mode."""


class Machine:
    """Draws what a campaign would measure, and keeps the clock.

    Args:
        scene: what is simulated.
        random: where chance comes from.
        change: the last good version.
        broken: versions that can't be built; None for those of the scene.
    """

    def __init__(
        self,
        scene: Scene,
        random: np.random.Generator,
        change: int,
        broken: frozenset[int] | None = None,
    ) -> None:
        self.scene = scene
        self.change = change
        self.seconds = 0.0
        self.launches = 0
        self.measurements = 0
        self.built = set(scene.prices.built)
        self._random = random
        self._hole = scene.hole() if broken is None else broken
        self._drift = scene.drift * random.standard_normal()
        self._level = 0.0
        self._noise = 0.0

    def truth(self) -> tuple[int, int]:
        """(last good, first bad) of the versions that can be built."""
        usable = [point for point in range(self.scene.versions) if point not in self._hole]
        below = max(point for point in usable if point <= self.change)
        return below, min(point for point in usable if point > self.change)

    @property
    def prices(self) -> Prices:
        """What measuring costs now."""
        return replace(self.scene.prices, built=frozenset(self.built))

    def launch(self, point: int) -> bool:
        """Start a launch; False where the version can't be built."""
        self._pass(self.prices.launch_s(point))
        if point in self._hole:
            return False
        self.built.add(point)
        self.launches += 1
        effect = self.scene.effect if point > self.change else 0.0
        self._level = effect + np.sqrt(self.scene.rho) * self._draw()
        self._noise = self._draw_repeat()
        return True

    def measure(self, repeats: int) -> Floats:
        """Measure in the launch that runs."""
        values = np.empty(repeats)
        for i in range(repeats):
            self._pass(self.scene.prices.repeat_s)
            values[i] = self._level + self._drift + np.sqrt(1 - self.scene.rho) * self._noise
            fresh = self._draw_repeat()
            self._noise = self.scene.lag * self._noise + np.sqrt(1 - self.scene.lag**2) * fresh
        self.measurements += repeats
        return values

    def _pass(self, seconds: float) -> None:
        self.seconds += seconds
        if self.scene.drift:
            kept = np.exp(-seconds / self.scene.drift_s)
            self._drift = kept * self._drift
            self._drift += self.scene.drift * np.sqrt(1 - kept**2) * self._random.standard_normal()

    def _draw(self) -> float:
        if self.scene.tails == Tails.MODES:
            slow = self._random.random() < _SLOW
            return float((slow - _SLOW) / np.sqrt(_SLOW * (1 - _SLOW)))
        return self._draw_repeat()

    def _draw_repeat(self) -> float:
        if self.scene.tails == Tails.T3:
            return float(self._random.standard_t(3) / np.sqrt(3))
        if self.scene.tails == Tails.LOGNORMAL:
            drawn = np.exp(self._random.standard_normal())
            return float((drawn - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e))
        return float(self._random.standard_normal())
