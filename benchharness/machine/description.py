"""What the machine is, as plain data stored with every run."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import psutil

from benchharness.machine import gpus


def describe() -> dict[str, Any]:
    """Processor, memory, system and GPUs. Whatever can't be read is left out, never guessed."""
    facts: dict[str, Any] = {
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "cpu": _cpu_model(),
        "logical_cpus": os.cpu_count(),
        "usable_cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_bytes": psutil.virtual_memory().total,
        "load_1min": round(os.getloadavg()[0], 2),
        "virtualisation": virtualisation(),
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None,
        "gpus": gpus.described(),
    }
    return {key: value for key, value in facts.items() if value is not None}


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def virtualisation() -> str | None:
    """The hypervisor's name where the processor flags one; None on bare metal or where unknown."""
    for path in ("/sys/hypervisor/type", "/sys/class/dmi/id/sys_vendor"):
        try:
            name = Path(path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue
        if name:
            break
    else:
        name = "unknown"
    return name if hypervisor_flag() else None


def hypervisor_flag() -> bool | None:
    """Whether the processor says that it is a virtual one; None where it can't be asked."""
    try:
        return " hypervisor" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
