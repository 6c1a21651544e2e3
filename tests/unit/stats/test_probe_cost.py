"""The probe's cost from stored requests: paired, with an interval over launches or over pairs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from benchharness.records import (
    Cycle,
    Failure,
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
from benchharness.report import probe_view, run_view
from benchharness.stats.interval import t_quantile
from benchharness.stats.probe_cost import OVER_LAUNCHES, OVER_PAIRS, ProbeCost, probe_costs
from benchharness.store import StoredRun, create, open_run

US = 1000
WORK = Workload(128, 11, 8, warmup_requests=1)
ORDER = (True, True, False, False, True, False, True, True, False)
CYCLES = 10  # after the first token; with speculation they carry two tokens each


def request(index: int, step_us: float, speculative: bool, **changes: object) -> RequestTrace:
    """A first chunk after 5 ms, then `CYCLES` chunks `step_us` apart."""
    sent = index * 10**9
    stamps = [sent + 5_000_000 + round(number * step_us * US) for number in range(CYCLES + 1)]
    tokens = [1] + [2 if speculative else 1] * CYCLES
    told = {
        "output_tokens": sum(tokens),
        "verify_cycles": CYCLES if speculative else None,
        "chunk_ns": tuple(stamps),
        "chunk_tokens": tuple(tokens),
        "probed": ORDER[index],
        **changes,
    }
    return RequestTrace(index, index == 0, 128, sent, sent, stamps[-1], **told)  # type: ignore[arg-type]


def trial(launch: int, step_us: Callable[[int], float], speculative: bool, **changes: object) -> Trial:
    """`step_us(index)` without the probe's part."""
    requests = tuple(request(i, step_us(i), speculative, **changes) for i in range(len(ORDER)))
    cycles = tuple(
        Cycle(trace.index, number, 2 if speculative else 1, 1.0, None, None, None, "probe", "host")
        for trace in requests
        if trace.probed
        for number in range(CYCLES)
    )
    return Trial(launch, 0, WORK, requests, cycles, started_ns=0, finished_ns=10**10)


def stored(place: Path, trials: list[Trial], probe: bool | str = "alternate") -> StoredRun:
    planned = tuple(PlannedLaunch(i, i, "a", (0,), 1) for i in range(len(trials)))
    plan = Plan("e", (Stack("a", "sglang"),), (WORK,), planned, "none", 1, probe=probe)  # type: ignore[arg-type]
    run = Run("r", "2026-01-01T00:00:00+00:00", "0", {}, plan, "s")
    with create(place, run) as folder:
        for one in trials:
            folder.begin_launch(one.launch)
            folder.append_trial(one)
            folder.end_launch(Launch(one.launch, one.launch, "a", 1, LaunchStatus.DONE, "2026"))
        folder.finish()
    return open_run(folder.path)


def costs(run: StoredRun) -> dict[str, ProbeCost]:
    return {cost.metric: cost for cost in probe_costs(run.connect())}


def paying(per_launch: float, drift: float = 0.0) -> Callable[[int], float]:
    """1000 us a cycle, `per_launch` more with the probe, and `drift` more from request to request."""
    return lambda index: 1000.0 + per_launch * ORDER[index] + drift * index


@pytest.mark.parametrize("speculative", [True, False])
def test_the_difference_a_cycle_is_what_the_probe_takes(tmp_path: Path, speculative: bool) -> None:
    found = costs(stored(tmp_path, [trial(0, paying(7.0), speculative)]))
    cycle, tpot, e2e = found["cycle_us"], found["tpot_ms"], found["e2e_ms"]
    assert cycle.difference.mean == pytest.approx(7.0)
    assert cycle.share.mean == pytest.approx(0.007)
    assert (cycle.off, cycle.on) == (pytest.approx(1000.0), pytest.approx(1007.0))
    assert tpot.difference.mean == pytest.approx(0.007 / (2 if speculative else 1))
    assert e2e.difference.mean == pytest.approx(0.07)
    assert (cycle.pairs, cycle.over) == (4, OVER_PAIRS)


def test_a_steady_drift_of_the_machine_cancels(tmp_path: Path) -> None:
    """The order is on off off on, so 50 us of drift a request leave the 7 us of the probe alone."""
    cost = costs(stored(tmp_path, [trial(0, paying(7.0, drift=50.0), speculative=True)]))["cycle_us"]
    assert cost.difference.mean == pytest.approx(7.0)
    assert cost.difference.low < 7.0 < cost.difference.high


def test_over_launches_the_interval_is_that_of_their_mean_differences(tmp_path: Path) -> None:
    differences = [4.0, 6.0, 11.0]
    trials = [trial(i, paying(us), speculative=True) for i, us in enumerate(differences)]
    cost = costs(stored(tmp_path, trials))["cycle_us"]
    assert (cost.over, cost.difference.launches, cost.pairs) == (OVER_LAUNCHES, 3, 12)
    mean = sum(differences) / 3
    error = math.sqrt(sum((us - mean) ** 2 for us in differences) / 2 / 3)
    assert cost.difference.mean == pytest.approx(mean)
    assert cost.difference.high == pytest.approx(mean + t_quantile(0.95, 2) * error)
    assert cost.difference.low == pytest.approx(mean - t_quantile(0.95, 2) * error)


def test_a_request_that_failed_takes_its_neighbour_with_it(tmp_path: Path) -> None:
    made = trial(0, paying(7.0), speculative=True)
    requests = list(made.requests)
    requests[3] = request(3, 5000.0, True, failure=Failure.TIMEOUT)
    broken = Trial(0, 0, WORK, tuple(requests), made.cycles, finished_ns=10**10)
    cost = costs(stored(tmp_path, [broken]))["cycle_us"]
    assert cost.pairs == 3
    assert cost.difference.mean == pytest.approx(7.0)


def test_where_cycles_can_t_be_counted_they_are_left_out(tmp_path: Path) -> None:
    found = costs(stored(tmp_path, [trial(0, paying(7.0), speculative=True, verify_cycles=None)]))
    assert set(found) == {"tpot_ms", "e2e_ms"}


def test_it_is_shown_and_told_to_programs(tmp_path: Path) -> None:
    run = stored(tmp_path, [trial(0, paying(7.0), speculative=True)])
    console = Console(width=160, record=True)
    run_view.show(console, run)
    text = console.export_text()
    assert "What the probe costs" in text and "+7.0" in text
    assert "inside one launch" in text
    (cycle,) = [row for row in run_view.document(run)["probe_cost"] if row["metric"] == "cycle_us"]
    assert (cycle["unit"], cycle["over"], cycle["launches"]) == ("us", OVER_PAIRS, 1)
    assert cycle["difference"]["mean"] == pytest.approx(7.0)
    assert cycle["difference"]["low"] <= 7.0 <= cycle["difference"]["high"]


def test_a_run_that_did_not_switch_it_says_nothing_of_its_cost(tmp_path: Path) -> None:
    run = stored(tmp_path, [trial(0, paying(7.0), speculative=True, probed=None)], probe=True)
    assert run_view.document(run)["probe_cost"] == []
    console = Console(width=160, record=True)
    probe_view.show(console, run)
    assert console.export_text() == ""


def test_a_run_with_no_pair_says_so(tmp_path: Path) -> None:
    run = stored(tmp_path, [trial(0, paying(7.0), speculative=True, probed=None)])
    console = Console(width=160, record=True)
    probe_view.show(console, run)
    assert "no pair of requests" in console.export_text()
