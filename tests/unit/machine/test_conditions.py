"""The conditions of a launch: each fact where it can be read, nothing and no error where it can't."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from benchharness import machine
from benchharness.machine import gpus, launch_conditions
from benchharness.records import Cycle, GpuState, Trial, Workload
from benchharness.validity.gpus import clocks_known

ANSWERS: dict[str, Any] = {
    "nvmlInit": lambda: None,
    "nvmlShutdown": lambda: None,
    "nvmlDeviceGetCount": lambda: 2,
    "nvmlDeviceGetHandleByIndex": lambda index: index,
    "nvmlSystemGetDriverVersion": lambda: "570.86.15",
    "nvmlSystemGetCudaDriverVersion_v2": lambda: 12080,
    "nvmlDeviceGetName": lambda _: "NVIDIA H200",
    "nvmlDeviceGetUUID": lambda index: f"GPU-{index}",
    "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=1 << 37, used=1 << 30, free=1 << 36),
    "nvmlDeviceGetPciInfo": lambda index: SimpleNamespace(busId=f"0000000{index}:1B:00.0"),
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda _: 5,
    "nvmlDeviceGetMaxPcieLinkGeneration": lambda _: 5,
    "nvmlDeviceGetCurrPcieLinkWidth": lambda index: (16, 8)[index],
    "nvmlDeviceGetMaxPcieLinkWidth": lambda _: 16,
    "nvmlDeviceGetMaxClockInfo": lambda _, kind: {pynvml.NVML_CLOCK_SM: 1980, pynvml.NVML_CLOCK_MEM: 3201}[
        kind
    ],
    "nvmlDeviceGetApplicationsClock": lambda *_: 1980,
    "nvmlDeviceGetPowerManagementLimit": lambda _: 700_000,
    "nvmlDeviceGetPowerManagementDefaultLimit": lambda _: 700_000,
    "nvmlDeviceGetPersistenceMode": lambda _: 1,
    "nvmlDeviceGetEccMode": lambda _: [1, 0],
    "nvmlDeviceGetMigMode": lambda _: [0, 0],
    "nvmlDeviceGetClockInfo": lambda *_: 1980,
    "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _: 0,
    "nvmlDeviceGetTemperature": lambda *_: 40,
    "nvmlDeviceGetPowerUsage": lambda _: 100_000,
    "nvmlDeviceGetViolationStatus": lambda *_: SimpleNamespace(violationTime=0),
    "nvmlDeviceGetComputeRunningProcesses": lambda _: [],
}


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, answer in ANSWERS.items():
        monkeypatch.setattr(pynvml, name, answer)


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /sys with two processors, two boards and a product."""
    files = {
        "class/dmi/id/product_name": "PowerEdge XE9680\n",
        "devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
        "devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave\n",
        "bus/pci/devices/0000:1b:00.0/numa_node": "0\n",
        "bus/pci/devices/0001:1b:00.0/numa_node": "1\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(launch_conditions, "SYSTEM", tmp_path)
    return tmp_path


@pytest.mark.usefixtures("nvml", "system")
def test_everything_that_can_be_read_is_there() -> None:
    found = machine.conditions()
    assert (found["driver"], found["cuda_driver"]) == ("570.86.15", "12.8")
    assert found["cpu_governor"] == "performance | powersave"
    assert found["product"] == "PowerEdge XE9680"
    assert isinstance(found["hypervisor"], bool)
    first, second = found["gpus"]
    assert first == {
        "index": 0,
        "name": "NVIDIA H200",
        "uuid": "GPU-0",
        "memory_bytes": 1 << 37,
        "pci_bus_id": "00000000:1B:00.0",
        "pcie_generation": 5,
        "pcie_generation_most": 5,
        "pcie_width": 16,
        "pcie_width_most": 16,
        "sm_mhz_limit": 1980,
        "sm_mhz_application": 1980,
        "memory_mhz_limit": 3201,
        "power_limit_w": 700.0,
        "power_limit_default_w": 700.0,
        "persistence": 1,
        "ecc": 1,
        "mig": 0,
        "numa_node": 0,
    }
    assert (second["pcie_width"], second["numa_node"]) == (8, 1)


@pytest.mark.usefixtures("nvml", "system")
@pytest.mark.parametrize("missing", [name for name in ANSWERS if name != "nvmlInit"])
@pytest.mark.parametrize("how", ["fails", "is no function", "is not in the binding"])
def test_any_question_may_have_no_answer(missing: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        error = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND if how == "is no function" else pynvml.NVML_ERROR_UNKNOWN
        raise pynvml.NVMLError(error)

    if how == "is not in the binding":
        monkeypatch.delattr(pynvml, missing)
    else:
        monkeypatch.setattr(pynvml, missing, fails)
    found = machine.conditions()
    boards = missing not in ("nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex")
    assert len(found["gpus"]) == 2 * boards
    assert None not in found.values()
    watch = machine.GpuWatch(list)
    watch.sample()
    assert len(watch.states()) == 2 * boards
    assert len(machine.describe()["gpus"]) == 2 * boards


def test_without_nvml_and_system_files_nothing_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    monkeypatch.setattr(launch_conditions, "SYSTEM", tmp_path)
    found = machine.conditions()
    assert found["gpus"] == []
    assert not {"driver", "cuda_driver", "product", "cpu_governor"} & found.keys()
    assert gpus.driver() is None


def test_clocks_that_nobody_watched_are_said_to_be_unknown() -> None:
    def said(clock: str, *states: GpuState) -> list[str]:
        cycle = Cycle(0, 0, 1, 5.0, None, None, None, "probe", clock)
        trial = Trial(0, 0, Workload(1, 1, 1), (), (cycle,), gpus=states)
        return [finding.sentence for finding in clocks_known(trial)]

    (sentence,) = said("cuda-event")
    assert sentence.startswith("GPU clocks unknown: NVML does not answer")
    (sentence,) = said("cuda-event", GpuState(0))
    assert "the driver doesn't tell them" in sentence
    assert said("cuda-event", GpuState(0, sm_mhz_median=1980)) == []
    assert said("host") == []
