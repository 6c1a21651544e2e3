"""The conditions of one launch: driver, GPU links and limits, governor, virtualisation.

Stored with each launch's attestation, since a driver can be updated and a link can degrade between two.
Whatever can't be read is left out, never guessed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchharness.machine import gpus
from benchharness.machine.description import hypervisor_flag, virtualisation

SYSTEM = Path("/sys")


def conditions() -> dict[str, Any]:
    """Flat facts, and under `gpus` one mapping a GPU (see `gpus.described`), each with its NUMA node."""
    boards = gpus.described()
    facts: dict[str, Any] = {
        "driver": gpus.driver(),
        "cuda_driver": gpus.cuda_driver(),
        "cpu_governor": _governors(),
        "hypervisor": hypervisor_flag(),
        "virtualisation": virtualisation(),
        "product": _line(SYSTEM / "class" / "dmi" / "id" / "product_name"),
        "gpus": [_with_node(board) for board in boards],
    }
    return {name: value for name, value in facts.items() if value is not None}


def _with_node(board: dict[str, Any]) -> dict[str, Any]:
    """The driver is told once for all; the node is -1 where the system has no notion of one."""
    shown = {name: value for name, value in board.items() if name != "driver"}
    node = _numa_node(board.get("pci_bus_id"))
    return shown if node is None else {**shown, "numa_node": node}


def _numa_node(bus_id: str | None) -> int | None:
    """Of a board by NVML's bus id, `00000000:17:00.0`; the system writes its domain with four digits."""
    if not bus_id:
        return None
    domain, _, rest = bus_id.lower().partition(":")
    text = _line(SYSTEM / "bus" / "pci" / "devices" / f"{domain[-4:]}:{rest}" / "numa_node")
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _governors() -> str | None:
    """The processors' frequency governor; all of them where they differ."""
    places = (SYSTEM / "devices" / "system" / "cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    found = {text for place in places if (text := _line(place))}
    return " | ".join(sorted(found)) or None


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None
