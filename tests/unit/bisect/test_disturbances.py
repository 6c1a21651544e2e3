"""A verdict says what disturbed its launches."""

from __future__ import annotations

from benchharness.bisect.session import disturbances
from benchharness.records import EngineCounters, Finding, Workload
from benchharness.store.stored_trial import StoredTrial


def trial(launch: int, *checks: str) -> StoredTrial:
    found = tuple(Finding(check, False, f"{check} happened") for check in checks)
    return StoredTrial(launch, 0, Workload(128, 16, 1), EngineCounters(), 0, 1, found)


def test_each_kind_of_disturbance_is_counted_by_launches() -> None:
    trials = [trial(0), trial(1, "gpu-alone"), trial(1, "gpu-alone"), trial(2, "gpu-alone", "cycles-known")]
    assert list(disturbances.told(trials, 3)) == [
        "other processes used the engine's GPUs in 2 of 3 launches: see `benchharness show`"
    ]


def test_undisturbed_launches_are_not_spoken_of() -> None:
    assert list(disturbances.told([trial(0), trial(1, "prefix-hits-known")], 2)) == []
