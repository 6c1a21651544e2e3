"""The result tables of sglang.bench_serving and `vllm bench serve`."""

from __future__ import annotations

import re

from benchharness.records.logline import Value
from benchharness.timings.logs import fields
from benchharness.timings.logs.fields import DamagedError

ENGINE = "bench"
MARKS = ("Serving Benchmark Result", "Offline Throughput Benchmark Result")

HEAD = re.compile(r"=+ (?:Serving|Offline Throughput) Benchmark Result =+")
END = re.compile(r"\s*={20,}\s*$")
MOST_LINES = 400

_SECTION = re.compile(r"-{3,}\s*([A-Z][^-]*(?:-[^-]+)*?)\s*-{3,}$")
_ROW = re.compile(r"\s*([A-Z][^:]*?):(?:\s+(\S.*?))?\s*$")
_NAMES = {
    "Successful requests": "successful",
    "Failed requests": "failed",
    "Benchmark duration": "duration",
    "Total input tokens": "input",
    "Total generated tokens": "generated",
    "Total generated tokens (retokenized)": "retokenized",
    "Output token throughput": "out_tps",
    "Last generation throughput": "last_gen_tps",
    "Input token throughput": "in_tps",
    "Peak output token throughput": "peak_tps",
    "Total token throughput": "total_tps",
    "Total Token throughput": "total_tps",
    "Request throughput": "request_rate",
    "Max request concurrency": "max_concurrency",
    "Max reqeuest concurrency": "max_concurrency",
    "Maximum request concurrency": "max_concurrency",
    "Accept length": "accept_len",
    "Acceptance length": "accept_len",
    "Acceptance rate": "accept_rate",
}
_KEYS = (
    *("backend", "successful", "failed", "duration", "input", "generated", "retokenized", "out_tps"),
    *("peak_tps", "accept_len", "mean_ttft", "mean_tpot", "mean_itl"),
)
_UNIT = re.compile(r" \((?:s|ms|%|RPS|[\w/]+)\)$")
_RETOKENIZED_AT_LEAST = 0.9


def belongs(text: str) -> bool:
    """Whether a line goes on with a table that has begun."""
    return not text.strip() or bool(_SECTION.search(text.strip()) or _ROW.match(text))


def parse(text: str) -> tuple[str, dict[str, Value]] | None:
    """(`table`, fields) of a whole table, its lines joined by line feeds.

    Raises:
        DamagedError: the table says neither how many requests succeeded nor how long it took.
    """
    found: dict[str, Value] = dict.fromkeys(_KEYS)
    for line in text.split("\n")[1:]:
        row = _ROW.match(line)
        if row is None or row[2] is None:
            continue
        found[_key(row[1].strip())] = row[2]
    if found["successful"] is None and found["duration"] is None:
        raise DamagedError("a benchmark's table without its figures")
    found["doubts"] = tuple(doubts(found))
    return "table", found


def _key(label: str) -> str:
    if label in _NAMES:
        return _NAMES[label]
    bare = _UNIT.sub("", label)
    if bare in _NAMES:
        return _NAMES[bare]
    return fields.name(bare.replace("E2E Latency", "e2e"))


def doubts(found: dict[str, Value]) -> list[str]:
    """What in a table can't be so, as sentences."""
    said = []
    generated, retokenized = _figure(found, "generated"), _figure(found, "retokenized")
    if generated and retokenized is not None and retokenized < _RETOKENIZED_AT_LEAST * generated:
        said.append(
            f"{retokenized:.0f} tokens when retokenized, but {generated:.0f} generated: the stream carried "
            "no text for most tokens, so inter-token times mean nothing"
        )
    peak, mean = _figure(found, "peak_tps"), _figure(found, "out_tps")
    if peak is not None and mean is not None and peak < mean:
        said.append(
            f"the peak of {peak:g} tok/s is below the mean of {mean:g}: chunks were counted, not tokens"
        )
    itl, tpot = _figure(found, "mean_itl"), _figure(found, "mean_tpot")
    if itl and tpot and itl > 1.5 * tpot:
        said.append(f"{itl / tpot:.1f} tokens came in a chunk: the inter-token latency is that of chunks")
    return said


def _figure(found: dict[str, Value], key: str) -> float | None:
    value = found.get(key)
    return float(value) if isinstance(value, str) and fields.number(value) else None
