"""What a campaign still takes: rehearsed from where it stands, over all that it may still find (pure)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchharness.bisect.search import Prior
from benchharness.bisect.search.likelihood import Fits
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.deciding import Ended
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.rehearsal import Budget, Rehearsal, Rehearsed, Scale
from benchharness.bisect.simulation import Machine, Scene, Tails

MOST_REHEARSALS = 24
FEWEST_REHEARSALS = 5
"""Below that a range says nothing."""

MOST_CPU_S = 2.0
"""Seconds of CPU after which no further rehearsal is begun."""

CUT = 1.4
"""Times as long after which one that runs is cut short."""

MOST_POINTS = 1500
"""Longer axes are not rehearsed."""

HELD = 0.8
"""Share of the rehearsals that lies within a range."""

CHANGES = (2.0, 10.0)
"""Size of a change that nothing is known of, in deviations of a launch: from, to, alike by its logarithm."""

WIDEST = 4.0
"""Times by which a variance may be larger or smaller than it seems by few launches: beyond that a rehearsal
would take longer than what it tells is worth."""

_LEAST_VARIANCE = 1e-26


@dataclass(frozen=True)
class Expected:
    """A figure of campaigns that were rehearsed: its median, and the range that holds 80 % of them."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Expected:
        """Of one figure or more."""
        low, middle, high = np.quantile(figures, [(1 - HELD) / 2, 0.5, (1 + HELD) / 2])
        return cls(float(middle), float(low), float(high))


@dataclass(frozen=True)
class Forecast:
    """What a campaign still takes.

    Attributes:
        launches, hours: still to go.
        answers: share of the rehearsals that end with a culprit or a range.
        rehearsals: so many.
        assumed: what it stands on that was not measured, in a few words; empty where all was.
    """

    launches: Expected
    hours: Expected
    answers: float
    rehearsals: int
    assumed: str = ""


def of_axis(
    hunt: AxisHunt,
    budget: Budget,
    *,
    seed: int = 1,
    most: int = MOST_REHEARSALS,
    guess: Prior | None = None,
    cpu_s: float = MOST_CPU_S,
    clock: Callable[[], float] = time.thread_time,
) -> Forecast | None:
    """What a hunt still takes; None where it is over, too long, or nothing is known of its noise.

    Args:
        hunt: as it stands, between two launches.
        budget: what is left of it.
        seed: the same gives the same campaigns.
        most: rehearsals; fewer are made where they take long.
        guess: deviations of launches and repeats, where neither launches nor earlier runs tell them.
        cpu_s: seconds after which no further rehearsal is begun.
        clock: seconds of CPU.
    """
    hunt = replace(hunt.inner, running=None)
    if len(hunt.places) > MOST_POINTS or isinstance(hunt.next(), Ended):
        return None
    draw = _Drawing.of(hunt, guess)
    if draw is None:
        return None
    done = _rehearsed(hunt, draw, budget, seed, most, cpu_s, clock)
    if len(done) < min(FEWEST_REHEARSALS, most):
        return None
    return Forecast(
        Expected.of([sum(one.launches.values()) for one in done]),
        Expected.of([one.hours for one in done]),
        sum(not math.isnan(one.confidence) for one in done) / len(done),
        len(done),
        draw.assumed,
    )


def _rehearsed(
    hunt: AxisHunt,
    draw: _Drawing,
    budget: Budget,
    seed: int,
    most: int,
    cpu_s: float,
    clock: Callable[[], float],
) -> list[Rehearsed]:
    """As many campaigns as the time allows; the one in which it is up counts with what it took by then."""
    began, done = clock(), list[Rehearsed]()
    while len(done) < most and clock() - began < cpu_s:
        machine, scale = draw.machine(np.random.default_rng([seed, len(hunt.observed), len(done)]))
        one, ended = Rehearsal(machine, hunt, scale, budget), None
        while ended is None:
            ended = one.step()
            if ended is None and clock() - began > CUT * cpu_s:
                ended = one.so_far()
        done.append(ended)
    return done


