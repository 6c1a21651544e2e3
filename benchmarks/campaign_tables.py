"""Makes simulated campaigns on all cores, and puts their tables between marks in docs/benchmarks.md."""

from __future__ import annotations

import argparse
import datetime
import inspect
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

DOCUMENT = Path(__file__).parent.parent / "docs" / "benchmarks.md"

Made = TypeVar("Made")
Tables = Sequence[tuple[int, Callable[[int], str]]]
"""Campaigns a row and what makes the table; its title is the function's own."""

missed: list[str] = []
"""What was to be reached and was not."""


def campaigns(run: Callable[[Sequence[int]], Made], trials: int, seed: int) -> list[Made]:
    """As many campaigns, each with a seed of its own, so that the figures do not depend on the cores."""
    seeds = [(seed, trial) for trial in range(trials)]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(run, seeds, chunksize=5))


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Markdown."""
    heads = list(heads)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def goal(reached: bool, words: str) -> str:
    """One line that says whether something was reached."""
    if not reached:
        missed.append(words)
    return f"- {'reached' if reached else 'MISSED'}: {words}\n"


def print_tables(argv: Sequence[str], tables: Tables, mark: str) -> int:
    """Print every table, and with --write put each into the documentation as it is done.

    Args:
        argv: the command line.
        tables: what to make.
        mark: of the comments `<!-- MARK:NAME:begin -->` and `<!-- MARK:NAME:end -->`.

    Returns:
        1 where something was to be reached and was not, by as many campaigns as are wanted; else 0.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--trials", type=float, default=1.0, help="multiplies the number of campaigns")
    parser.add_argument("--only", default="", help="tables whose function's name holds this")
    options = parser.parse_args(argv)
    today = datetime.datetime.now(datetime.UTC).date()
    for trials, make in tables:
        if options.only not in make.__name__:
            continue
        count = max(int(trials * options.trials), 20)
        began = time.perf_counter()
        text = f"{inspect.cleandoc(make.__doc__ or '')}\n\n{make(count)}"
        said = f"{today}, {os.cpu_count()} cores, Python {platform.python_version()}"
        text += f"\n({said}{f', {count:,} campaigns a row' if trials > 1 else ''}.)\n"
        print(text, f"\n[{time.perf_counter() - began:.0f} s]\n", flush=True)
        if options.write:
            _written(f"{mark}:{make.__name__}", text)
    return 1 if missed and options.trials >= 1 else 0


def _written(mark: str, text: str) -> None:
    """Put one table between its marks; the others stay as they are."""
    begin, end = f"<!-- {mark}:begin -->\n", f"<!-- {mark}:end -->\n"
    before, found, rest = DOCUMENT.read_text(encoding="utf-8").partition(begin)
    if not found:
        raise SystemExit(f"{DOCUMENT} has no mark {begin.strip()}")
    DOCUMENT.write_text(before + begin + text + end + rest.partition(end)[2], encoding="utf-8")
