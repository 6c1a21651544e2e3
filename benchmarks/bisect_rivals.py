"""git_bayesect on the same simulated machine, driven as a library."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from git_bayesect import Bisector

from benchharness.bisect.search import Reason
from benchharness.bisect.simulation import Machine, Outcome, Scene


def bayesect(scene: Scene, confidence: float, seed: Sequence[int]) -> Outcome:
    """It is told good or bad alone, by a threshold halfway between the true levels, which costs nothing.

    Its index counts from the newest version, and index B is the oldest one that is bad.
    """
    random = np.random.default_rng(list(seed))
    machine = Machine(scene, random, int(random.integers(0, scene.versions - 1)))
    weights = np.ones(scene.versions)
    weights[-1] = 0  # the good end is good
    search = Bisector(weights)
    with np.errstate(divide="ignore", invalid="ignore"):  # it takes logs of its own zeros
        _search(machine, search, confidence)
    found = scene.versions - 2 - int(search.distribution.argmax())
    return Outcome(
        found == machine.change,
        Reason.FOUND,
        float(search.distribution.max()),
        machine.measurements,
        machine.launches,
        machine.seconds / 3600,
    )


def _search(machine: Machine, search: Bisector, confidence: float) -> None:
    scene = machine.scene
    while search.distribution.max() < confidence and machine.measurements < 4000:
        at = search.select()
        machine.launch(scene.versions - 1 - at)
        search.record(at, bool(machine.measure(1)[0] > scene.effect / 2))