@dataclass(frozen=True)
class _Drawing:
    """Draws machines on which the campaign may find itself, by what is known now."""

    hunt: AxisHunt
    fits: Fits | None
    prior: Prior | None

    @classmethod
    def of(cls, hunt: AxisHunt, guess: Prior | None) -> _Drawing | None:
        """None where nothing tells how much launches differ."""
        both = hunt.values[0].size and hunt.values[-1].size
        if both and sum(one.size for one in hunt.values) > 2:
            return cls(hunt, hunt.belief().fits, None)
        for known in (hunt.prior, guess):
            if known is not None and (known.between_sd is not None or known.within_sd is not None):
                return cls(hunt, None, known)
        return None

    @property
    def assumed(self) -> str:
        if self.fits is not None:
            return ""
        low, high = CHANGES
        return f"if the change is {low:g} to {high:g} times as large as launches differ"

    def machine(self, random: np.random.Generator) -> tuple[Machine, Scale]:
        """One machine, and how its figures become the hunt's."""
        change = self._change(random)
        good, shift, between, within, drift = self._levels(change, random)
        deviation = math.sqrt(max(between + within, _LEAST_VARIANCE))
        share = min(between / deviation**2, 1.0)
        bimodal = self.hunt.ends_are_bimodal
        scene = Scene(
            versions=len(self.hunt.places),
            effect=abs(shift) / deviation,
            rho=share,
            prices=replace(self.hunt.prices, built=self._built()),
            tails=Tails.MODES if bimodal else Tails.GAUSS,
            drift=math.sqrt(drift) / deviation,
            deviation=deviation,
        )
        machine = Machine(scene, random, change, self._broken(random))
        return machine, Scale(good, math.copysign(deviation, shift))

    def _change(self, random: np.random.Generator) -> int:
        chances = self.hunt.probability() if self.fits is not None else np.ones(len(self.hunt.places) - 1)
        return int(random.choice(len(chances), p=chances / chances.sum()))

    def _levels(self, change: int, random: np.random.Generator) -> tuple[float, float, float, float, float]:
        """Good level, shift, variances of launches, of repeats, of drift."""
        if self.fits is None:
            return self._guessed(random)
        fits = self.fits
        split = int(np.searchsorted(fits.points, change, side="right"))
        wider = float(np.clip(fits.freedom / random.chisquare(fits.freedom), 1 / WIDEST, WIDEST))
        good = fits.good[split] + math.sqrt(fits.good_variance[split]) * random.standard_normal()
        shift = fits.bad[split] - fits.good[split]
        shift += math.sqrt(fits.shift_variance[split]) * random.standard_normal()
        ends = self.hunt.ends()
        if isinstance(ends, Difference):  # which way it goes is known
            shift = math.copysign(shift, ends.mean)
        variances = [float(one[split] * wider) for one in (fits.between, fits.within, fits.drift)]
        return float(good), float(shift), variances[0], variances[1], variances[2]

    def _guessed(self, random: np.random.Generator) -> tuple[float, float, float, float, float]:
        known = self.prior or Prior()
        between, within = (known.between_sd or 0.0) ** 2, (known.within_sd or 0.0) ** 2
        low, high = CHANGES
        size = math.exp(random.uniform(math.log(low), math.log(high))) * math.sqrt(between + within)
        return self._good(), size, between, within, 0.0

    def _good(self) -> float:
        first = self.hunt.values[0]
        return float(first.mean()) if first.size else 0.0

    def _built(self) -> frozenset[int]:
        seen = {one.stack for one in self.hunt.observed}
        return frozenset(at for at, place in enumerate(self.hunt.places) if place.stack in seen)

    def _broken(self, random: np.random.Generator) -> frozenset[int]:
        """Points that can't be built: those known, and of the others as many as of those that were tried."""
        gone = self.hunt.axis().unusable
        inner = range(1, len(self.hunt.places) - 1)
        measured = {at for at in inner if self.hunt.values[at].size}
        chance = len(gone) / (len(gone) + len(measured) + 2)
        more = {at for at in inner if at not in measured and random.random() < chance}
        return frozenset(gone | more) if gone else frozenset()
