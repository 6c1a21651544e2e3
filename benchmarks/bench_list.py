"""How long it takes to list ten thousand stored runs: whole commands, from start to end."""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from stored_runs import make_listable

DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bench-list:begin -->\n", "<!-- bench-list:end -->"
ROUNDS = 5


def command(arguments: Sequence[str], place: Path) -> float:
    """Wall time of a whole `benchharness` command, in seconds."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "benchharness", *arguments],
        cwd=place,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - began


def best(arguments: Sequence[str], place: Path) -> float:
    """The best of some rounds."""
    return min(command(arguments, place) for _ in range(ROUNDS))


def measured(runs: int) -> str:
    """The table for so many runs of six launches each."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        make_listable(place / "results", runs)
        time.sleep(2.1)  # files that changed just now are not taken into the index
        first = command(["list"], place)
        rows.append(("the first `list`, which reads every manifest", first))
        texts = ("list", "list --all", "list --json", "show latest --json")
        rows += [(f"`{text}`", best(text.split(), place)) for text in texts]
        nothing = min(command(["--help"], place) for _ in range(ROUNDS))
    lines = ["| whole command | s |", "|---|---|", *(f"| {text} | {value:.2f} |" for text, value in rows)]
    verdict = "reached" if max(value for _, value in rows[1:4]) < 1 else "missed"
    return (
        f"{runs:,} runs of 6 launches each in 20 experiments, Python {platform.python_version()}, best of "
        f"{ROUNDS}; `benchharness --help` takes {nothing:.2f} s.\n\n" + "\n".join(lines) + "\n\n"
        f"- {verdict}: every listing of {runs:,} runs in less than 1 s\n"
    )


def main(argv: list[str]) -> None:
    """Measure, print, and with --write put the table into the documentation."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--runs", type=int, default=10_000)
    options = parser.parse_args(argv)
    text = measured(options.runs)
    print(text)
    if options.write:
        before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
        DOCUMENT.write_text(before + BEGIN + text + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
