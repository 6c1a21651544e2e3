"""Metrics by SQL against plain Python: percentiles, and the values of single requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchharness.metrics import METRICS
from benchharness.records import (
    Cycle,
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
from benchharness.stats.launch_means import all_metrics, launch_means, plain_metrics, request_values
from benchharness.store import StoredRun, create, open_run

WORK = Workload(128, 64, 6)
MS = 1_000_000


def request(index: int, random: np.random.Generator, chunks: int) -> RequestTrace:
    sent = index * 10**10
    gaps = random.integers(1 * MS, 20 * MS, chunks)
    stamps = sent + 30 * MS + index * MS + np.concatenate([[0], gaps[1:].cumsum()])
    tokens = random.integers(1, 4, chunks)
    return RequestTrace(
        index,
        index == 0,
        128,
        sent,
        sent,
        int(stamps[-1]),
        output_tokens=int(tokens.sum()),
        chunk_ns=tuple(int(one) for one in stamps),
        chunk_tokens=tuple(int(one) for one in tokens),
    )


@pytest.fixture
def stored(tmp_path: Path) -> tuple[StoredRun, list[Trial]]:
    random = np.random.default_rng(1)
    trials = []
    for launch in range(2):
        requests = tuple(request(index, random, 60) for index in range(7))
        cycles = tuple(
            Cycle(trace.index, number, 1, float(ms), None, float(ms / 2), None, "probe", "host")
            for trace in requests
            for number, ms in enumerate(random.gamma(4, 3, 60))
        )
        batch = Cycle(-1, 0, 4, 99.0, None, None, None, "probe", "host", start_ns=2 * 10**10, mark="idle")
        of_batch = replace(batch, mark="")
        cycles = (*cycles, batch, of_batch)
        trials.append(Trial(launch, 0, WORK, requests, cycles, started_ns=0, finished_ns=10**12))
    planned = tuple(PlannedLaunch(i, i, "ab"[i], (0,), 1) for i in range(2))
    stacks = (Stack("a", "sglang"), Stack("b", "sglang"))
    plan = Plan("e", stacks, (WORK,), planned, "none", 1)
    with create(tmp_path, Run("r", "2026-01-01T00:00:00+00:00", "0", {}, plan, "s")) as folder:
        for trial in trials:
            folder.begin_launch(trial.launch)
            folder.append_trial(trial)
            status = LaunchStatus.DONE
            folder.end_launch(Launch(trial.launch, trial.launch, "ab"[trial.launch], 1, status, "2026"))
        folder.finish()
    return open_run(folder.path), trials


def counted(trial: Trial) -> list[RequestTrace]:
    return [trace for trace in trial.requests if not trace.warmup]


def test_percentiles_are_those_of_the_plain_rows(stored: tuple[StoredRun, list[Trial]]) -> None:
    run, trials = stored
    means = launch_means(run.connect(), all_metrics()).set_index("launch")
    for trial in trials:
        cycles = [cycle for cycle in trial.cycles if cycle.request != 0 and not cycle.mark]
        gaps, waits = [], []
        for trace in counted(trial):
            waits.append((trace.chunk_ns[0] - trace.sent_ns) / MS)
            for before, after, tokens in zip(
                trace.chunk_ns, trace.chunk_ns[1:], trace.chunk_tokens[1:], strict=False
            ):
                gaps += [(after - before) / tokens / MS] * tokens
        row = means.loc[trial.launch]
        total = [cycle.total_ms for cycle in cycles]
        verify = [cycle.verify_ms for cycle in cycles if cycle.verify_ms is not None]
        assert row["cycle_p50_ms"] == pytest.approx(np.quantile(total, 0.5))
        assert row["cycle_p99_ms"] == pytest.approx(np.quantile(total, 0.99))
        assert row["verify_p99_ms"] == pytest.approx(np.quantile(verify, 0.99))
        assert row["itl_p50_ms"] == pytest.approx(np.quantile(gaps, 0.5))
        assert row["itl_p99_ms"] == pytest.approx(np.quantile(gaps, 0.99))
        assert row["ttft_p50_ms"] == pytest.approx(np.quantile(waits, 0.5))


def test_a_launch_with_too_few_observations_has_no_percentile(stored: tuple[StoredRun, list[Trial]]) -> None:
    means = launch_means(stored[0].connect(), all_metrics())
    assert means["ttft_p99_ms"].isna().all()  # 6 requests of 299
    assert means["draft_p50_ms"].isna().all()  # no draft phase at all
    assert means["cycle_p99_ms"].notna().all()  # 360 cycles


def test_percentiles_cost_nothing_unless_asked_for() -> None:
    assert {m.name for m in all_metrics()} - {m.name for m in plain_metrics()} == {
        name for name, metric in METRICS.items() if metric.fewest
    }


def test_values_of_requests_are_the_metric_over_one_request(stored: tuple[StoredRun, list[Trial]]) -> None:
    run, trials = stored
    found = request_values(run.connect("b"), METRICS["cycle_ms"])
    assert found["request"].tolist() == [1, 2, 3, 4, 5, 6]
    assert set(found["launch"]) == {1}
    for request, value in zip(found["request"], found["value"], strict=True):
        assert value == pytest.approx(
            np.mean([cycle.total_ms for cycle in trials[1].cycles if cycle.request == request])
        )
