"""Reads the files that probes write inside the engine's processes (format: benchharness/probe/rowfile.py).

A file is written by a process that may be killed at any moment, so it may end anywhere: everything up to
the first record that isn't whole is read.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchharness.errors import InfrastructureError
from benchharness.records import WorkerReport

MAGIC = b"BHPROBE1"
FORMAT = 1
SWITCH_AT = 10
FIRST_RECORD = 16
FACTS, CYCLE = 1, 2

HEAD = struct.Struct("<BxxxI")
BODY = struct.Struct("<IBBBxHHHxxixxxx10q7fxxxx")

MODES = ("other", "decode", "prefill", "idle")
GRAPHS = (None, False, True, None)


@dataclass(frozen=True, slots=True)
class Phases:
    """Durations in ms by one clock; None where a phase did not happen or is not known.

    Attributes:
        total: the cycle.
        draft, verify, draft_extend: its phases.
        forward: the target's forward.
        after: from the end of the forward to the end of verify, or of a cycle without speculation.
    """

    total: float | None
    draft: float | None
    verify: float | None
    forward: float | None
    after: float | None
    draft_extend: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One pass of a worker, as recorded.

    Attributes:
        seq: its number in the process; one is left out where passes were not recorded.
        mode: `decode`, `prefill`, `idle` or `other`.
        start_ns: CLOCK_MONOTONIC.
        host, gpu: by the host's clock and by CUDA events; `gpu` is None without events.
        since_before_ms: from the start of the pass before to this one's, between events; None if unknown.
        graph, draft_graph, draft_extend_graph: whether a graph was replayed; None if unknown.
        batch_size: requests; `context_tokens`: their lengths added up, None if unknown.
        tokens: of all requests together, None if unknown; `accepted`: of each, empty if unknown.
        captured: a graph was captured in it.
        verify_is_forward: the worker has no verify method, so verify is the target's forward.
        events_missing: some events were left out.
        plain: without speculation.
        at_step: timed at the scheduler's step, for want of anything closer.
    """

    seq: int
    mode: str
    start_ns: int
    host: Phases
    gpu: Phases | None
    since_before_ms: float | None
    graph: bool | None
    draft_graph: bool | None
    draft_extend_graph: bool | None
    batch_size: int
    context_tokens: int | None
    tokens: int | None
    accepted: tuple[int, ...]
    captured: bool
    verify_is_forward: bool
    events_missing: bool
    plain: bool
    at_step: bool


@dataclass(frozen=True)
class ProbeFile:
    """One process's file.

    Attributes:
        path: where it was read.
        report: what the process told of itself.
        rows: its passes, oldest first.
        whole: it was not cut off within a record.
    """

    path: Path
    report: WorkerReport
    rows: tuple[Row, ...]
    whole: bool


def read(path: Path) -> ProbeFile:
    """One file, also while it is being written or after it was cut off.

    Raises:
        InfrastructureError: it can't be read, is no probe file, or is of a format that is not known.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InfrastructureError(f"{path} can't be read: {error.strerror}") from error
    if not MAGIC.startswith(data[: len(MAGIC)].rstrip(b"\0")):
        raise InfrastructureError(f"{path} is no probe file", "remove it from the probe's folder")
    facts: dict[str, Any] = {"pid": _pid(path)}
    rows: list[Row] = []
    whole = len(data) >= FIRST_RECORD
    if whole:
        _check_format(path, data)
        for kind, payload in _records(data):
            if kind == FACTS:
                facts.update(json.loads(payload))
            elif kind == CYCLE:
                rows.append(_row(payload))
            else:
                whole = False
    return ProbeFile(path, _report(facts), tuple(rows), whole)


def read_folder(folder: Path) -> tuple[ProbeFile, ...]:
    """All files of a launch: the ranks in order, then processes without one; raises as `read` does."""
    files = [read(path) for path in sorted(folder.glob("*.probe*"))]
    return tuple(
        sorted(files, key=lambda file: (file.report.rank is None, file.report.rank or 0, file.report.pid))
    )


def switch(folder: Path, on: bool) -> int:
    """Turn the recording of a running engine on or off; returns how many processes there are.

    It holds from each process's next cycle on. A process that starts later begins with it on.
    """
    paths = sorted(folder.glob("*.probe*"))
    for path in paths:
        with path.open("r+b") as file:
            file.seek(SWITCH_AT)
            file.write(bytes([on]))
    return len(paths)


def _check_format(path: Path, data: bytes) -> None:
    (found,) = struct.unpack_from("<H", data, len(MAGIC))
    if found > FORMAT:
        raise InfrastructureError(
            f"{path} has format {found}, and only {FORMAT} is known", "read it with the version that wrote it"
        )


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(kind, payload) of each whole record; kind -1 where one is cut off or can't be one."""
    at = FIRST_RECORD
    while at + HEAD.size <= len(data):
        kind, size = HEAD.unpack_from(data, at)
        if kind == 0:
            return
        end = at + HEAD.size + size
        if end > len(data) or kind not in (FACTS, CYCLE) or (kind == CYCLE and size < BODY.size):
            yield -1, b""
            return
        yield kind, data[at + HEAD.size : end]
        at += (HEAD.size + size + 7) & ~7
    if at < len(data):
        yield -1, b""


