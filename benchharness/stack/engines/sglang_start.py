"""What SGLang's start-up log tells of what the start resolved; its answers over HTTP leave some of it out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchharness.timings.logs import nccl_ranks

READY = "The server is fired up and ready to roll!"
MOST_BYTES = 8 << 20
MOST_NOTES = 8
"""Most sentences about all-reduce that are kept: with many ranks each says the same."""

_STAMP = re.compile(r"^(?:\[[^\]]*\]\s*)?")
_ALL_REDUCE = re.compile(r"all[ _-]?reduce|mscclpp|symmetric memory|symm_mem", re.IGNORECASE)
_NOT_SAID_BY_START = re.compile(r"server_args=|ServerArgs\(|UserWarning|Prefill batch|Decode batch")


def _number(text: str) -> int:
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


_FIRST: tuple[tuple[str, re.Pattern[str], Callable[[str], Any]], ...] = (
    ("kv_cache_tokens", re.compile(r"KV Cache is allocated\..*?#tokens: (\d+)"), _number),
    ("kv_cache_tokens", re.compile(r"max_total_num_tokens=(\d+)"), _number),
    ("kv_cache_dtype", re.compile(r"Using KV cache dtype: (\S+)"), str),
    ("kv_cache_dtype", re.compile(r"KV Cache is allocated\. dtype: ([\w.]+)"), str),
    ("max_running_requests", re.compile(r"max_running_requests=(\d+)"), _number),
    ("context_limit_tokens", re.compile(r"context_len=(\d+)"), _number),
    ("chunked_prefill_tokens", re.compile(r"chunked_prefill_size=(-?\d+)"), _number),
    # The names of captures changed at 0.5.14; speculation's target graphs are its verify graphs.
    ("graph_batch_sizes", re.compile(r"Capture cuda graph bs \[([\d, ]*)\]"), _numbers),
    (
        "graph_batch_sizes",
        re.compile(
            r"Capture (?:target verify|target decode|decode) (?i:cuda) graph begin\..*?\bbs=\[([\d, ]*)\]"
        ),
        _numbers,
    ),
    (
        "draft_graph_batch_sizes",
        re.compile(r"Capture draft(?: decode)? (?i:cuda) graph begin\..*?\bbs=\[([\d, ]*)\]"),
        _numbers,
    ),
    (
        "draft_extend_graph_batch_sizes",
        re.compile(r"Capture draft extend (?i:cuda) graph begin\..*?\bbs=\[([\d, ]*)\]"),
        _numbers,
    ),
    ("nccl", re.compile(r"is using nccl==([\d.]+)"), str),
    ("attention_backend", re.compile(r"[Aa]ttention backend not (?:explicitly )?specified\. Use (\w+)"), str),
    ("graphs_off_because", re.compile(r"((?:Cuda|CUDA|cuda) graph is disabled because .*)"), str),
)
"""Fact, where it stands, and how it is read. Of several lines the first counts: it is the target's."""

_CAPTURED = re.compile(r"Capture ((?:[\w-]+ )*?)(?i:cuda) graph end")


def facts(log: Path) -> Mapping[str, Any]:
    """Facts of the lines up to the ready line, by field terms; what a release doesn't print is absent.

    `graphs_captured` lists the kinds of graphs whose capture ended (`target`, `draft`, `draft extend`,
    `piecewise` ...), `all_reduce_notes` what the start said about the way to reduce across ranks,
    `nccl_ranks` what NCCL said of each rank where NCCL_DEBUG=INFO lets it speak (see `nccl_ranks.Rank`).
    """
    found: dict[str, Any] = {}
    kinds: list[str] = []
    notes: list[str] = []
    lines = list(_lines(log))
    for line in lines:
        for name, pattern, read in _FIRST:
            if name not in found and (match := pattern.search(line)):
                found[name] = read(match[1])
        if match := _CAPTURED.search(line):
            kinds.append(match[1].strip() or "target")
        if _ALL_REDUCE.search(line) and not _NOT_SAID_BY_START.search(line):
            notes.append(_STAMP.sub("", line, count=1).strip())
    if kinds:
        found["graphs_captured"] = tuple(dict.fromkeys(kinds))
    if notes:
        found["all_reduce_notes"] = tuple(dict.fromkeys(notes))[:MOST_NOTES]
    if ranks := nccl_ranks.ranks(lines):
        found["nccl_ranks"] = {str(rank): _without_pid(told) for rank, told in ranks.items()}
    return found


def _without_pid(told: nccl_ranks.Rank) -> dict[str, Any]:
    """What two launches may be compared by."""
    return {name: value for name, value in asdict(told).items() if name != "pid" and value}


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
