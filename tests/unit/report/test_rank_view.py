"""Ranks as they are shown: their times and how far they lie apart, and what each of them runs."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchharness.records import (
    Attestation,
    Cycle,
    Launch,
    LaunchStatus,
    Plan,
    PlannedLaunch,
    ProcessReport,
    RequestTrace,
    Run,
    Stack,
    Trial,
    Workload,
)
from benchharness.report import rank_view
from benchharness.store import StoredRun, create, open_run

WORK = Workload(512, 8, 1)
ENV = {"NCCL_PROTO": "LL", "NCCL_P2P_LEVEL": "SYS"}
LIBRARY = "/e/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2"


def request(index: int) -> RequestTrace:
    sent = index * 10**9
    return RequestTrace(
        index,
        index == 0,
        512,
        sent,
        sent,
        sent + 10**8,
        output_tokens=3,
        chunk_ns=(sent + 1,),
        chunk_tokens=(3,),
    )


def cycle(request: int, number: int, rank: int, ms: float, mark: str = "") -> Cycle:
    start = request * 10**9 + number
    return Cycle(
        request, number, 1, ms, 1.0, ms / 2, 0.5, "probe", "cuda-event", start_ns=start, rank=rank, mark=mark
    )


def reports(stripped: bool) -> tuple[ProcessReport, ...]:
    without = {name: value for name, value in ENV.items() if name != "NCCL_P2P_LEVEL"}
    found = [ProcessReport(10, env={"NCCL_NVLS_ENABLE": "0", "NCCL_VERSION": "2.28.3-1", **ENV})]
    for rank, ways in enumerate((("PyNcclCommunicator", "torch.distributed nccl"),) * 2):
        env = {**(without if stripped and rank else ENV), "NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"}
        env["NCCL_VERSION"] = "2.28.3-1"
        found.append(ProcessReport(11 + rank, libraries={"nccl": (LIBRARY,)}))
        found.append(ProcessReport(11 + rank, rank, rank, env, {"nccl": "2.28.9"}, "probe", all_reduce=ways))
    return tuple(found)


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[bool], StoredRun]:
    def make(stripped: bool) -> StoredRun:
        cycles = [
            # Warm-up, a marked cycle, then those that count: rank 1 is slower, by 1 and 3 ms.
            cycle(0, 0, 0, 99.0),
            cycle(0, 0, 1, 50.0),
            cycle(1, 9, 1, 70.0, "capture"),
            *(cycle(1, number, 0, ms) for number, ms in enumerate((5.0, 7.0))),
            *(cycle(1, number, 1, ms) for number, ms in enumerate((6.0, 10.0))),
        ]
        trial = Trial(0, 0, WORK, (request(0), request(1)), tuple(cycles))
        plan = Plan("e", (Stack("s", "sglang"),), (WORK,), (PlannedLaunch(0, 0, "s", (0,), 1),), "none", 1)
        settings = {"nccl_ranks": {"0": {"paths": ["P2P/IPC"], "channels": 24}, "1": {"paths": ["P2P/IPC"]}}}
        attested = Attestation(settings=settings, processes=reports(stripped))
        with create(tmp_path, Run("r", "2026-01-01T00:00:00+00:00", "0", {}, plan, "s")) as folder:
            folder.begin_launch(0)
            folder.append_trial(trial)
            done = LaunchStatus.DONE
            folder.end_launch(Launch(0, 0, "s", 1, done, "2026", env=dict(ENV), attestation=attested))
            folder.finish()
        return open_run(folder.path)

    return make


def shown(stored: StoredRun) -> str:
    out = StringIO()
    rank_view.show(Console(file=out, width=160), stored)
    return out.getvalue()


def test_each_rank_has_its_mean_and_the_spread_names_the_slowest(stored: Callable[[bool], StoredRun]) -> None:
    run = stored(False)
    (times,) = rank_view.times(run)
    assert times.cycle_ms == {0: 6.0, 1: 8.0}
    assert times.verify_ms == {0: 3.0, 1: 4.0}
    assert (times.spread_ms, times.slowest, times.cycles) == (2.0, 1, 2)
    # Single cycles lie 1 and 3 ms apart.
    assert times.apart_ms == pytest.approx(2.0)
    line = next(line for line in shown(run).splitlines() if "6.000 / 8.000" in line)
    assert "3.000 / 4.000" in line
    assert "2.000 (33.3%)" in line
    assert "rank 1" in line


def test_ranks_that_agree_share_a_line_with_nccl_and_their_way(stored: Callable[[bool], StoredRun]) -> None:
    text = shown(stored(False))
    (line,) = [line for line in text.splitlines() if "PyNccl" in line]
    for word in ("0, 1", "2.28.9", "P2P/IPC"):
        assert word in line
    assert "NCCL_PROTO=LL (declared)" in text
    assert "NCCL_NVLS_ENABLE=0 (host)" in text
    assert "NCCL_CUMEM_ENABLE=0 (engine)" in text
    # What an image says of itself is no variable of NCCL's.
    assert "2.28.3" not in text


def test_a_rank_that_lacks_a_variable_has_a_line_that_says_so(stored: Callable[[bool], StoredRun]) -> None:
    lines = [line for line in shown(stored(True)).splitlines() if "2.28.9" in line]
    assert len(lines) == 2
    assert "NCCL_P2P_LEVEL=SYS" in lines[0]
    assert "NCCL_P2P_LEVEL not set" in lines[1] or "not set" in lines[1]


def test_facts_of_a_rank_hold_the_library_that_its_process_has_mapped(
    stored: Callable[[bool], StoredRun],
) -> None:
    (launch,) = stored(False).launches
    report = launch.attestation.processes[2]
    facts: dict[str, Any] = rank_view.rank_facts(launch, report)
    assert facts["nccl_library"] == [LIBRARY]
    assert facts["channels"] == 24
    assert facts["env"] == {**ENV, "NCCL_CUMEM_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"}
