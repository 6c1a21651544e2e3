"""What a campaign's launches cost so far, and what the next ones will."""

from __future__ import annotations

from collections.abc import Sequence

from benchharness.bisect.search import Prices
from benchharness.bisect.session.observed import Observed
from benchharness.bisect.session.state import Place, State
from benchharness.records import LaunchStatus
from benchharness.store import StoredRun

GUESSED_BUILD_S = 300.0
"""Seconds that a new environment takes, before one was built."""


def hours(state: State) -> float:
    """Wall time of all launches, environments included."""
    return sum(step.seconds or 0.0 for step in state.steps) / 3600


def prices(
    state: State,
    stored: StoredRun,
    observed: Sequence[Observed],
    places: Sequence[Place],
    *,
    usual_start_s: float,
    builds: bool,
) -> Prices:
    """What to expect, by the mean of what was seen; before that by what is usual.

    Args:
        state: the campaign.
        stored: its run.
        observed: its steps so far.
        places: the axis.
        usual_start_s: of the engine.
        builds: a new point needs a new environment or checkout.
    """
    done = {launch.index: launch for launch in stored.launches if launch.status == LaunchStatus.DONE}
    rounds = {launch.index: len(launch.workloads) for launch in stored.run.plan.launches}
    cells = max(1, len(stored.run.plan.workloads))
    each = [one.requests_s * cells / max(1, rounds[index]) for index, one in done.items()]
    repeat_s = _mean(each, 1.0)
    cold: list[float] = []
    warm: list[float] = []
    seen: set[str] = set()
    for step in state.steps:
        if step.launch in done and step.seconds is not None:
            launch = done[step.launch]
            (warm if launch.stack in seen else cold).append(max(0.0, step.seconds - launch.requests_s))
            seen.add(launch.stack)
    relaunch_s = _mean(warm, usual_start_s)
    cold_s = _mean(cold, relaunch_s + (GUESSED_BUILD_S if builds else 0.0))
    built = {index for index, place in enumerate(places) if any(one.stack == place.stack for one in observed)}
    return Prices(max(cold_s, 1e-3), max(relaunch_s, 1e-3), max(repeat_s, 1e-3), frozenset(built))


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
