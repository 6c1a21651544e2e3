"""Change points by simulation: false alarms, power, and how well a change is placed and measured."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from simulated_launches import Floats, effects

from benchharness.stats import changepoint

DOCUMENT = Path(__file__).parent.parent / "docs" / "method.md"
BEGIN, END = "<!-- bench-history:begin -->\n", "<!-- bench-history:end -->"
LAUNCHES = 3
LAUNCH_CV = 0.01


def series(
    random: np.random.Generator, runs: int, campaign: float, tails: str = "gauss", lag: float = 0.0
) -> Floats:
    """Logs of run means: runs differ by `campaign`, launches of one run by 1 %."""
    between = effects(random, tails, (runs,))
    for at in range(1, runs):
        between[at] = lag * between[at - 1] + np.sqrt(1 - lag**2) * between[at]
    launches = effects(random, tails, (runs, LAUNCHES)).mean(axis=1)
    return np.asarray(campaign * between + LAUNCH_CV * launches)


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(f"| {' | '.join(r)} |" for r in rows)]
    return "\n".join(lines) + "\n"


def alarms(draws: int) -> str:
    """Series without a change in which one is told, in percent, of a stated 5 %."""
    random = np.random.default_rng(81)
    rows = []
    for tails, lag in (("gauss", 0.0), ("t3", 0.0), ("lognormal", 0.0), ("gauss", 0.2), ("gauss", 0.5)):
        cells = []
        for runs in (6, 10, 30, 100):
            count = draws if runs < 100 else draws // 4
            told = [changepoint.changes(series(random, runs, 0.01, tails, lag)) for _ in range(count)]
            cells.append(f"{100 * np.mean([bool(one) for one in told]):.1f}")
        rows.append([tails, f"{lag:g}", *cells])
    return table(["runs differ by", "lag 1 of runs", "6 runs", "10 runs", "30 runs", "100 runs"], rows)


def power(draws: int) -> str:
    """A step after run 20 of 30, in percent of series."""
    random = np.random.default_rng(82)
    rows = []
    for campaign in (0.005, 0.01, 0.02):
        for step in (0.03, 0.05, 0.10):
            seen = [_one(random, campaign, step) for _ in range(draws)]
            found = [one for one in seen if one is not None and one[0]]
            more = np.mean([one is not None and one[1] > 1 for one in seen])
            placed = [abs(one[0].at - 20) for one in found]
            cells = [
                len(found) / draws,
                np.mean([place == 0 for place in placed]),
                np.mean([place <= 1 for place in placed]),
                np.mean([one[0].before < 20 <= one[0].after for one in found]),
                np.mean([one[0].low <= np.log1p(step) <= one[0].high for one in found]),
                more,
            ]
            rows.append([f"{campaign:.1%}", f"{step:.0%}", *(f"{100 * cell:.1f}" for cell in cells)])
    heads = [
        "between runs",
        "step",
        "found",
        "place exact",
        "within one run",
        "in the range told",
        "size in the interval",
        "more than one told",
    ]
    return table(heads, rows)


def _one(random: np.random.Generator, campaign: float, step: float) -> tuple[changepoint.Change, int] | None:
    values = series(random, 30, campaign)
    values[20:] += np.log1p(step)
    told = changepoint.changes(values)
    nearest = min(told, key=lambda one: abs(one.at - 20), default=None)
    return None if nearest is None else (nearest, len(told))


def new_runs(draws: int) -> str:
    """Runs after the step until it is told, 20 runs before it: percent told by then."""
    random = np.random.default_rng(83)
    rows = []
    for step in (0.03, 0.05, 0.10):
        cells = []
        for after in (2, 3, 5, 10):
            told = 0
            for _ in range(draws):
                values = series(random, 20 + after, 0.01)
                values[20:] += np.log1p(step)
                told += any(abs(one.at - 20) <= 2 for one in changepoint.changes(values))
            cells.append(f"{100 * told / draws:.1f}")
        rows.append([f"{step:.0%}", *cells])
    return table(["step", "2 runs after", "3 runs", "5 runs", "10 runs"], rows)


def bumps(draws: int) -> str:
    """Down after run 12 and up again after run 20 of 30 (a regression that was mended), in percent."""
    random = np.random.default_rng(84)
    rows = []
    for step in (0.03, 0.05, 0.10):
        both = 0
        for _ in range(draws):
            values = series(random, 30, 0.01)
            values[12:20] += np.log1p(step)
            places = [one.at for one in changepoint.changes(values)]
            both += len(places) == 2 and abs(places[0] - 12) <= 2 and abs(places[1] - 20) <= 2
        rows.append([f"{step:.0%}", f"{100 * both / draws:.1f}"])
    return table(["step", "both found, within two runs"], rows)


TABLES = (
    (
        "False alarms in percent of series, of a stated 5 % (seed 81); 3 launches a run, 1 % apart, "
        "runs 1 % apart",
        alarms,
        4000,
    ),
    ("A step after run 20 of 30, in percent (seed 82); 3 launches a run, 1 % apart", power, 1000),
    ("How soon a step is told: 20 runs before it, in percent (seed 83); runs 1 % apart", new_runs, 1000),
    ("A stretch at another level, runs 13 to 20 of 30 (seed 84)", bumps, 1000),
)


def main(argv: list[str]) -> None:
    """Simulate, print, and with --write put the tables into the documentation."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--draws", type=float, default=1.0, help="multiplies the number of draws")
    options = parser.parse_args(argv)
    text = ""
    for title, make, draws in TABLES:
        began = time.perf_counter()
        one = f"\n{title}.\n\n{make(max(40, int(draws * options.draws)))}"
        print(one, f"\n({time.perf_counter() - began:.0f} s)", flush=True)
        text += one
    if options.write:
        before, _, rest = DOCUMENT.read_text(encoding="utf-8").partition(BEGIN)
        DOCUMENT.write_text(before + BEGIN + text + "\n" + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
