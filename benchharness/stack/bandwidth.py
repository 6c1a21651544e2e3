"""How fast a device copies its own memory: measured once a machine, with the torch of an environment."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from benchharness.records import Command, Environment
from benchharness.stack.processtree import ProcessTree

METER = Path(__file__).with_name("copy_bandwidth_meter.py")
TIMEOUT_S = 120.0

_failed: set[str] = set()
"""What could not be measured in this process: it would take seconds again before every launch."""


def copy_bytes_per_s(environment: Environment, device: str, machine: str, cache: Path) -> float | None:
    """Bytes a second, read and written both counted; None where it can't be measured.

    Args:
        environment: holds torch.
        device: `cuda` or `cpu`.
        machine: tells this machine and its devices from others; the figure is kept under it.
        cache: the harness's cache folder.
    """
    key = hashlib.sha256(f"{device}\0{machine}".encode()).hexdigest()[:16]
    kept = cache.absolute() / "bandwidth" / f"{key}.json"
    found = _read(kept)
    if found is not None or key in _failed:
        return found
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft = kept.with_suffix(".new")
        tree = ProcessTree(
            Command((environment.python_path, str(METER), device, str(draft))), kept.with_suffix(".log")
        )
    except OSError:
        return None
    try:
        tree.wait(TIMEOUT_S)
    finally:
        tree.stop(grace_s=1.0)
    if tree.exit_code == 0 and _read(draft) is not None:
        draft.replace(kept)
    else:
        _failed.add(key)
    return _read(kept)


def _read(path: Path) -> float | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))["copy_bytes_per_s"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return float(value) if isinstance(value, int | float) and value > 0 else None
