"""What makes a machine unfit to measure on, each with what to do about it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchharness.machine import fitness
from benchharness.machine.fitness import GIB, Check, Status
from benchharness.records import GpuState

BOARD = {
    "index": 0,
    "name": "NVIDIA H200",
    "persistence": 1,
    "power_limit_w": 700.0,
    "power_limit_default_w": 700.0,
    "pcie_width": 16,
    "pcie_width_most": 16,
    "mig": 0,
    "numa_node": 0,
}
STATE = GpuState(0, 1980, 1980, 1980, 1980)
SELFTEST = {"transport": "kernel-stamps", "unstamped_share": 0.0, "error_us_p50": 20.0, "error_us_p99": 40.0}


def bad(checks: Any) -> list[tuple[str, Status]]:
    found: list[Check] = list(checks)
    assert all(one.advice for one in found if one.status in (Status.WARN, Status.BAD)), found
    return [(one.check, one.status) for one in found if one.status not in (Status.FINE, Status.NOTE)]


@pytest.mark.parametrize(
    ("board", "expected"),
    [
        ({}, []),
        ({"persistence": 0}, [("gpu0.persistence", Status.WARN)]),
        ({"power_limit_w": 500.0}, [("gpu0.power", Status.WARN)]),
        ({"pcie_width": 8}, [("gpu0.pcie", Status.WARN)]),
        ({"persistence": None, "power_limit_w": None, "pcie_width": None}, []),
    ],
)
def test_boards(board: dict[str, object], expected: list[tuple[str, Status]]) -> None:
    assert bad(fitness.of_gpus([BOARD | board], [STATE])) == expected


def test_throttling_and_other_tenants_are_bad() -> None:
    throttled = GpuState(0, 1400, 1400, 1400, 1980, throttle=("thermal",))
    assert bad(fitness.of_gpus([BOARD], [throttled])) == [("gpu0.throttling", Status.BAD)]
    shared = GpuState(0, 1980, 1980, 1980, 1980, other_pids=(71, 72))
    assert bad(fitness.of_gpus([BOARD], [shared])) == [("gpu0.tenants", Status.BAD)]
    idle = GpuState(0, 345, 345, 345, 1980, throttle=("gpu-idle", "clocks-set-by-user"))
    assert bad(fitness.of_gpus([BOARD], [idle])) == []


def test_without_a_gpu_that_is_said() -> None:
    (one,) = fitness.of_gpus([], [])
    assert one.status == Status.UNKNOWN


def test_processors() -> None:
    machine = {"usable_cpus": 8, "load_1min": 0.5}
    assert bad(fitness.of_processors(machine, "performance", 0.0, None)) == []
    assert bad(fitness.of_processors(machine | {"load_1min": 6.0}, "powersave", 0.05, 2.0)) == [
        ("governor", Status.WARN),
        ("load", Status.WARN),
        ("steal", Status.WARN),
        ("quota", Status.WARN),
    ]
    assert bad(fitness.of_processors(machine, None, None, 16.0)) == [("governor", Status.UNKNOWN)]


def test_memory_and_disks() -> None:
    memory, swap = SimpleNamespace(available=9 * GIB, total=10 * GIB), SimpleNamespace(used=0)
    assert bad(fitness.of_memory(memory, swap, False)) == []
    tight, swapping = SimpleNamespace(available=GIB // 2, total=10 * GIB), SimpleNamespace(used=GIB)
    assert [name for name, _ in bad(fitness.of_memory(tight, swapping, True))] == ["memory", "swap", "numa"]
    free = {"results": 5 << 20, "cache": 5 * GIB, "else": 50 * GIB, "gone": None}
    assert bad(fitness.of_disks(free)) == [
        ("disk.results", Status.BAD),
        ("disk.cache", Status.WARN),
        ("disk.gone", Status.UNKNOWN),
    ]


def test_the_client() -> None:
    assert bad(fitness.of_client(SELFTEST)) == []
    assert bad(fitness.of_client(SELFTEST | {"unstamped_share": 0.2})) == [("client.stamps", Status.WARN)]
    assert bad(fitness.of_client(SELFTEST | {"error_us_p99": 5000.0})) == [("client.error", Status.WARN)]


def test_this_machine_can_be_looked_at(tmp_path: Path) -> None:
    found = fitness.checks({"results": tmp_path / "not" / "there"})
    names = {one.check for one in found}
    assert {"load", "memory", "disk.results"} <= names
