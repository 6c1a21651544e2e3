"""What to measure next, or why to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from benchharness.bisect.search.belief import Belief
from benchharness.bisect.search.information import Candidates, candidates, gain
from benchharness.bisect.search.likelihood import Fits
from benchharness.bisect.search.problem import Axis, Floats, Ints, Limits, Observation, Prices, Prior

_REPEATS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_HOPE_FROM = 24
"""Launches before which no campaign is given up as hopeless."""

_FEWEST = 16.0
_FIRST_RATIO = 1.0
"""Variance of repeats over that of launches, before anything is known."""


@dataclass(frozen=True)
class Move:
    """What to measure next.

    Attributes:
        point: where.
        repeats: how many measurements.
        stay: in the launch that runs; else in a new launch, which opens a new block.
        beside: an end to launch as well, in the same block, with as many repeats; None for none.
        reason: one sentence.
    """

    point: int
    repeats: int
    stay: bool
    beside: int | None
    reason: str


class Reason(StrEnum):
    """Why a campaign stops."""

    FOUND = "found"
    RANGE = "range"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True)
class Stop:
    """The end of a campaign.

    Attributes:
        reason: found: one gap between neighbouring points; range: it can't be narrowed further; cannot_tell.
        good, bad: the last good and the first bad point, of the shortest run that holds the confidence.
        sentence: the same for people.
    """

    reason: Reason
    good: int
    bad: int
    sentence: str


def next_move(
    axis: Axis,
    observations: Sequence[Observation],
    belief: Belief,
    prices: Prices,
    confidence: float = 0.95,
    *,
    limits: Limits | None = None,
    running: int | None = None,
    prior: Prior | None = None,
) -> Move | Stop:
    """The measurement that tells most for its time, or why to stop.

    Args:
        axis: the points.
        observations: what was measured; the last one came last.
        belief: what `believe` makes of them.
        prices: what measuring costs.
        confidence: at which a gap is called found.
        limits: when to stop in any case.
        running: index of the observation whose launch still runs; None where none does.
        prior: what `believe` was given; where it knows both levels, the ends need not be measured.
    """
    limits = limits or Limits()
    opening = None if prior is not None and prior.knows_levels else _opening(axis, observations, prices)
    stop = _stop(belief, confidence, limits, len(observations), opening is None)
    if stop is not None:
        return stop
    if opening is not None or belief.fits is None:
        return _affordable(opening or _middle(belief, prices), belief, prices, confidence, limits)
    best = _best(axis, belief, belief.fits, observations, prices, running)
    return _affordable(best, belief, prices, confidence, limits)


def _opening(axis: Axis, observations: Sequence[Observation], prices: Prices) -> Move | None:
    measured = {one.point for one in observations}
    last = axis.points - 1
    repeats = first_repeats(prices)
    if not measured & {0, last}:
        return Move(0, repeats, False, last, "both ends first: nothing is good or bad before they are known")
    for end in (0, last):
        if end not in measured:
            return Move(end, repeats, False, None, "this end was not measured yet")
    return None


def _middle(belief: Belief, prices: Prices) -> Move:
    """Where both levels are known beforehand, the search begins as plain bisection does."""
    at = int(np.abs(belief.gaps.cumsum()[:-1] - 0.5).argmin()) if len(belief.gaps) > 1 else 0
    point = int(belief.usable[at + 1])
    return Move(point, first_repeats(prices), False, None, "the middle first: both levels are known")


def first_repeats(prices: Prices) -> int:
    """As many repeats as make a launch worth its price, if launches and repeats spread alike."""
    if prices.repeat_s <= 0:
        return _REPEATS[-1]
    wanted = np.sqrt(prices.relaunch_s / prices.repeat_s * _FIRST_RATIO)
    return int(np.clip(round(wanted), 1, 16))


@dataclass(frozen=True)
class _Option:
    rate: float
    move: Move


def _best(
    axis: Axis,
    belief: Belief,
    fits: Fits,
    observations: Sequence[Observation],
    prices: Prices,
    running: int | None,
) -> Move:
    chosen = candidates(belief, fits)
    launch_s = np.full(len(chosen.points), prices.cold_s)
    if prices.built:
        launch_s[np.isin(chosen.points, list(prices.built))] = prices.relaunch_s
    chance = _usable_chance(axis, chosen.points, fits.points)
    repeats = _repeats(launch_s, prices)
    options = [_new_launch(fits, chosen, launch_s, chance, prices, count) for count in repeats]
    if fits.drift.max() > 0:
        paired = max(options, key=lambda one: one.rate).move.repeats
        options += [
            _beside(fits, chosen, launch_s, chance, prices, paired, end) for end in (0, axis.points - 1)
        ]
    if running is not None:
        launch = observations[running]
        options += [_staying(fits, chosen, launch, prices, count) for count in repeats]
    return max(options, key=lambda one: one.rate).move


def _usable_chance(axis: Axis, points: Ints, measured: Ints) -> Floats:
    """How likely points can be used: what broke one version usually broke its neighbours too.

    A point d steps from a run of l that can't be used is taken to be usable with probability d / (d + l), so
    the search leaps over a broken stretch in steps that double, instead of walking through it.
    """
    chance = np.ones(len(points))
    if not axis.unusable:
        return chance
    broken = np.array(sorted(axis.unusable))
    runs = np.split(broken, np.flatnonzero(np.diff(broken) > 1) + 1)
    for run in runs:
        away = np.maximum(run[0] - points, points - run[-1])
        chance = np.minimum(chance, away / (away + len(run)))
    chance[np.isin(points, measured)] = 1.0
    return chance


def _beside(
    fits: Fits, chosen: Candidates, launch_s: Floats, chance: Floats, prices: Prices, repeats: int, end: int
) -> _Option:
    """A launch together with one at an end, which tells most of what the block shares."""
    own = fits.between + fits.within / repeats
    # What is left of the shared part once another launch of the block has shown its own.
    left = fits.drift * own / (fits.drift + own)
    told = gain(chosen, fits.good, fits.bad, fits.good_variance + own + left, fits.bad_variance + own + left)
    alone = own + fits.drift
    at_end = gain(chosen, fits.good, fits.bad, fits.good_variance + alone, fits.bad_variance + alone)
    told = told + at_end[np.searchsorted(chosen.points, end)]
    seconds = launch_s + prices.launch_s(end) + 2 * repeats * prices.repeat_s
    rate = np.where(chosen.points == end, 0.0, chance * told / np.maximum(seconds, 1e-9))
    at = int(rate.argmax())
    point = int(chosen.points[at])
    sentence = f"point {point} beside end {end}, since the host drifts: {told[at] / np.log(2):.2g} bit"
    return _Option(float(rate[at]), Move(point, repeats, False, end, sentence))


def _repeats(launch_s: Floats, prices: Prices) -> Sequence[int]:
    """Numbers of repeats worth looking at."""
    if prices.repeat_s <= 0:
        return _REPEATS[-1:]
    # Where a launch is as cheap as a repeat, more repeats in one launch tell no more than more launches.
    most = max(1.0, 4 * launch_s.max() / prices.repeat_s)
    return [one for one in _REPEATS if one <= most]


def _new_launch(
    fits: Fits, chosen: Candidates, launch_s: Floats, chance: Floats, prices: Prices, repeats: int
) -> _Option:
    noise = fits.between + fits.within / repeats + fits.drift
    told = gain(chosen, fits.good, fits.bad, fits.good_variance + noise, fits.bad_variance + noise)
    rate = chance * told / np.maximum(launch_s + repeats * prices.repeat_s, 1e-9)
    at = int(rate.argmax())
    point = int(chosen.points[at])
    sentence = (
        f"a launch at point {point} is expected to tell most for its time, {told[at] / np.log(2):.2g} bit"
    )
    return _Option(float(rate[at]), Move(point, repeats, False, None, sentence))


def _staying(fits: Fits, chosen: Candidates, launch: Observation, prices: Prices, repeats: int) -> _Option:
    shared = fits.between + fits.drift
    seen = fits.within / launch.independent
    pull = shared / (shared + seen)
    noise = pull * seen + fits.within / repeats
    here = np.flatnonzero(chosen.points == launch.point)[:1]
    only = replace(chosen, points=chosen.points[here], split=chosen.split[here], before=chosen.before[here])
    levels = [level + pull * (launch.value - level) for level in (fits.good, fits.bad)]
    spreads = [(1 - pull) ** 2 * one + noise for one in (fits.good_variance, fits.bad_variance)]
    told = float(gain(only, levels[0], levels[1], spreads[0], spreads[1])[0])
    sentence = f"more repeats in the launch that runs tell most for their time, {told / np.log(2):.2g} bit"
    return _Option(told / (repeats * prices.repeat_s), Move(launch.point, repeats, True, None, sentence))


def _affordable(move: Move, belief: Belief, prices: Prices, confidence: float, limits: Limits) -> Move | Stop:
    """The move, or a stop where the budget does not hold it."""
    if limits.budget_s is None:
        return move
    points = [] if move.stay else [move.point] + ([] if move.beside is None else [move.beside])
    costs = sum(prices.launch_s(point) for point in points)
    costs += max(len(points), 1) * move.repeats * prices.repeat_s
    if limits.spent_s + costs <= limits.budget_s:
        return move
    return _ended(belief, confidence, "the budget is spent")


def _ended(belief: Belief, confidence: float, why: str) -> Stop:
    good, bad = belief.range_(confidence)
    whole = (good, bad) == (int(belief.usable[0]), int(belief.usable[-1]))
    # A range says nothing where there may be no change at all.
    if whole or belief.fits is None or belief.low <= 0 <= belief.high:
        sentence = f"{why}, and whether and where there is a change can't be told"
        return Stop(Reason.CANNOT_TELL, good, bad, sentence)
    sentence = f"{why}; the change lies between {good} and {bad} with probability {confidence:.0%}"
    return Stop(Reason.RANGE, good, bad, sentence)


def _stop(belief: Belief, confidence: float, limits: Limits, launches: int, ends_known: bool) -> Stop | None:
    if ends_known and belief.fits is not None and belief.confidence >= confidence:
        bad = belief.best
        good = int(belief.usable[np.searchsorted(belief.usable, bad) - 1])
        if bad - good == 1:
            return Stop(
                Reason.FOUND, good, bad, f"point {bad} is the first bad one, at {belief.confidence:.1%}"
            )
        return Stop(Reason.RANGE, good, bad, f"only points that can't be used lie between {good} and {bad}")
    if launches >= limits.launches:
        return _ended(belief, confidence, f"{limits.launches} launches were made")
    if launches >= _HOPE_FROM and _hopeless(belief, limits.launches - launches):
        return _ended(belief, confidence, "the change, if any, is too small for the launches that are left")
    return None


def _hopeless(belief: Belief, left: int) -> bool:
    """Whether even the largest shift that is not ruled out would take more launches than there are.

    Two groups part at about 16 / d^2 launches for d deviations, and no search takes fewer.
    """
    largest = max(abs(belief.low), abs(belief.high))
    return left * largest**2 < _FEWEST * (belief.between_sd**2 + belief.drift_sd**2)