def _pid(path: Path) -> int:
    first = path.name.partition(".")[0]
    return int(first) if first.isdigit() else -1


def _report(facts: Mapping[str, Any]) -> WorkerReport:
    def number(name: str) -> int | None:
        value = facts.get(name)
        return value if isinstance(value, int) else None

    return WorkerReport(
        pid=int(facts["pid"]),
        rank=number("rank"),
        gpu_id=number("gpu_id"),
        tp_rank=number("tp_rank"),
        pp_rank=number("pp_rank"),
        dp_rank=number("dp_rank"),
        device=facts.get("device", ""),
        device_uuid=facts.get("device_uuid", ""),
        python=facts.get("python", ""),
        env=facts.get("env", {}),
        env_names=tuple(facts.get("env_names", ())),
        versions=facts.get("versions", {}),
        files=facts.get("files", {}),
        workers=tuple(facts.get("workers", ())),
        hooks=tuple(facts.get("hooks", ())),
        absent=tuple(facts.get("absent", ())),
        faults={place: _fault(told) for place, told in facts.get("faults", {}).items()},
        clock=facts.get("clock", ""),
        came_by=facts.get("came_by", ""),
        all_reduce=tuple(facts.get("all_reduce", ())),
    )


def _fault(told: Mapping[str, Any]) -> str:
    off = ", switched off" if told.get("off") else ""
    return f"{told.get('count')} times{off}: {told.get('last')}"


def _row(payload: bytes) -> Row:
    seq, mode, flags, graph, batch_size, tokens, count, context, *rest = BODY.unpack_from(payload)
    stamps, events = rest[:10], [None if math.isnan(ms) else ms for ms in rest[10:]]
    plain = bool(flags & 16)
    return Row(
        seq=seq,
        mode=MODES[mode] if mode < len(MODES) else "other",
        start_ns=stamps[0],
        host=_host_phases(stamps, plain),
        gpu=None if events[0] is None else Phases(*events[:6]),
        since_before_ms=events[6],
        graph=GRAPHS[graph & 3],
        draft_graph=GRAPHS[graph >> 2 & 3],
        draft_extend_graph=GRAPHS[graph >> 4 & 3],
        batch_size=batch_size,
        context_tokens=None if context < 0 else context,
        tokens=None if flags & 4 else tokens,
        accepted=tuple(payload[BODY.size : BODY.size + count]),
        captured=bool(flags & 1),
        verify_is_forward=bool(flags & 2),
        events_missing=bool(flags & 8),
        plain=plain,
        at_step=bool(flags & 32),
    )


def _host_phases(stamps: list[int], plain: bool) -> Phases:
    def between(begin: int, end: int) -> float | None:
        first, last = stamps[begin], stamps[end]
        return (last - first) / 1e6 if first and last else None

    return Phases(
        total=between(0, 1),
        draft=between(2, 3),
        verify=between(4, 5),
        forward=between(6, 7),
        after=between(7, 1 if plain else 5),
        draft_extend=between(8, 9),
    )
