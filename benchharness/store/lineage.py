"""What makes stacks of several runs one and the same over time, told from a run's manifest alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

_NOT_THE_WORK = ("requests", "warmup_requests", "timeout_s")
_SOURCE = ("release", "commit", "repo", "patch", "diff_sha256")


@dataclass(frozen=True)
class Member:
    """A stack of one run, as one of its kind.

    Attributes:
        name: of the stack.
        lineage: digest of what was declared and is not expected to move: equal for one stack over time.
        moving: what may move from run to run: `source.commit`, `source.release`, `packages.NAME`, `python`.
    """

    name: str
    lineage: str
    moving: Mapping[str, str]


def member(stack: Mapping[str, Any]) -> Member:
    """A stack from its document in run.json."""
    still = {key: stack.get(key) for key in ("engine", "env", "model", "args")}
    source, packages = stack.get("source") or {}, stack.get("packages") or {}
    moving = {f"source.{key}": source.get(key) for key in _SOURCE} | {"python": stack.get("python")}
    moving |= {f"packages.{name}": version for name, version in packages.items()}
    told = {path: str(value) for path, value in moving.items() if value}
    return Member(str(stack["name"]), _digest(still), told)


def work(workload: Mapping[str, Any]) -> str:
    """Digest of a workload's document: equal where the work is."""
    return _digest({key: value for key, value in workload.items() if key not in _NOT_THE_WORK})


def hardware(machine: Mapping[str, Any]) -> str:
    """The machine in a few words: processor, memory, GPUs. A new kernel or driver is no other machine."""
    gpus = [str(gpu.get("name")) for gpu in machine.get("gpus") or ()]
    counted = [f"{gpus.count(name)} x {name}" for name in dict.fromkeys(gpus)]
    memory = machine.get("memory_bytes")
    parts = [
        str(machine.get("cpu") or machine.get("architecture") or "unknown processor"),
        f"{machine.get('usable_cpus') or machine.get('logical_cpus') or '?'} CPUs",
        f"{round(memory / 2**30)} GiB" if isinstance(memory, int | float) else "",
        ", ".join(counted) or "no GPU",
    ]
    return ", ".join(part for part in parts if part)


def _digest(document: Mapping[str, Any]) -> str:
    """Of what is set: a field that a later version adds, unset, makes nothing else of it."""
    text = orjson.dumps(_set(document), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:16]


def _set(value: Any) -> Any:
    """The same without fields that hold nothing; what engines are told (`args`) keeps its 0 and False."""
    if isinstance(value, Mapping):
        return {key: _set(one) for key, one in value.items() if one not in (None, "", {}, [])}
    return value
