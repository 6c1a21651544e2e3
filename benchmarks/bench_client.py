"""How far clients bend what they measure: every client against one null server, side by side.

`python benchmarks/bench_client.py [--rounds N] [--no-tools] [--environments FOLDER]` compiles the null
server, runs every client in a process of its own, prints the tables and writes them into
docs/benchmarks.md. The error of an event is its stamp minus the true time of sending that it carries.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import real_tools
from real_tools import SkippedError

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bench-client:begin -->", "<!-- bench-client:end -->"
INTERVAL_MS = 5.0
EVENTS = 400
STREAMS = (1, 8, 64)
FULL_STREAMS, FULL_EVENTS = 8, 20_000


@dataclass
class Figures:
    """What one client did, the best of the rounds for each figure."""

    name: str
    events_per_s: float = 0.0
    cpu: dict[int, float] = field(default_factory=dict)
    parse_cpu: dict[int, float] = field(default_factory=dict)
    p50: dict[int, float] = field(default_factory=dict)
    p99: dict[int, float] = field(default_factory=dict)
    itl: dict[int, float] = field(default_factory=dict)
    skipped: str = ""


@dataclass
class ToolFigures:
    """What one run of a tool did: error of its mean token interval, ms added to the first token, CPU s."""

    itl_error: float
    ttft_ms: float
    cpu_s: float


def say(text: str) -> None:
    """Progress, on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def compiled(folder: Path) -> Path:
    """The null server's binary; raises SkippedError without a compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise SkippedError("no C compiler (gcc) is installed, and the null server is written in C")
    binary = folder / "null_sse_server"
    source = str(HERE / "null_sse_server.c")
    subprocess.run([compiler, "-O2", "-o", str(binary), source], check=True)
    return binary


@contextmanager
def null_server(binary: Path, interval_ms: float, log: Path | None = None) -> Iterator[int]:
    """The port of a null server that lives as long as the block."""
    argv = [str(binary), str(round(interval_ms * 1e3)), *([str(log)] if log else [])]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None  # noqa: S101
            yield int(process.stdout.readline())
        finally:
            process.kill()


def clients(root: Path) -> dict[str, tuple[list[str], str]]:
    """Name -> (command without its arguments, why it is skipped)."""
    own, peers = str(HERE / "own_client.py"), str(HERE / "peer_clients.py")
    found = {
        "benchharness, kernel stamps": ([sys.executable, own, "kernel"], ""),
        "benchharness, user clock (aiohttp)": ([sys.executable, own, "user"], ""),
        "aiohttp, iter_any": ([sys.executable, peers, "aiohttp-any"], ""),
        "aiohttp, lines": ([sys.executable, peers, "aiohttp-lines"], ""),
    }
    for name, package in (("httpx", "httpx"), ("requests", "requests")):
        try:
            bins = real_tools.environment(root, package, (package,))
            found[f"{name}, lines"] = ([str(bins / "python"), peers, name], "")
        except SkippedError as error:
            found[f"{name}, lines"] = ([], str(error))
    return found


def once(command: list[str], port: int, streams: int, events: int, interval_ms: float) -> dict[str, object]:
    """One run of a client in a process of its own."""
    url = f"http://127.0.0.1:{port}" + ("" if "own_client" in command[1] else "/generate")
    with tempfile.NamedTemporaryFile() as out:
        argv = [*command, url, str(streams), str(events), str(interval_ms), out.name]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            raise SkippedError((done.stderr.strip().splitlines() or ["it failed without a word"])[-1])
        seen: dict[str, object] = json.loads(Path(out.name).read_text())
    return seen


def best(table: dict[int, float], key: int, value: float) -> None:
    """Keep the smaller one."""
    table[key] = min(value, table.get(key, value))


def measure(figures: Figures, command: list[str], ports: tuple[int, int]) -> None:
    """One round of one client."""
    for streams in STREAMS:
        seen = once(command, ports[0], streams, EVENTS, INTERVAL_MS)
        pairs = [np.array(one, dtype=np.int64) for one in seen["pairs"]]  # type: ignore[attr-defined]
        if any(one.shape != (EVENTS, 2) for one in pairs):
            raise SkippedError("events were lost")
        error_us = np.concatenate([one[:, 0] - one[:, 1] for one in pairs]) / 1e3
        gaps = np.concatenate([np.diff(one, axis=0) for one in pairs])
        millions = len(error_us) / 1e6
        best(figures.p50, streams, float(np.percentile(error_us, 50)))
        best(figures.p99, streams, float(np.percentile(error_us, 99)))
        best(figures.itl, streams, interval_error(gaps))
        best(figures.cpu, streams, float(seen["cpu_s"]) / millions)  # type: ignore[arg-type]
        if "parse_cpu_s" in seen:
            best(figures.parse_cpu, streams, float(seen["parse_cpu_s"]) / millions)  # type: ignore[arg-type]
    seen = once(command, ports[1], FULL_STREAMS, FULL_EVENTS, 0.0)
    figures.events_per_s = max(figures.events_per_s, FULL_STREAMS * FULL_EVENTS / float(seen["wall_s"]))  # type: ignore[arg-type]


def interval_error(gaps: np.ndarray) -> float:
    """Relative error of the reported token interval, of mean or median, whichever is worse."""
    means = gaps[:, 0].mean() / gaps[:, 1].mean()
    medians = np.median(gaps[:, 0]) / np.median(gaps[:, 1])
    return float(max(abs(means - 1), abs(medians - 1)))


def all_clients(binary: Path, root: Path, rounds: int) -> list[Figures]:
    """Every client, round after round, so that a noisy minute hits none alone."""
    found = clients(root)
    figures = {name: Figures(name, skipped=why) for name, (_, why) in found.items()}
    with null_server(binary, INTERVAL_MS) as paced, null_server(binary, 0.0) as full:
        for number in range(rounds):
            for name, (command, _) in found.items():
                if figures[name].skipped:
                    say(f"skipped {name}: {figures[name].skipped}")
                    continue
                say(f"round {number + 1} of {rounds}: {name}")
                try:
                    measure(figures[name], command, (paced, full))
                except (SkippedError, subprocess.TimeoutExpired) as error:
                    figures[name].skipped = str(error)
    return list(figures.values())


def truth(log: Path) -> tuple[float, float]:
    """(mean token interval ms, mean time to first token ms) as the null server's log has them."""
    rows = np.array([line.split() for line in log.read_text().splitlines()], dtype=np.int64)
    rows = rows[rows[:, 0] == real_tools.EVENTS][-real_tools.STREAMS :]
    events, asked, first, last = rows.T
    return float(((last - first) / (events - 1)).mean()) / 1e6, float((first - asked).mean()) / 1e6


