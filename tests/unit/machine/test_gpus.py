"""GPU clocks, with a fake NVML in the way: throttling is seen, and a missing driver is no GPU at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pynvml
import pytest

from benchharness import machine, validity
from benchharness.machine import gpus
from benchharness.records import GpuState, Trial, Workload


class FakeNvml:
    """One GPU whose clock, throttle bits and counters the test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sm_mhz = 2625
        self.reasons = 0
        self.violation_ns = 5_000_000
        self.pids = [10]
        answers: dict[str, Callable[..., object]] = {
            "nvmlInit": lambda: None,
            "nvmlShutdown": lambda: None,
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetClockInfo": lambda *_: self.sm_mhz,
            "nvmlDeviceGetMaxClockInfo": lambda *_: 2625,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _: self.reasons,
            "nvmlDeviceGetTemperature": lambda *_: 60,
            "nvmlDeviceGetPowerUsage": lambda _: 300_000,
            "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(used=7 << 30, free=1 << 30, total=8 << 30),
            "nvmlDeviceGetViolationStatus": self._violations,
            "nvmlDeviceGetComputeRunningProcesses": lambda _: [SimpleNamespace(pid=p) for p in self.pids],
        }
        for name, answer in answers.items():
            monkeypatch.setattr(pynvml, name, answer)

    def _violations(self, _handle: int, policy: int) -> SimpleNamespace:
        if policy == pynvml.NVML_PERF_POLICY_THERMAL:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(violationTime=self.violation_ns)


def findings_of(state: GpuState) -> list[str]:
    trial = Trial(0, 0, Workload(1, 1, 1), (), (), gpus=(state,), finished_ns=10**9)
    return [f.sentence for f in validity.findings(trial) if f.check in ("clocks-held", "gpu-alone")]


def test_a_steady_gpu_is_described_and_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNvml(monkeypatch)
    (state,) = machine.GpuWatch(lambda: [10]).states()
    assert state == GpuState(0, 2625, 2625, 2625, 2625, (), 0.0, 60, 300.0, 7 << 30, ())
    assert findings_of(state) == []


def test_a_throttled_arm_is_flagged_with_clock_and_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(monkeypatch)
    monkeypatch.setattr(gpus, "SAMPLE_EVERY_S", 0.0)
    watch = machine.GpuWatch(lambda: [10])
    watch.sample()
    nvml.sm_mhz, nvml.reasons = 1455, pynvml.nvmlClocksThrottleReasonSwPowerCap
    watch.sample()
    nvml.violation_ns += 800_000_000
    (state,) = watch.states()
    assert (state.sm_mhz_min, state.sm_mhz_median, state.sm_mhz_max) == (1455, 1455, 2625)
    assert state.throttle == ("power-cap",)
    assert state.throttled_ms == 800.0
    (sentence,) = findings_of(state)
    assert "power-cap" in sentence and "1455 of 2625 MHz" in sentence


def test_throttling_between_samples_shows_in_the_drivers_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(monkeypatch)
    watch = machine.GpuWatch(lambda: [10])
    nvml.violation_ns += 500_000_000
    (state,) = watch.states()
    assert state.throttle == ()
    assert len(findings_of(state)) == 1
    assert findings_of(replace(state, throttled_ms=5.0)) == []


def test_another_tenant_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml(monkeypatch)
    nvml.pids = [10, 4711]
    (state,) = machine.GpuWatch(lambda: [10]).states()
    assert state.other_pids == (4711,)
    assert "4711" in findings_of(state)[0]


def test_idle_is_no_throttling(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNvml(monkeypatch).reasons = pynvml.nvmlClocksThrottleReasonGpuIdle
    (state,) = machine.GpuWatch(lambda: [10]).states()
    assert state.throttle == ()


def test_without_nvml_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    watch = machine.GpuWatch(list)
    watch.sample()
    assert watch.states() == ()
    assert machine.describe()["gpus"] == []
