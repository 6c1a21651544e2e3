"""TensorRT-LLM: iteration rows of the PyTorch executor, and the JSON statistics of the Triton backend."""

from __future__ import annotations

import ast
import json
import re

from benchharness.records.logline import Value
from benchharness.timings.logs import fields, prefixes
from benchharness.timings.logs.fields import DamagedError

ENGINE = "trtllm"
MARKS = ("iter = ", '"Active Request Count"', '"Iteration Counter"')

OPENING = re.compile(r"\{\s*$|\{[^{}]*\"(?:Active Request Count|Iteration Counter)\"[^{}]*$")
"""A line that begins a JSON object which the following lines go on with."""

_ROW = re.compile(r"\biter = (\d+), .*")
_STATES = re.compile(r",? ?states = (\{.*\})")
_PIECE = re.compile(r"([A-Za-z_]\w*)(?: =|:) ?([^,]*)(?:, |$)")
_ROW_NAMES = {
    "host_step_time": "host_ms",
    "prev_device_step_time": "prev_device_ms",
    "num_scheduled_requests": "scheduled",
    "timestamp": "timestamp",
}
_ROW_KEYS = ("timestamp", "iter", "global_rank", "rank", "host_ms", "prev_device_ms", "scheduled")
_JSON_NAMES = {
    "Active Request Count": "active",
    "Iteration Counter": "iter",
    "Scheduled Requests": "scheduled",
    "Total Context Tokens": "ctx_tokens",
    "Used KV cache blocks": "used_kv",
    "Free KV cache blocks": "free_kv",
    "Max KV cache blocks": "max_kv",
    "Timestamp": "timestamp",
}


def parse(text: str) -> tuple[str, dict[str, Value]] | None:
    """(kind, fields) of a line, or of a JSON object with its lines joined; None for other lines.

    Raises:
        DamagedError: the line is one of TensorRT-LLM's, but broken.
    """
    start = text.find("{")
    if start >= 0 and ('"Active Request Count"' in text or '"Iteration Counter"' in text):
        return "iteration_stats", _statistics(text[start:])
    text, _ = prefixes.unwrap(text)
    match = _ROW.search(text)
    if match is None or "step_time" not in match[0]:
        return None
    return "iteration", _row(match[0])


def _statistics(text: str) -> dict[str, Value]:
    try:
        record = json.loads(text[: text.rindex("}") + 1], parse_int=str, parse_float=str)
    except ValueError:
        raise DamagedError("the JSON of an iteration is broken") from None
    found: dict[str, Value] = {"timestamp": None}
    for key, value in record.items():
        found[_JSON_NAMES.get(key) or fields.name(key)] = (
            value if isinstance(value, str) else json.dumps(value)
        )
    return found


def _row(text: str) -> dict[str, Value]:
    found: dict[str, Value] = dict.fromkeys(_ROW_KEYS)
    if states := _STATES.search(text):
        text = text[: states.start()]
        try:
            record = ast.literal_eval(states[1])
        except (ValueError, SyntaxError):
            raise DamagedError("the states of an iteration are broken") from None
        found.update({str(key): str(value) for key, value in record.items()})
    for key, value in _PIECE.findall(text):
        found[_ROW_NAMES.get(key, key)] = _plain(value.strip())
    for key in ("iter", "host_ms", "scheduled"):
        value = found[key]
        if not isinstance(value, str) or not fields.number(value):
            raise DamagedError(f"{key} is missing or no number")
    return found


def _plain(value: str) -> str | None:
    """A value without its unit; None for N/A."""
    value = value.removesuffix("ms")
    return None if value == "N/A" else value