def own_as_tool(binary: Path, folder: Path) -> ToolFigures:
    """This project's client in the table of tools."""
    log = folder / "own.log"
    command = [sys.executable, str(HERE / "own_client.py"), "kernel"]
    with null_server(binary, INTERVAL_MS, log) as port:
        seen = once(command, port, real_tools.STREAMS, real_tools.EVENTS, INTERVAL_MS)
    stamps = np.array(seen["pairs"], dtype=np.int64)[:, :, 0]
    itl_ms = float(np.diff(stamps, axis=1).mean()) / 1e6
    ttft_ms = float(np.mean(seen["ttft_ns"])) / 1e6  # type: ignore[arg-type]
    cpu_s = float(seen["cpu_s"]) + float(seen["parse_cpu_s"])  # type: ignore[arg-type]
    return compared(real_tools.Report(itl_ms, ttft_ms, cpu_s), truth(log))


def compared(report: real_tools.Report, true: tuple[float, float]) -> ToolFigures:
    """What a tool reported, against what the server did."""
    return ToolFigures(report.itl_ms / true[0] - 1, report.ttft_ms - true[1], report.cpu_s)


def tool_row(name: str, seen: list[ToolFigures]) -> str:
    """One row of the table of tools: the best of the rounds for each figure."""
    error = min((one.itl_error for one in seen), key=abs)
    ttft_ms, cpu_s = min(one.ttft_ms for one in seen), min(one.cpu_s for one in seen)
    return f"| {name} | {error:+.3%} | {ttft_ms:+.1f} | {cpu_s:.1f} |"


def one_tool(tool: real_tools.Tool, binary: Path, root: Path, folder: Path) -> ToolFigures:
    """One run of a tool in its environment; raises SkippedError."""
    bins = real_tools.environment(root, tool.environment, tool.requirements, tool.alone)
    tokenizer = folder / "tokenizer"
    if not tokenizer.exists():
        maker = [str(bins / "python"), str(HERE / "tiny_tokenizer.py"), str(tokenizer)]
        if subprocess.run(maker, check=False, capture_output=True).returncode:
            raise SkippedError("no tokenizer could be made for it")
    with tempfile.TemporaryDirectory(dir=folder) as out:
        log = Path(out) / "server.log"
        with null_server(binary, INTERVAL_MS, log) as port:
            report = real_tools.run(tool, bins, port, tokenizer, Path(out) / "report")
        return compared(report, truth(log))


