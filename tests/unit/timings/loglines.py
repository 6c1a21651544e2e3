"""Logs made up for tests, and short ways to read them."""

from __future__ import annotations

import io
from collections.abc import Iterable

from benchharness.records.logline import LogLine
from benchharness.timings.logs import reading, stream, summary


def rows(text: str | bytes, engine: str = "auto") -> list[LogLine]:
    return list(stream.rows(log(text), engine))


def log(text: str | bytes) -> reading.Log:
    return reading.stream_log(io.BytesIO(text.encode() if isinstance(text, str) else text))


def summarised(text: str | bytes, engine: str = "auto") -> summary.Summary:
    return summary.summarise(log(text), engine)


def decode(
    tps: float,
    *,
    rank: str = "TP0",
    second: int = 0,
    running: int = 1,
    tokens: int = 100,
    accept: tuple[float, float] | None = None,
    graph: str | None = "True",
    sep: str = ",",
) -> str:
    spec = f"accept len: {accept[0]:.2f}, accept rate: {accept[1]:.2f}, " if accept else ""
    flag = f"cuda graph: {graph}, " if graph is not None else ""
    return (
        f"[2026-11-29 12:{second // 60 % 60:02d}:{second % 60:02d}{' ' + rank if rank else ''}] "
        f"Decode batch{sep} #running-req: {running}, #token: {tokens}, token usage: 0.00, {spec}{flag}"
        f"gen throughput (token/s): {tps:.2f}, #queue-req: 0"
    )


def prefill(rank: str = "TP0", second: int = 0) -> str:
    return (
        f"[2026-11-29 12:{second // 60 % 60:02d}:{second % 60:02d}{' ' + rank if rank else ''}] "
        "Prefill batch, #new-seq: 1, #new-token: 128, #cached-token: 0, token usage: 0.00, #running-req: 0, "
        "#queue-req: 0, #pending-token: 0, cuda graph: False, input throughput (token/s): 502.19"
    )


def lines(parts: Iterable[str]) -> str:
    return "".join(part + "\n" for part in parts)
