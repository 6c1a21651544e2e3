"""What a launch's steps must read at least, and how fast its GPUs read: the two halves of a step's floor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchharness import machine
from benchharness.records import Environment, Model
from benchharness.stack import bandwidth
from benchharness.step_floor import shape_of


def facts(model: Model, environment: Environment | None, cache: Path) -> Mapping[str, Any]:
    """`copy_bytes_per_s` of a GPU, `step_weight_bytes` and `step_kv_bytes_per_token` of the target model.

    Empty without a GPU, without torch to measure with, or where the model is no plain dense decoder on disk.
    """
    gpus = machine.describe().get("gpus")
    if not gpus or environment is None or "torch" not in environment.packages or model.path is None:
        return {}
    try:
        config = json.loads((Path(model.path).expanduser() / "config.json").read_text(encoding="utf-8"))
        shape = shape_of(config)
    except (OSError, ValueError, AttributeError):
        return {}
    boards = ", ".join(f"{gpu.get('name')} {gpu.get('uuid')}" for gpu in gpus)
    speed = bandwidth.copy_bytes_per_s(environment, "cuda", boards, cache)
    if shape is None or speed is None:
        return {}
    return {
        "copy_bytes_per_s": round(speed),
        "step_weight_bytes": shape.step_weight_bytes,
        "step_kv_bytes_per_token": shape.kv_bytes_per_token,
        "ranks": model.tp,
    }