def all_tools(binary: Path, root: Path, folder: Path, rounds: int) -> list[str]:
    """Rows of the tools that could be run, and a row that says why for the others."""
    rows = [tool_row("benchharness, kernel stamps", [own_as_tool(binary, folder) for _ in range(rounds)])]
    for tool in real_tools.TOOLS:
        say(f"tool: {tool.name}")
        try:
            seen = [one_tool(tool, binary, root, folder) for _ in range(rounds)]
            rows.append(tool_row(tool.name, seen))
        except SkippedError as error:
            say(f"skipped {tool.name}: {error}")
            rows.append(f"| {tool.name} | skipped: {str(error)[:120]} | | |")
    return rows


def table(all_figures: list[Figures], tools: list[str], rounds: int) -> str:
    """Both tables as Markdown."""
    lines = [
        f"Measured {datetime.now(UTC):%Y-%m-%d} on {os.cpu_count()} cores, Linux {platform.release()}, "
        f"Python {platform.python_version()}: one event every {INTERVAL_MS:.3f} ms a stream, all streams in "
        f"step, {EVENTS} events a stream; each client in a process of its own, best of {rounds} rounds for "
        "each figure.",
        "",
        "| client | max events/s | CPU s per million events at 64 streams (before parsing) "
        "| error p50 / p99 in us: 1 stream | 8 | 64 | error of the reported ITL: 1 stream | 8 | 64 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in all_figures:
        if one.skipped:
            lines.append(f"| {one.name} | skipped: {one.skipped[:120]} | | | | | | | |")
            continue
        parse = one.parse_cpu.get(64)
        cpu = f"{one.cpu[64]:.1f}" if parse is None else f"{one.cpu[64] + parse:.1f} ({one.cpu[64]:.1f})"
        errors = " | ".join(f"{one.p50[n]:.1f} / {one.p99[n]:.0f}" for n in STREAMS)
        intervals = " | ".join(f"{one.itl[n]:.4%}" for n in STREAMS)
        lines.append(f"| {one.name} | {one.events_per_s:,.0f} | {cpu} | {errors} | {intervals} |")
    if tools:
        lines += [
            "",
            "Whole tools at 64 streams, each against what the server really did, best of the rounds again:",
            "",
            "| tool | error of the reported mean ITL | TTFT added, ms | CPU s |",
            "|---|---|---|---|",
            *tools,
        ]
    return "\n".join([*lines, "", *judged(all_figures)])


def judged(all_figures: list[Figures]) -> list[str]:
    """What was to be reached, and whether it was."""
    named = {one.name: one for one in all_figures if not one.skipped}
    own, lines = named.get("benchharness, kernel stamps"), named.get("aiohttp, lines")
    if own is None:
        return ["Nothing is judged: the client itself did not run."]
    bounds = [
        ("median error at 64 streams below 10 us", own.p50[64] < 10, f"{own.p50[64]:.1f} us"),
        ("p99 below 100 us", own.p99[64] < 100, f"{own.p99[64]:.0f} us"),
        ("at most 10 CPU s per million events before parsing", own.cpu[64] <= 10, f"{own.cpu[64]:.1f} s"),
        ("at least 150,000 events/s in one process", own.events_per_s >= 150e3, f"{own.events_per_s:,.0f}"),
        (
            "reported ITL within 0.1 % at 1, 8 and 64 streams",
            max(own.itl.values()) < 1e-3,
            f"{max(own.itl.values()):.4%}",
        ),
    ]
    if lines is not None:
        ratio = lines.p50[64] / max(own.p50[64], 1e-9)
        bounds.append(("median 100 times better than aiohttp lines", ratio >= 100, f"{ratio:,.0f} times"))
    return [f"- {'reached' if met else 'MISSED'}: {bound} ({value})" for bound, met, value in bounds]


def write(text: str) -> None:
    """Put the tables between their markers in the page."""
    page = PAGE.read_text() if PAGE.exists() else "# Benchmarks\n"
    if BEGIN not in page:
        page += f"\n## The client's own error\n\n{BEGIN}\n{END}\n"
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def main() -> int:
    """Run everything."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--no-tools", action="store_true", help="leave out the real benchmark tools")
    options.add_argument("--environments", type=Path, default=cache / "benchharness" / "bench-client")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            binary = compiled(folder)
        except SkippedError as error:
            say(f"skipped: {error}")
            return 0
        figures = all_clients(binary, asked.environments, asked.rounds)
        tools = [] if asked.no_tools else all_tools(binary, asked.environments, folder, asked.rounds)
    text = table(figures, tools, asked.rounds)
    write(text)
    sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
