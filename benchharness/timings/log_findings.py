"""What an engine's own log says against a measurement: work in the window that is no decoding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchharness.records import Cycle, Finding
from benchharness.records.logline import LogLine
from benchharness.timings.logs.startup import Startup

INTRUSIONS: Mapping[str, tuple[str, bool, str]] = {
    "jit": ("no-compilation", True, "kernels were compiled {count} times while it was measured ({text})"),
    "graph_capture": ("no-capture", True, "graphs were captured {count} times while it was measured"),
    "retraction": ("no-retraction", True, "the engine took back requests {count} times for want of cache"),
    "preemption": ("no-retraction", True, "the engine preempted requests {count} times for want of cache"),
}
"""Kind of line -> check, whether it is grave, and its sentence."""


def findings(rows: Iterable[LogLine]) -> tuple[Finding, ...]:
    """Findings of the lines that were written while requests were measured."""
    told = Counter[str]()
    texts: dict[str, str] = {}
    for row in rows:
        kind = _kind(row)
        if kind in INTRUSIONS:
            told[kind] += 1
            texts.setdefault(kind, " ".join(row.text.split())[-160:])
    return tuple(_sentences(told, texts))


def _kind(row: LogLine) -> str:
    if row.kind == "decode" and row.figure("retracted_req") > 0:
        return "retraction"
    return row.kind


def _sentences(told: Counter[str], texts: Mapping[str, str]) -> Iterator[Finding]:
    for kind, (check, grave, sentence) in INTRUSIONS.items():
        if told[kind]:
            yield Finding(check, grave, sentence.format(count=told[kind], text=texts[kind]))


def graph_hazard(settings: Mapping[str, Any], streams: int | None) -> Iterator[Finding]:
    """More streams than the largest batch that a graph was captured for: above it decoding goes eager.

    Args:
        settings: what the start resolved, with `graph_batch_sizes` where graphs were captured.
        streams: requests that are kept open; None where a rate drives.
    """
    sizes = settings.get("graph_batch_sizes")
    if isinstance(sizes, Sequence) and sizes and streams is not None and streams > max(sizes):
        yield Finding(
            "graphs-cover-the-load",
            False,
            f"graphs were captured up to a batch of {max(sizes)}, but {streams} streams are kept open: "
            "larger batches run without a graph",
        )


def graphs_as_captured(settings: Mapping[str, Any], cycles: Sequence[Cycle]) -> Iterator[Finding]:
    """A batch that fits a captured graph replays it, as far as cycles tell.

    Args:
        settings: what the start resolved, with `graph_batch_sizes` where graphs were captured.
        cycles: of the trial.
    """
    sizes = settings.get("graph_batch_sizes")
    if not isinstance(sizes, Sequence) or not sizes:
        return
    fitting = [cycle for cycle in cycles if cycle.graph is not None and (cycle.batch_size or 1) <= max(sizes)]
    eager = sum(not cycle.graph for cycle in fitting)
    if fitting and eager == len(fitting):
        yield Finding(
            "graphs-as-declared",
            False,
            f"graphs were captured up to a batch of {max(sizes)}, but none of {len(fitting)} cycles replayed "
            "one",
        )


def device_used(rows: Iterable[LogLine], device: object) -> Iterator[Finding]:
    """The GPU that was asked for is used, by the engine's own word.

    Args:
        rows: of the start.
        device: as the server tells it; None where it doesn't.
    """
    startup = Startup()
    for row in rows:
        startup.add(row)
    hazard = startup.device_hazard or ("the server runs on the CPU" if device == "cpu" else "")
    if hazard:
        yield Finding("device-used", True, f"device not used: {hazard}")
