"""`benchharness parse`: what a log says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchharness.records.logline import LogLine
    from benchharness.timings.logs.reading import Log

_ENGINES = ("auto", "sglang", "vllm", "llamacpp", "trtllm", "nccl", "profile", "bench")
_DAMAGED = 4

_EPILOG = """\b
Examples:
  benchharness parse server.log
  benchharness parse server.log.zst --jsonl | jq 'select(.kind == "decode" and .keep)'
  kubectl logs worker-0 | benchharness parse -

\b
What is read: SGLang 0.2 to 0.5.23, vLLM V0 and V1, llama.cpp, TensorRT-LLM, NCCL_DEBUG=INFO, tables of
sglang.bench_serving and `vllm bench serve`, and hand-made profiles in ms a cycle. Containers' time
stamps, JSON records and colours around the lines don't matter.

\b
SGLang's tok/s of a window counts all time since the last decode line. A window that holds a prefill,
an idle server, a retraction or a compilation says nothing about decoding: it is left out of the
median, and the table says how many were and why. `cuda graph` that a line doesn't print is unknown,
not false. An accept rate is shown with its definition, which changed in SGLang 0.5.11: compare
accept lengths instead.
"""


@click.command("parse", epilog=_EPILOG)
@click.argument("log", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--engine",
    type=click.Choice(_ENGINES),
    default="auto",
    show_default=True,
    help="Whose log it is; auto knows each line by its words.",
)
@click.option("--jsonl", is_flag=True, help="Print each line that was understood as one JSON object.")
@click.option("--strict", is_flag=True, help="Show each damaged line on standard error, and exit 4 if any.")
def command(log: Path, engine: str, jsonl: bool, strict: bool) -> None:
    """Read an engine's LOG (or - for standard input): windows, acceptance, graphs, start-up facts.

    Plain, gzip and Zstandard files are read, also truncated ones and such as are being written. Damaged
    lines are counted and left out.
    """
    from benchharness.errors import UsageError
    from benchharness.timings.logs import reading

    if str(log) == "-" and sys.stdin is None:
        raise UsageError("standard input is closed", "give the path of a log")
    opened = reading.stream_log(sys.stdin.buffer) if str(log) == "-" else reading.open_log(log)
    refused = _show_damaged if strict else None
    with opened:
        damaged = (
            _print_rows(opened, engine, strict)
            if jsonl
            else _print_summary(opened, str(log), engine, refused)
        )
    if strict and (damaged or opened.truncated):
        raise SystemExit(_DAMAGED)


def _print_rows(log: Log, engine: str, strict: bool) -> int:
    """Print the rows; how many were damaged."""
    import orjson

    from benchharness.report.console import silence
    from benchharness.timings.logs import stream

    damaged = 0
    out = sys.stdout.buffer
    try:
        for row in stream.rows(log, engine):
            if row.damaged:
                damaged += 1
                if strict:
                    _show_damaged(row)
            out.write(orjson.dumps(row.document(), option=orjson.OPT_APPEND_NEWLINE))
        out.flush()
    except BrokenPipeError:
        silence(sys.stdout)
    return damaged


def _print_summary(log: Log, name: str, engine: str, refused: Callable[[LogLine], None] | None) -> int:
    """Print the tables; how many lines were damaged."""
    from benchharness.report import console, parse_view
    from benchharness.timings.logs import summary

    made = summary.summarise(log, engine, refused)
    parse_view.show(console.people(as_json=False), name, made)
    return made.damaged


def _show_damaged(row: LogLine) -> None:
    click.echo(f"line {row.number}: {row.fields['why']}: {row.text[:200]}", err=True)
