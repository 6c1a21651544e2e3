"""How fast logs are read: MB/s of CPU time on one core, beside GNU `grep -c` on the same file.

Must reach: 100 MB/s for SGLang's dialect in both logs, and at most ten times the time of `grep -c`.
`python benchmarks/bench_parse.py --write` puts the table into docs/benchmarks.md. With `--mb N` the logs
are that large; the default is 500. Times are user and system CPU seconds of whole processes, so that the
start of the interpreter and the import of Arrow count; the best of some rounds in turn, since others use
the machine too.
"""

from __future__ import annotations

import platform
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import date
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 5
LEAST_MB_S, MOST_TIMES_GREP = 100.0, 10.0
DOCUMENT = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bench-parse:begin -->\n", "<!-- bench-parse:end -->"

_READ = """
import sys
from pathlib import Path
from benchharness.timings.logs import reading, summary
with reading.open_log(Path(sys.argv[1])) as log:
    found = summary.summarise(log, sys.argv[2])
print(sum(group.count for group in found.groups.values()), found.damaged)
"""


def decode(noise: random.Random, second: int, tokens: int) -> str:
    """A decode line of SGLang 0.5.12 with speculation."""
    length = noise.uniform(1.9, 3.1)
    return (
        f"[2026-11-29 {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d} TP0] Decode batch, "
        f"#running-req: 8, #token: {tokens}, token usage: 0.{tokens % 90 + 10}, accept len: {length:.2f}, "
        f"accept rate: {(length - 1) / 3:.2f}, cuda graph: {noise.random() < 0.99}, "
        f"gen throughput (token/s): {length * noise.uniform(118, 122):.2f}, #queue-req: 0"
    )


def dense() -> Iterator[str]:
    """Decode lines only."""
    noise = random.Random(1)  # noqa: S311
    for index in range(10**9):
        yield decode(noise, index // 3, 1000 + index * 37 % 60_000)


def realistic() -> Iterator[str]:
    """What a busy server writes: a start-up, then access lines, prefills, and a decode line each 40 steps."""
    noise = random.Random(2)  # noqa: S311
    yield from (
        f"[2026-11-29 00:00:00 TP0] Load weight {index}, type=Llama, avail mem=55 GB" for index in range(300)
    )
    yield "[2026-11-29 00:00:09 TP0] max_total_num_tokens=572596, max_running_requests=64, context_len=16384"
    yield "[2026-11-29 00:00:10] The server is fired up and ready to roll!"
    for index in range(10**9):
        second = index // 3
        stamp = f"[2026-11-29 {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        for _ in range(4):
            port = noise.randrange(30_000, 60_000)
            yield f'{stamp}] INFO:     127.0.0.1:{port} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
        yield f'{stamp}] INFO:     127.0.0.1:{port} - "GET /health HTTP/1.1" 200 OK'
        yield (
            f"{stamp} TP0] Prefill batch, #new-seq: 1, #new-token: {noise.randrange(9000)}, "
            "#cached-token: 0, token usage: 0.10, "
            "#running-req: 7, #queue-req: 0, #pending-token: 0, cuda graph: False, "
            f"input throughput (token/s): {noise.uniform(1000, 9000):.2f}"
        )
        yield decode(noise, second, 1000 + index * 37 % 60_000)


def write_log(path: Path, parts: Iterator[str], size: int) -> None:
    """A log of that many bytes, ended by a whole line."""
    left = size
    with path.open("wb") as file:
        while left > 0:
            piece = "".join(f"{part}\n" for part in islice(parts, min(100_000, left // 100 + 1))).encode()
            left -= file.write(piece)


def cpu_s(*arguments: str | Path) -> float:
    """User and system CPU seconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryFile() as sink:
        subprocess.run([str(one) for one in arguments], stdout=sink, check=True, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(path: Path) -> dict[str, float]:
    """Best CPU seconds of each way through a log."""
    ways: dict[str, list[str | Path]] = {
        "summary, --engine sglang": [sys.executable, "-c", _READ, path, "sglang"],
        "summary, --engine auto": [sys.executable, "-c", _READ, path, "auto"],
        "grep -c 'Decode batch'": ["grep", "-c", "Decode batch", path],
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(ROUNDS):
        for name, arguments in ways.items():
            best[name] = min(best[name], cpu_s(*arguments))
    return best


def rows_cpu_s(path: Path) -> float:
    """CPU seconds of `--jsonl` on the first tenth of a log."""
    return cpu_s(sys.executable, "-m", "benchharness", "parse", path, "--jsonl", "--engine", "sglang")


def table(megabytes: int) -> tuple[str, bool]:
    """The table in Markdown, and whether the limits were kept."""
    lines, kept = [], True
    with tempfile.TemporaryDirectory() as folder:
        for name, parts in (("realistic", realistic), ("decode lines only", dense)):
            path, tenth = Path(folder) / "server.log", Path(folder) / "tenth.log"
            write_log(path, parts(), megabytes * 10**6)
            write_log(tenth, parts(), megabytes * 10**5)
            size, best = path.stat().st_size / 1e6, measured(path)
            grep = best["grep -c 'Decode batch'"]
            for way, seconds in best.items():
                times = f"{seconds / grep:.1f}"
                lines.append(f"| {name} | {way} | {size / seconds:,.0f} | {times} |")
                if way.endswith("sglang"):
                    kept = kept and size / seconds >= LEAST_MB_S and seconds <= MOST_TIMES_GREP * grep
            rate = tenth.stat().st_size / 1e6 / rows_cpu_s(tenth)
            lines.append(f"| {name} | rows, --jsonl | {rate:,.0f} | {size / rate / grep:.0f} |")
    head = [
        f"Measured {date.today()} on Python {platform.python_version()}, logs of {megabytes} MB: CPU time of "
        f"whole processes, best of {ROUNDS} rounds. Must be: {LEAST_MB_S:.0f} MB/s with "
        f"`--engine sglang`, and at most {MOST_TIMES_GREP:.0f} times `grep -c`.",
        "",
        "| log | way | MB/s | times grep -c |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *lines]) + "\n", kept


def write(text: str, document: Path = DOCUMENT) -> None:
    """Replace the table between its markers; it is added at the end where they are missing."""
    present = document.read_text(encoding="utf-8")
    if BEGIN not in present:
        present = present.rstrip("\n") + f"\n\n## How fast logs are read\n\n{BEGIN}{END}\n"
    before, _, rest = present.partition(BEGIN)
    document.write_text(before + BEGIN + text + END + rest.partition(END)[2], encoding="utf-8")


def main(argv: list[str], show: Callable[[str], None] = print) -> int:
    """Measure, print, and with --write put the table into the documentation."""
    megabytes = int(argv[argv.index("--mb") + 1]) if "--mb" in argv else 500
    text, kept = table(megabytes)
    show(text)
    if "--write" in argv:
        write(text)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
