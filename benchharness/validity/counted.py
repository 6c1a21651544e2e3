"""Which of a trial's requests count."""

from __future__ import annotations

from benchharness.records import RequestTrace, Trial


def measured(trial: Trial) -> list[RequestTrace]:
    """All but those for warming up."""
    return [trace for trace in trial.requests if not trace.warmup]


def whole(trial: Trial) -> list[RequestTrace]:
    """Those of them that got their answer."""
    return [trace for trace in measured(trial) if trace.failure is None]
