"""Makes the tables of a benchmark, prints them, and puts them between their marks in docs/method.md."""

from __future__ import annotations

import argparse
import inspect
import time
from collections.abc import Callable, Sequence
from pathlib import Path

DOCUMENT = Path(__file__).parent.parent / "docs" / "method.md"


def write_tables(argv: Sequence[str], tables: Sequence[tuple[int, Callable[[int], str]]], mark: str) -> None:
    """Print every table, and with --write put them into the documentation.

    Args:
        argv: the command line.
        tables: draws, and what makes a table of so many; its docstring is the title.
        mark: of the comments `<!-- MARK:begin -->` and `<!-- MARK:end -->`.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--draws", type=float, default=1.0, help="multiplies the number of draws")
    parser.add_argument("--only", default="", help="tables whose function's name holds this")
    options = parser.parse_args(argv)
    text = ""
    for draws, make in tables:
        if options.only in make.__name__:
            count = max(int(draws * options.draws), 40)
            began = time.perf_counter()
            one = f"\n{inspect.cleandoc(make.__doc__ or '')}\n\n{make(count)}"
            print(one, f"\n({count:,} draws, {time.perf_counter() - began:.0f} s)", flush=True)
            text += one
    if options.write and not options.only:
        begin, end = f"<!-- {mark}:begin -->\n", f"<!-- {mark}:end -->\n"
        before, found, rest = DOCUMENT.read_text(encoding="utf-8").partition(begin)
        if not found:
            raise SystemExit(f"{DOCUMENT} has no {begin.strip()}")
        DOCUMENT.write_text(before + begin + text + "\n" + end + rest.partition(end)[2], encoding="utf-8")
