"""What vLLM's start-up log tells of what the start resolved; /metrics and /v1/models leave most of it out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

READY = "Application startup complete."
MOST_BYTES = 8 << 20


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _yes(text: str) -> bool:
    return text == "True"


_FIRST: tuple[tuple[str, re.Pattern[str], Callable[[str], Any]], ...] = (
    ("attention_backend", re.compile(r"Using (\w+) (?:attention )?backend(?:\.| out of)"), str),
    ("kv_cache_tokens", re.compile(r"KV cache size: ([\d,]+) tokens"), _number),
    ("max_concurrency", re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x"), float),
    ("kv_cache_layout", re.compile(r"Using (\w+) KV cache layout"), str),
    (
        "batched_tokens_limit",
        re.compile(r"max_num_(?:batched|scheduled)_tokens(?:=| is set to )(\d+)"),
        _number,
    ),
    ("graph_batch_sizes", re.compile(r"'cudagraph_capture_sizes': \[([\d, ]*)\]"), _numbers),
    ("graph_mode", re.compile(r"'cudagraph_mode': <CUDAGraphMode\.(\w+)"), str),
    ("graph_memory_gib", re.compile(r"Graph capturing finished in \d+ secs, took ([\d.]+) GiB"), float),
    ("compilation_mode", re.compile(r"'mode': <CompilationMode\.(\w+)"), str),
    ("dtype", re.compile(r"Initializing a V1 LLM engine .*? dtype=([\w.]+)"), str),
    ("kv_cache_dtype", re.compile(r"Initializing a V1 LLM engine .*? kv_cache_dtype=([\w.]+)"), str),
    ("context_limit_tokens", re.compile(r"Initializing a V1 LLM engine .*? max_seq_len=(\d+)"), _number),
    ("seed", re.compile(r"Initializing a V1 LLM engine .*? seed=(\d+)"), _number),
    ("device", re.compile(r"Initializing a V1 LLM engine .*? device_config=(\w+)"), str),
    ("enforce_eager", re.compile(r"Initializing a V1 LLM engine .*? enforce_eager=(\w+)"), _yes),
    ("chunked_prefill", re.compile(r"Initializing a V1 LLM engine .*? enable_chunked_prefill=(\w+)"), _yes),
    (
        "custom_all_reduce_off",
        re.compile(r"Initializing a V1 LLM engine .*? disable_custom_all_reduce=(\w+)"),
        _yes,
    ),
    ("nccl", re.compile(r"is using nccl==([\d.]+)"), str),
    ("runner", re.compile(r"(?:using|Using) the (V\d) model runner"), str),
)
"""Fact, where it stands, and how it is read. Of several lines the first counts: it is the target's."""


def facts(log: Path) -> Mapping[str, Any]:
    """Facts of the lines up to the ready line, by field terms; what a release doesn't print is absent."""
    found: dict[str, Any] = {}
    for line in _lines(log):
        for name, pattern, read in _FIRST:
            if name not in found and (match := pattern.search(line)):
                found[name] = read(match[1])
    return found


def _lines(log: Path) -> Iterator[str]:
    try:
        with log.open("rb") as file:
            text = file.read(MOST_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        yield line
        if READY in line:
            return
