"""The legs that prove a culprit of two stacks: it into the good stack, and the bad stack without it."""

from __future__ import annotations

from collections.abc import Mapping

from benchharness.bisect.factors import Combination
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.factor_hunt import FactorHunt
from benchharness.bisect.session.state import Leg, Place

Axes = Mapping[int, tuple[Leg, AxisHunt]]
"""Culprit factor -> the axis of its own that was bisected."""


def leg(hunt: FactorHunt, culprit: Combination, axes: Axes) -> Leg:
    """The swap of a culprit set, or of the steps on the axes of its factors."""
    places = _of_steps(hunt, culprit, axes) if axes else _of_sets(hunt, culprit)
    return Leg("swap", "", hunt.leg.base, places, held=hunt.leg.held)


def _of_sets(hunt: FactorHunt, culprit: Combination) -> tuple[Place, ...]:
    """The whole set into the good stack, and out of the bad one."""
    into_good = (hunt.good, hunt.place(culprit))
    if culprit == hunt.everything:
        return into_good
    return (*into_good, hunt.place(hunt.everything - culprit), hunt.bad)


def _of_steps(hunt: FactorHunt, culprit: Combination, axes: Axes) -> tuple[Place, ...]:
    """Parents against culprits of all axes: in the good stack, and in the bad one."""
    others = culprit - set(axes)
    into_good = [_side(hunt, hunt.good.label, others, axes, bad=bad) for bad in (False, True)]
    into_bad = [_side(hunt, hunt.bad.label, hunt.everything, axes, bad=bad) for bad in (False, True)]
    if len(axes) == 1:  # confirmed in one of the two already
        ((searched, only),) = axes.values()
        if searched.base == hunt.leg.base:
            return (*only.suspects(), *into_bad)
        return (*into_good, *only.suspects())
    return (*into_good, *into_bad)


def _side(hunt: FactorHunt, stack: str, members: Combination, axes: Axes, *, bad: bool) -> Place:
    """A stack with the last good or the first bad point of each axis."""
    ends = {factor: axis.suspects()[bad] for factor, (_, axis) in axes.items()}
    settings = {path: value for place in ends.values() for path, value in place.settings.items()}
    taken = [] if members == hunt.everything else [hunt.leg.factors[at] for at in sorted(members)]
    points = [f"{short(axes[factor][0].axis)} {place.label}" for factor, place in ends.items()]
    label = " + ".join([stack, *taken, *points])
    return Place(label, label, settings, tuple(sorted(members)))


def short(axis: str) -> str:
    """An axis for a label: a package by its name alone."""
    return axis.removeprefix("packages.")
