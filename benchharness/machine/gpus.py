"""NVIDIA GPUs through NVML: what they are, and what their clocks do during a trial.

NVML is asked only when a request has ended, never by a timer while a stream is read. A reading that a
board doesn't offer is None; without a driver there are no GPUs here, which is "unknown", not "steady".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median_low
from typing import Any

import pynvml

from benchharness.records import GpuState

SAMPLE_EVERY_S = 0.5

REASONS = {
    "power-cap": pynvml.nvmlClocksThrottleReasonSwPowerCap,
    "hw-slowdown": pynvml.nvmlClocksThrottleReasonHwSlowdown,
    "hw-thermal": pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "hw-power-brake": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
    "thermal": pynvml.nvmlClocksThrottleReasonSwThermalSlowdown,
    "sync-boost": pynvml.nvmlClocksThrottleReasonSyncBoost,
    "clocks-set-by-user": pynvml.nvmlClocksThrottleReasonApplicationsClocksSetting,
}
"""Name -> bit of what holds a clock down; being idle is left out, since it is no fault."""


def _asked(question: str, *arguments: Any) -> Any:
    """The answer of NVML's function of that name, or None where board, driver or binding has none."""
    try:
        return getattr(pynvml, question)(*arguments)
    except (pynvml.NVMLError, AttributeError):
        return None


