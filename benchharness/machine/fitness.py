"""Is this machine fit to measure on? One check each, with what to do about it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import psutil

from benchharness.machine import description, gpus, launch_conditions
from benchharness.records import GpuState

GIB = 1 << 30
LEAST_FREE, LITTLE_FREE = GIB, 10 * GIB
MOST_LOAD = 0.25
"""Load for each processor from which on other work is at it."""
MOST_STEAL = 0.01


class Status(StrEnum):
    """How a check came out."""

    FINE = "fine"
    NOTE = "note"
    WARN = "warn"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Check:
    """One check: its name, how it came out, what was seen, and what to do (empty where nothing is)."""

    check: str
    status: Status
    seen: str
    advice: str = ""


def checks(folders: Mapping[str, Path]) -> tuple[Check, ...]:
    """All checks of this machine as it is now.

    Args:
        folders: what for -> where results, environments and the like go.
    """
    boards = launch_conditions.conditions().get("gpus", [])
    watch = gpus.GpuWatch(lambda: ())
    watch.sample(now=True)
    return (
        *of_gpus(boards, watch.states()),
        *of_processors(description.describe(), _governor(), _steal(), _quota()),
        *of_memory(psutil.virtual_memory(), psutil.swap_memory(), _balancing()),
        *of_disks({what: _free(place) for what, place in folders.items()}),
    )


def of_gpus(boards: Sequence[Mapping[str, Any]], states: Sequence[GpuState]) -> Iterator[Check]:
    """Persistence, power cap, links, modes, throttling, other tenants."""
    if not boards:
        yield Check("gpus", Status.UNKNOWN, "NVML tells of no GPU", "install the driver, if there is one")
    for board in boards:
        name = f"gpu{board.get('index')}"
        yield from _of_board(name, board)
    for state in states:
        name = f"gpu{state.index}"
        reasons = sorted(set(state.throttle) - {"clocks-set-by-user", "idle", "gpu-idle"})
        told = f"SM clock {state.sm_mhz_median} of {state.sm_mhz_limit} MHz"
        if reasons:
            advice = "look at cooling and power; wait until it is over"
            yield Check(f"{name}.throttling", Status.BAD, f"{', '.join(reasons)}; {told}", advice)
        else:
            yield Check(f"{name}.throttling", Status.FINE, f"nothing holds the clock down; {told}")
        if state.other_pids:
            listed = ", ".join(str(pid) for pid in state.other_pids[:6])
            yield Check(f"{name}.tenants", Status.BAD, f"in use by {listed}", "end those processes")
        else:
            yield Check(f"{name}.tenants", Status.FINE, "nobody else computes on it")


def _of_board(name: str, board: Mapping[str, Any]) -> Iterator[Check]:
    if board.get("persistence") == 0:
        advice = f"nvidia-smi -i {board.get('index')} -pm 1"
        yield Check(f"{name}.persistence", Status.WARN, "off: the driver unloads between launches", advice)
    cap, usual = board.get("power_limit_w"), board.get("power_limit_default_w")
    if cap is not None and usual is not None and cap < usual:
        advice = f"nvidia-smi -i {board.get('index')} -pl {usual:g}, or compare with equal caps only"
        yield Check(f"{name}.power", Status.WARN, f"capped at {cap:g} of {usual:g} W", advice)
    width, most = board.get("pcie_width"), board.get("pcie_width_most")
    if width is not None and most is not None and width < most:
        seen = f"the PCIe link has {width} of {most} lanes"
        yield Check(f"{name}.pcie", Status.WARN, seen, "reseat the board, or another slot")
    if board.get("mig"):
        yield Check(f"{name}.mig", Status.NOTE, "partitioned: only a part of the board is measured")
    told = f"{board.get('name')}, link of {width} lanes, cap of {cap} W, NUMA node {board.get('numa_node')}"
    yield Check(f"{name}.board", Status.FINE, told)


def of_processors(
    machine: Mapping[str, Any], governor: str | None, steal: float | None, quota: float | None
) -> Iterator[Check]:
    """Governor, load, stolen time, quota, virtualisation.

    Args:
        machine: as `description.describe` gives it.
        governor: of the processors' frequency.
        steal: share of time that the hypervisor gave to others since boot.
        quota: processors that a container may use; None without a limit.
    """
    if governor is None:
        yield Check("governor", Status.UNKNOWN, "the frequency governor can't be read")
    elif governor != "performance":
        yield Check("governor", Status.WARN, governor, "cpupower frequency-set -g performance")
    else:
        yield Check("governor", Status.FINE, governor)
    count, load = (
        machine.get("usable_cpus") or machine.get("logical_cpus") or 1,
        machine.get("load_1min", 0.0),
    )
    busy = load / count > MOST_LOAD
    advice = "wait, or end what runs" if busy else ""
    yield Check("load", Status.WARN if busy else Status.FINE, f"{load:g} on {count} processors", advice)
    if steal is not None and steal > MOST_STEAL:
        seen = f"{steal:.1%} of the time since boot went to other machines of the host"
        yield Check("steal", Status.WARN, seen, "use a dedicated host, or pair every comparison")
    if quota is not None and quota < count:
        seen = f"the container may use {quota:g} of {count} processors"
        yield Check("quota", Status.WARN, seen, "lift the limit: it stops processes in mid-measurement")
    if machine.get("virtualisation"):
        yield Check("virtualisation", Status.NOTE, f"a virtual machine ({machine['virtualisation']})")


def of_memory(memory: Any, swap: Any, balancing: bool | None) -> Iterator[Check]:
    """Free memory, swap, and whether the kernel moves pages between NUMA nodes."""
    tight = memory.available < 0.1 * memory.total
    seen = f"{memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB available"
    yield Check("memory", Status.WARN if tight else Status.FINE, seen, "free some memory" if tight else "")
    if swap.used > GIB // 4:
        yield Check("swap", Status.WARN, f"{swap.used / GIB:.1f} GiB in use", "free memory, then swapoff -a")
    if balancing:
        advice = "sysctl kernel.numa_balancing=0"
        yield Check("numa", Status.WARN, "the kernel moves pages between NUMA nodes", advice)


def of_disks(free: Mapping[str, int | None]) -> Iterator[Check]:
    """Free space where results and environments go."""
    for what, size in free.items():
        if size is None:
            yield Check(f"disk.{what}", Status.UNKNOWN, "its folder can't be looked at")
            continue
        status = Status.BAD if size < LEAST_FREE else Status.WARN if size < LITTLE_FREE else Status.FINE
        advice = "" if status == Status.FINE else "free some space: benchharness env gc"
        yield Check(f"disk.{what}", status, f"{size / GIB:.1f} GiB free", advice)


def of_client(selftest: Mapping[str, Any]) -> Iterator[Check]:
    """Whether the kernel stamps what arrives, and how late the client is.

    Args:
        selftest: as `workload.selftest` measured it.
    """
    if selftest["transport"] != "kernel-stamps" or selftest["unstamped_share"] > 0:
        seen = f"{selftest['unstamped_share']:.0%} of reads came without a kernel stamp"
        yield Check(
            "client.stamps", Status.WARN, seen, "arrival times are the client's own: use fewer streams"
        )
    else:
        yield Check("client.stamps", Status.FINE, "the kernel stamps arrivals")
    middle, most = selftest["error_us_p50"], selftest["error_us_p99"]
    late = most > 1000
    seen = f"stamps are late by {middle:.0f} us in the middle, by {most:.0f} us at 99 %"
    yield Check("client.error", Status.WARN if late else Status.FINE, seen, "end other work" if late else "")


def _governor() -> str | None:
    governor = launch_conditions.conditions().get("cpu_governor")
    return None if governor is None else str(governor)


def _steal() -> float | None:
    times = psutil.cpu_times()
    steal = getattr(times, "steal", None)
    return None if steal is None else float(steal) / max(1e-9, float(sum(times)))


def _quota() -> float | None:
    """Processors that the control group of this process may use (cgroup v2); None without a limit."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _balancing() -> bool | None:
    try:
        text = Path("/proc/sys/kernel/numa_balancing").read_text(encoding="ascii")
    except OSError:
        return None
    return text.strip() not in ("0", "")


def _free(place: Path) -> int | None:
    """Bytes free on the disk of a folder, or of the nearest one above it that is there."""
    for folder in (place.absolute(), *place.absolute().parents):
        if folder.exists():
            try:
                return shutil.disk_usage(os.fspath(folder)).free
            except OSError:
                return None
    return None
