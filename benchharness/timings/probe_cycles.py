"""Cycles from the probe's rows: joined with the requests that they served, and cut where a request begins."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from benchharness.records import Cycle, Finding, RequestTrace
from benchharness.timings.probe_file import ProbeFile, Row

SOURCE = "probe"


def cycles(files: Sequence[ProbeFile], requests: Sequence[RequestTrace]) -> tuple[Cycle, ...]:
    """The decode cycles of every process, process by process, in time order.

    Prefill, idle and other passes are no cycles. Durations are those between CUDA events where a row has
    them, else those of the host's clock; `clock` says which.

    Where no two requests were under way at once, each cycle belongs to the one between whose `sent_ns` and
    `finished_ns` it began, and cycles outside of all requests (the engine's own warm-up) are left out. With
    several at once all cycles are kept, with `request` -1. Without requests likewise.
    """
    windows = sorted((trace for trace in requests), key=lambda trace: trace.sent_ns)
    apart = bool(windows) and all(one.finished_ns <= other.sent_ns for one, other in pairwise(windows))
    made: list[Cycle] = []
    for file in files:
        told = list(_of_file(file))
        if apart:
            made += _joined(told, windows)
        else:
            made += [replace(cycle, index=index) for index, cycle in enumerate(told)]
    return tuple(made)


def segments(rows: Sequence[Row], pause_ms: float = math.inf) -> tuple[tuple[Row, ...], ...]:
    """Rows of one request after another, where the requests' own times aren't known.

    A part begins with the first prefill after other passes, or where more than `pause_ms` lie between the
    end of a pass on the host and the next one's start. With requests side by side the parts mean nothing.
    """
    parts: list[list[Row]] = []
    for before, row in pairwise((None, *rows)):
        if row is not None and (before is None or _begins(before, row, pause_ms)):
            parts.append([])
        if row is not None:
            parts[-1].append(row)
    return tuple(tuple(part) for part in parts)


def _begins(before: Row, row: Row, pause_ms: float) -> bool:
    pause = (row.start_ns - before.start_ns) / 1e6 - (before.host.total or 0.0)
    return pause > pause_ms or (row.mode == "prefill" and before.mode != "prefill")


def findings(files: Sequence[ProbeFile], ranks: int, absent: Sequence[str] = ()) -> tuple[Finding, ...]:
    """What the probe fell short of; none of it is grave, since other timings remain.

    Args:
        files: all files of the launch.
        ranks: how many model processes the engine has.
        absent: where the probe is not, and why, if that was looked into when the engine ran.
    """
    return tuple(Finding("probe", False, sentence) for sentence in _shortcomings(files, ranks, absent))


REMAINING = "cycles are taken from what the server streams, as far as they can be"


def _shortcomings(files: Sequence[ProbeFile], ranks: int, absent: Sequence[str]) -> Iterator[str]:
    if not files:
        for sentence in absent or (
            "the probe left no file: the engine's Python runs without site customisation "
            "(python -I or -S), without our PYTHONPATH, or never imported the engine",
        ):
            yield f"{sentence}; {REMAINING}"
        return
    if not any(file.report.hooks for file in files):
        yield f"the probe found nothing to time in this release; {REMAINING}"
        return
    seen = {file.report.rank for file in files}
    missing = sorted(set(range(ranks)) - seen) if ranks else []
    if absent:
        yield from absent
    elif missing:
        yield f"no probe file of rank {', '.join(map(str, missing))}"
    for file in files:
        report = file.report
        if not file.whole:
            yield f"{report.process.name}: the probe's file is cut off; {len(file.rows)} passes were read"
        for place, told in report.faults.items():
            yield f"{report.process.name}: the probe failed at {place} {told}"


def _of_file(file: ProbeFile) -> Iterator[Cycle]:
    for row, after in pairwise((*file.rows, None)):
        if row is not None and row.mode == "decode":
            yield _cycle(row, after, file.report.rank)


def _cycle(row: Row, after: Row | None, rank: int | None) -> Cycle:
    phases = row.host if row.gpu is None else row.gpu
    return Cycle(
        request=-1,
        index=0,
        tokens=row.tokens or 0,
        total_ms=phases.total or 0.0,
        draft_ms=phases.draft,
        verify_ms=phases.verify,
        draft_extend_ms=phases.draft_extend,
        source=SOURCE,
        clock="host" if row.gpu is None else "cuda-event",
        start_ns=row.start_ns,
        period_ms=_period_ms(row, after),
        target_forward_ms=phases.forward,
        after_forward_ms=phases.after,
        host_total_ms=row.host.total,
        host_draft_ms=row.host.draft,
        host_verify_ms=row.host.verify,
        host_draft_extend_ms=row.host.draft_extend,
        batch_size=row.batch_size,
        accepted=row.accepted,
        context_tokens=row.context_tokens,
        graph=row.graph,
        draft_graph=row.draft_graph,
        draft_extend_graph=row.draft_extend_graph,
        rank=rank,
        mark="capture" if row.captured else "",
    )


def _period_ms(row: Row, after: Row | None) -> float | None:
    """Start to start; a prefill in between, or cycles that were not recorded, are no part of a period."""
    if after is None or after.mode != "decode" or after.seq != row.seq + 1:
        return None
    return after.since_before_ms if row.gpu is not None else (after.start_ns - row.start_ns) / 1e6


def _joined(told: Sequence[Cycle], windows: Sequence[RequestTrace]) -> Iterator[Cycle]:
    """Each cycle with its request. Both are in time order."""
    place = 0
    for trace in windows:
        while place < len(told) and told[place].start_ns < trace.sent_ns:
            place += 1
        index = 0
        tokens = 1  # the prefill's
        known = True
        while place < len(told) and told[place].start_ns <= trace.finished_ns:
            cycle = told[place]
            surplus = known and 0 < trace.output_tokens <= tokens
            known = known and cycle.tokens > 0
            tokens += cycle.tokens
            yield replace(cycle, request=trace.index, index=index, mark="surplus" if surplus else cycle.mark)
            index += 1
            place += 1