@contextmanager
def _session() -> Iterator[bool]:
    """Whether NVML answers, for as long as the block lasts."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield False
        return
    try:
        yield True
    finally:
        _asked("nvmlShutdown")


def _handles() -> dict[int, Any]:
    """Index -> board, of those that can be asked."""
    found = {
        index: _asked("nvmlDeviceGetHandleByIndex", index)
        for index in range(_asked("nvmlDeviceGetCount") or 0)
    }
    return {index: handle for index, handle in found.items() if handle is not None}


def _text(value: str | bytes | None) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def driver() -> str | None:
    """Version of the driver; None without one."""
    with _session() as answers:
        return _text(_asked("nvmlSystemGetDriverVersion")) if answers else None


def cuda_driver() -> str | None:
    """The CUDA version that the driver serves, as `12.4`; None without one."""
    with _session() as answers:
        version = _asked("nvmlSystemGetCudaDriverVersion_v2") if answers else None
    return None if version is None else f"{version // 1000}.{version % 1000 // 10}"


def described() -> list[dict[str, Any]]:
    """Name, UUID, memory, driver, clocks, power cap, PCIe link and mode of each GPU, as plain data."""
    with _session() as answers:
        if not answers:
            return []
        version = _text(_asked("nvmlSystemGetDriverVersion"))
        return [_described(index, handle, version) for index, handle in _handles().items()]


def _described(index: int, handle: Any, version: str | None) -> dict[str, Any]:
    memory = _asked("nvmlDeviceGetMemoryInfo", handle)
    pci = _asked("nvmlDeviceGetPciInfo", handle)
    facts = {
        "index": index,
        "name": _text(_asked("nvmlDeviceGetName", handle)),
        "uuid": _text(_asked("nvmlDeviceGetUUID", handle)),
        "driver": version,
        "memory_bytes": int(memory.total) if memory else None,
        "pci_bus_id": _text(pci.busId) if pci else None,
        "pcie_generation": _asked("nvmlDeviceGetCurrPcieLinkGeneration", handle),
        "pcie_generation_most": _asked("nvmlDeviceGetMaxPcieLinkGeneration", handle),
        "pcie_width": _asked("nvmlDeviceGetCurrPcieLinkWidth", handle),
        "pcie_width_most": _asked("nvmlDeviceGetMaxPcieLinkWidth", handle),
        "sm_mhz_limit": _asked("nvmlDeviceGetMaxClockInfo", handle, pynvml.NVML_CLOCK_SM),
        "sm_mhz_application": _asked("nvmlDeviceGetApplicationsClock", handle, pynvml.NVML_CLOCK_SM),
        "memory_mhz_limit": _asked("nvmlDeviceGetMaxClockInfo", handle, pynvml.NVML_CLOCK_MEM),
        "power_limit_w": _watts(_asked("nvmlDeviceGetPowerManagementLimit", handle)),
        "power_limit_default_w": _watts(_asked("nvmlDeviceGetPowerManagementDefaultLimit", handle)),
        "persistence": _asked("nvmlDeviceGetPersistenceMode", handle),
        "ecc": _present(_asked("nvmlDeviceGetEccMode", handle)),
        "mig": _present(_asked("nvmlDeviceGetMigMode", handle)),
    }
    return {key: value for key, value in facts.items() if value is not None}


def memory() -> dict[int, tuple[int, int]]:
    """Bytes free and in all of each GPU, by its index; empty without a driver."""
    with _session() as answers:
        boards = _handles() if answers else {}
        found = {index: _asked("nvmlDeviceGetMemoryInfo", handle) for index, handle in boards.items()}
    return {index: (int(one.free), int(one.total)) for index, one in found.items() if one is not None}


def _watts(power_mw: int | None) -> float | None:
    return None if power_mw is None else power_mw / 1000


def _present(modes: Any) -> Any:
    """Of a mode that is told as (present, after the next start): the present one."""
    return None if modes is None else modes[0]


@dataclass(frozen=True)
class _Sample:
    sm_mhz: int | None
    reasons: int
    temperature_c: int | None
    power_w: float | None
    memory_bytes: int | None


class GpuWatch:
    """Samples all GPUs during one trial: `sample()` as requests end, `states()` once when it is over."""

    def __init__(self, engine_pids: Callable[[], Collection[int]]) -> None:
        self._engine_pids = engine_pids
        self._handles: dict[int, Any] = {}
        self._last = 0.0
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError:
            return
        self._handles = _handles()
        self._samples: dict[int, list[_Sample]] = {index: [] for index in self._handles}
        self._others: dict[int, set[int]] = {index: set() for index in self._handles}
        self._violations_ns = {index: _violations_ns(handle) for index, handle in self._handles.items()}

    def sample(self, *, now: bool = False) -> None:
        """Take a sample of every GPU, unless one was taken a moment ago."""
        if not self._handles or (not now and time.monotonic() - self._last < SAMPLE_EVERY_S):
            return
        self._last = time.monotonic()
        mine = set(self._engine_pids())
        for index, handle in self._handles.items():
            self._samples[index].append(_sampled(handle))
            there = _asked("nvmlDeviceGetComputeRunningProcesses", handle) or []
            self._others[index] |= {process.pid for process in there} - mine

    def states(self) -> tuple[GpuState, ...]:
        """What each GPU did since this watch was made; the watch is over then."""
        if not self._handles:
            return ()
        self.sample(now=True)
        states = tuple(self._state(index) for index in self._handles)
        self._handles = {}
        _asked("nvmlShutdown")
        return states

    def _state(self, index: int) -> GpuState:
        handle = self._handles[index]
        samples = self._samples[index]
        clocks = [sample.sm_mhz for sample in samples if sample.sm_mhz is not None]
        bits = 0
        for sample in samples:
            bits |= sample.reasons
        before, after = self._violations_ns[index], _violations_ns(handle)
        return GpuState(
            index=index,
            sm_mhz_min=min(clocks, default=None),
            sm_mhz_median=median_low(clocks) if clocks else None,
            sm_mhz_max=max(clocks, default=None),
            sm_mhz_limit=_asked("nvmlDeviceGetMaxClockInfo", handle, pynvml.NVML_CLOCK_SM),
            throttle=tuple(name for name, bit in REASONS.items() if bits & bit),
            throttled_ms=None if before is None or after is None else (after - before) / 1e6,
            temperature_c=max(
                (s.temperature_c for s in samples if s.temperature_c is not None), default=None
            ),
            power_w=max((s.power_w for s in samples if s.power_w is not None), default=None),
            memory_bytes=max((s.memory_bytes for s in samples if s.memory_bytes is not None), default=None),
            other_pids=tuple(sorted(self._others[index])),
        )


def _sampled(handle: Any) -> _Sample:
    used = _asked("nvmlDeviceGetMemoryInfo", handle)
    return _Sample(
        sm_mhz=_asked("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_SM),
        reasons=_asked("nvmlDeviceGetCurrentClocksThrottleReasons", handle) or 0,
        temperature_c=_asked("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU),
        power_w=_watts(_asked("nvmlDeviceGetPowerUsage", handle)),
        memory_bytes=int(used.used) if used else None,
    )


def _violations_ns(handle: Any) -> int | None:
    """Nanoseconds since boot for which power or heat held the clock down; None where not counted."""
    policies = (pynvml.NVML_PERF_POLICY_POWER, pynvml.NVML_PERF_POLICY_THERMAL)
    answers = [_asked("nvmlDeviceGetViolationStatus", handle, policy) for policy in policies]
    known = [int(answer.violationTime) for answer in answers if answer is not None]
    return sum(known) if known else None
