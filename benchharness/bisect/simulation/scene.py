"""A simulated machine: how it spreads, what it charges, and the change to be found on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from benchharness.bisect.search.problem import KNOWN, Prices, Prior
from benchharness.errors import UsageError

PRICED = Prices(cold_s=420.0, relaunch_s=120.0, repeat_s=15.0)
"""An engine built from source, as in docs/method.md."""

EQUAL = Prices(cold_s=0.0, relaunch_s=0.0, repeat_s=15.0)
"""Launches cost nothing: measurements alone count."""


class Tails(StrEnum):
    """How launches (and repeats, but for the modes) are spread."""

    GAUSS = "gauss"
    T3 = "t3"
    LOGNORMAL = "lognormal"
    MODES = "modes"


@dataclass(frozen=True)
class Scene:
    """A simulated machine and the change to be found on it.

    Attributes:
        versions: points of the axis.
        effect: the change, in deviations of one measurement.
        rho: share of the variance that lies between launches.
        prices: what measuring costs.
        known: whether levels, deviations and the size of the change are known beforehand.
        tails: how launches and repeats are spread, to the same deviations.
        lag: correlation of neighbouring repeats of a launch.
        drift: deviation of the host's drift, in deviations of one measurement.
        drift_s: seconds over which drift is alike.
        unusable: share of the axis, in its middle, that can't be built; this shows only when it is tried.
        deviation: of one measurement, in logs; it matters to whole campaigns alone, which call ends alike
            that differ by less than 1 %.
    """

    versions: int
    effect: float
    rho: float = 0.0
    prices: Prices = field(default=PRICED)
    known: bool = False
    tails: Tails = Tails.GAUSS
    lag: float = 0.0
    drift: float = 0.0
    drift_s: float = 1800.0
    unusable: float = 0.0
    deviation: float = 0.02

    def __post_init__(self) -> None:
        if self.versions < 2:
            raise UsageError(f"{self.versions} versions hold no change", "name 2 or more")
        if not (np.isfinite(self.effect) and self.effect >= 0):
            raise UsageError(
                f"an effect of {self.effect:g} is no size", "give 0 or more, in deviations of a measurement"
            )
        shares = {"rho": self.rho, "unusable share": self.unusable}
        for name, share in shares.items():
            if not 0 <= share <= 1:
                raise UsageError(f"a {name} of {share:g} is no share", "give 0 to 1")
        if not 0 <= self.lag < 1:
            raise UsageError(f"a lag of {self.lag:g} is no correlation of repeats", "give 0 to less than 1")
        if not (np.isfinite(self.drift) and self.drift >= 0):
            raise UsageError(f"a drift of {self.drift:g} is no deviation", "give 0 or more")
        if not (np.isfinite(self.deviation) and self.deviation > 0):
            raise UsageError(f"a deviation of {self.deviation:g} is none", "give more than 0, in logs")

    def prior(self) -> Prior:
        """What is known beforehand."""
        if not self.known:
            return Prior(direction=0)
        return Prior(
            between_sd=max(float(np.sqrt(self.rho)), 1e-3),
            within_sd=max(float(np.sqrt(1 - self.rho)), 1e-3),
            shift=max(self.effect, 1e-3),
            good=0.0,
            between_weight=KNOWN,
            within_weight=KNOWN,
            shift_weight=KNOWN,
            good_weight=KNOWN,
            direction=1,
        )

    def hole(self) -> frozenset[int]:
        """The versions that can't be built."""
        count = min(round(self.unusable * self.versions), self.versions - 2)
        first = (self.versions - count) // 2
        return frozenset(range(first, first + count))
