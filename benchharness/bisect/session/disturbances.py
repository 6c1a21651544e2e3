"""What disturbed a campaign's launches: others on its GPUs, clocks that were held down (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from benchharness.store.stored_trial import StoredTrial

CHECKS = {
    "gpu-alone": "other processes used the engine's GPUs",
    "clocks-held": "power or heat held a GPU's clock down",
}
"""Findings that spoil no trial by themselves, but a campaign whose launches they part."""


def told(trials: Iterable[StoredTrial], launches: int) -> Iterator[str]:
    """A sentence for each kind of disturbance; `launches` is how many there were."""
    disturbed: dict[str, set[int]] = {check: set() for check in CHECKS}
    for trial in trials:
        for finding in trial.findings:
            if finding.check in disturbed:
                disturbed[finding.check].add(trial.launch)
    for check, those in disturbed.items():
        if those:
            yield f"{CHECKS[check]} in {len(those)} of {launches} launches: see `benchharness show`"
