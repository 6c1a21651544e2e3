"""What a campaign takes over from earlier runs: their noise, and nothing of other machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchharness import machine
from benchharness.bisect.session import priors
from benchharness.bisect.session.question import Question
from benchharness.records import (
    Cycle,
    EngineCounters,
    Launch,
    LaunchStatus,
    Plan,
    PlannedLaunch,
    RequestTrace,
    Run,
    Stack,
    Trial,
    Workload,
)
from benchharness.store import create

QUESTION = Question("e", "axis", "commit", "a", "b", "s", "cycle_ms", (16,))
MACHINE = {"cpu": "x", "logical_cpus": 2, "memory_bytes": 1, "gpus": []}


def stored(results: Path, name: str, between: float, seed: int = 1, **described: object) -> None:
    """A run of 8 launches of 12 requests, whose cycles differ between launches by so much (in logs)."""
    draws = np.random.default_rng(seed)
    workload = Workload(16, 8, 12)
    launches = tuple(PlannedLaunch(index, index, "s", (0,), 1) for index in range(8))
    plan = Plan("e", (Stack("s", "standin"),), (workload,), launches, "interleaved", 1)
    run = Run(name, "2026-01-01T00:00:00+00:00", "0", {}, plan, "salt", machine={**MACHINE, **described})
    with create(results, run) as folder:
        for planned in launches:
            level = draws.normal(0.0, between)
            cycles = tuple(
                Cycle(
                    request,
                    at,
                    1,
                    float(np.exp(level + draws.normal(0.0, 0.01))),
                    None,
                    None,
                    None,
                    "log",
                    "host",
                )
                for request in range(12)
                for at in range(4)
            )
            traces = tuple(
                RequestTrace(index, False, 16, 10 * index, 10 * index, 10 * index + 5, output_tokens=4)
                for index in range(12)
            )
            folder.begin_launch(planned.index)
            folder.append_trial(Trial(planned.index, 0, workload, traces, cycles, EngineCounters()))
            folder.end_launch(Launch(planned.index, planned.block, "s", 1, LaunchStatus.DONE, "now"))
        folder.finish()


@pytest.fixture(autouse=True)
def this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "describe", lambda: MACHINE)


def test_the_noise_of_earlier_runs_is_known_beforehand(tmp_path: Path) -> None:
    assert priors.of_store(tmp_path, QUESTION) is None
    stored(tmp_path, "one", between=0.05)
    found = priors.of_store(tmp_path, QUESTION)
    assert found is not None and found.between_sd is not None
    assert 0.02 < found.between_sd < 0.1
    assert found.within_sd is not None and found.within_sd < 0.01
    assert found.between_weight == 7


def test_runs_of_other_machines_experiments_and_contexts_tell_nothing(tmp_path: Path) -> None:
    stored(tmp_path, "other", between=0.05, cpu="another")
    assert priors.of_store(tmp_path, QUESTION) is None
    stored(tmp_path, "here", between=0.05)
    assert priors.of_store(tmp_path, replace(QUESTION, experiment="f")) is None
    assert priors.of_store(tmp_path, replace(QUESTION, contexts=(32,))) is None
    assert priors.of_store(tmp_path, replace(QUESTION, metric="failed")) is None
