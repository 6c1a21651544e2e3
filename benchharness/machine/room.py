"""Do two engines fit on this machine at the same time? As far as can be known before they are started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psutil

from benchharness.machine import gpus

GIB = 1 << 30


@dataclass(frozen=True)
class Need:
    """What a stack needs.

    Attributes:
        stack: its name.
        devices: GPUs that it uses; empty on the CPU.
        share: of each device's memory that it reserves; None where it reserves no share.
        argument: what sets that share; `told` whether the stack says it.
        model_bytes: of its models' files; None where they aren't known yet.
        port: that it insists on; None where the harness chooses.
    """

    stack: str
    devices: tuple[str, ...] = ()
    share: float | None = None
    argument: str = ""
    told: bool = False
    model_bytes: int | None = None
    port: int | None = None


@dataclass(frozen=True)
class Room:
    """Whether they fit, and why (not), in whole sentences."""

    fits: bool
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Free:
    """Bytes that are free now: of the machine's memory, and of each GPU with its total."""

    memory: int
    gpus: Mapping[str, tuple[int, int]]


def free() -> Free:
    """What is free on this machine."""
    boards = {str(index): memory for index, memory in gpus.memory().items()}
    return Free(psutil.virtual_memory().available, boards)


def judge(needs: Sequence[Need], free: Free) -> Room:
    """Whether engines fit beside each other.

    Args:
        needs: of each of them.
        free: of this machine.
    """
    against = [*_ports(needs), *_shares(needs, free), *_models(needs, free)]
    if against:
        return Room(False, tuple(against))
    unknown = [need.stack for need in needs if need.model_bytes is None]
    said = "both fit, as far as can be known before they start"
    if unknown:
        said += f" (the size of the model of {', '.join(unknown)} is not known here)"
    return Room(True, (said,))


def _ports(needs: Sequence[Need]) -> list[str]:
    ports = [need.port for need in needs if need.port is not None]
    if len(set(ports)) == len(ports):
        return []
    return [f"all of them want port {ports[0]}: leave `port` to the harness"]


def _shares(needs: Sequence[Need], free: Free) -> list[str]:
    told = []
    for device in sorted({device for need in needs for device in need.devices}):
        on = [need for need in needs if device in need.devices and need.share is not None]
        total = sum(need.share or 0.0 for need in on)
        shares = " and ".join(
            f"{need.stack} {need.share:g}{'' if need.told else ' (unless told)'}" for need in on
        )
        lower = " and ".join(dict.fromkeys(need.argument for need in on))
        bytes_free, bytes_all = free.gpus.get(device, (0, 0))
        if len(on) > 1 and total > 1:
            told.append(
                f"GPU {device}: {shares} of its memory are {total:.2g}, more than there is: lower {lower} so "
                "that they add up to 0.9, or give each its own CUDA_VISIBLE_DEVICES"
            )
        elif bytes_all and total * bytes_all > bytes_free:
            told.append(
                f"GPU {device}: {shares} of its memory are {total * bytes_all / GIB:.1f} GiB, and "
                f"{bytes_free / GIB:.1f} GiB are free: lower {lower}, or end what else uses it"
            )
    return told


def _models(needs: Sequence[Need], free: Free) -> list[str]:
    """Files that are read whole: on the CPU, or onto a GPU without a share."""
    told = []
    places = {("memory", ""): free.memory} | {("GPU", name): have for name, (have, _) in free.gpus.items()}
    for (kind, device), have in places.items():
        there = [
            need
            for need in needs
            if need.share is None and (device in need.devices if device else not need.devices)
        ]
        size = sum((need.model_bytes or 0) // max(1, len(need.devices)) for need in there)
        if there and size > have:
            told.append(
                f"{kind} {device}".strip()
                + f": the models of {' and '.join(need.stack for need in there)} are {size / GIB:.1f} GiB, "
                f"and {have / GIB:.1f} GiB are free: use smaller ones, or measure.pairing: interleaved"
            )
    return told
