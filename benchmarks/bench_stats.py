"""The statistics against simulated launches, with what plainer methods would say side by side.

    python benchmarks/bench_stats.py            print the tables
    python benchmarks/bench_stats.py --write    and put them into docs/method.md

Every table has a seed of its own, so each can be made again alone. `--draws 0.1` makes a tenth of the draws.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from simulated_launches import Floats, Scene, effects, requests
from simulated_tables import write_tables

from benchharness.metrics import METRICS
from benchharness.stats import compare, estimate, family, twolevel

METRIC = METRICS["cycle_ms"]
STATED = 0.05


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Markdown."""
    heads = list(heads)
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def part(found: Floats | float) -> str:
    """A share in percent."""
    return f"{100 * float(np.mean(found)):.1f}"


def ours(logs: Floats, *, blocks: bool = True) -> Floats:
    """p-values of draws x 2 x launches of log launch values, as `compare` works them out."""
    shared = list(range(logs.shape[2])) if blocks else None
    return np.array([estimate.of_launches(one[0], one[1], shared).p for one in logs])


def welch(first: Floats, second: Floats) -> Floats:
    """p-values of Welch's test along the last axis."""
    return np.asarray(stats.ttest_ind(first, second, axis=-1, equal_var=False).pvalue)


def pooled(values: Floats) -> Floats:
    """Welch's test on all requests as if they were independent."""
    flat = values.reshape(*values.shape[:2], -1)
    return welch(flat[:, 0], flat[:, 1])


def false_alarms(draws: int) -> str:
    """False alarms in percent, of a stated 5 % (seed 61).

    First column: the share of a request's variance that lies between launches; second: the correlation of
    neighbouring requests, of which a launch has 20.
    """
    random = np.random.default_rng(61)
    rows = []
    for share in (0.0, 0.25, 0.5, 0.8):
        for correlation in (0.0, 0.4, 0.7):
            row: list[object] = [share, correlation]
            for launches in (2, 3, 5, 10):
                values = requests(random, Scene(share, correlation), draws, launches)
                row.append(part(ours(values.mean(-1)) < STATED))
            means = values.mean(-1)
            row += [part(welch(means[:, 0], means[:, 1]) < STATED), part(pooled(values) < STATED)]
            rows.append(row)
    heads = ["between launches", "lag 1", *(f"{n} launches" for n in (2, 3, 5, 10))]
    return table([*heads, "Welch on launch means, 10", "Welch on requests, 10"], rows)


def drifting(draws: int) -> str:
    """False alarms in percent under a drift, in deviations of a launch value a launch (seed 62)."""
    random = np.random.default_rng(62)
    rows = []
    for launches in (3, 5, 20):
        for drift in (0.0, 0.02, 0.05, 0.1):
            scene = Scene(0.5, 0.4, drift)
            inter = requests(random, scene, draws, launches).mean(-1)
            after = requests(random, scene, draws, launches, interleaved=False).mean(-1)
            plain = welch(after[:, 0], after[:, 1]), welch(inter[:, 0], inter[:, 1])
            rows.append([launches, drift, part(ours(inter) < STATED), *(part(p < STATED) for p in plain)])
    return table(["launches a side", "drift", "ours", "AA..BB, Welch", "blocks, Welch"], rows)


def coverage(draws: int) -> str:
    """Coverage in percent of 95 % intervals: of a change, and of a mean by both methods (seed 63)."""
    random = np.random.default_rng(63)
    rows = []
    for tails in ("gauss", "t3", "lognormal"):
        for launches in (3, 5, 10, 20):
            logs = requests(random, Scene(0.8, 0.4, 0.0, tails), draws, launches).mean(-1)
            row: list[object] = [tails, launches, part(ours(logs) >= STATED)]
            few = max(draws // 10, 50)
            values = np.exp(0.05 * requests(random, Scene(0.8, 0.4, 0.0, tails), few, launches)[:, 0])
            truth = _truth(tails)
            for begin in (launches + 1, 2):
                spreads = [twolevel.interval(list(one), bootstrap_from=begin) for one in values]
                row.append(part(float(np.mean([s.low <= truth <= s.high for s in spreads]))))
            rows.append(row)
    return table(["launches differ by", "launches", "change", "mean by t", "mean by bootstrap"], rows)


def _truth(tails: str) -> float:
    random = np.random.default_rng(630)
    launches = np.exp(0.05 * requests(random, Scene(0.8, 0.4, 0.0, tails), 20_000, 10)).mean(-1)
    return float(np.exp(np.log(launches).mean()))


def heavy_tails(draws: int) -> str:
    """False alarms in percent where launches differ by heavy tails (seed 64)."""
    random = np.random.default_rng(64)
    rows = []
    for tails in ("t3", "lognormal"):
        for share in (0.25, 0.8):
            row: list[object] = [tails, share]
            for launches in (3, 5, 10, 20):
                values = requests(random, Scene(share, 0.4, 0.0, tails), draws, launches).mean(-1)
                row.append(part(ours(values) < STATED))
            rows.append(row)
    heads = ["launches differ by", "between launches", *(f"{n} launches" for n in (3, 5, 10, 20))]
    return table(heads, rows)


def power(draws: int) -> str:
    """Changes found in percent: ours / Welch on launch means / pairs (seed 65).

    The first column says which part of the spread is shared by the launches of a block. Welch's test on all
    requests, which lies, is in the first table.
    """
    random = np.random.default_rng(65)
    rows = []
    for shared in (0.0, 0.5):
        for launches in (2, 3, 5, 10):
            row: list[object] = [f"{shared:.0%}", launches]
            for shift in (1.0, 2.0, 4.0):
                own = np.sqrt(1 - shared) * random.standard_normal((draws, 2, launches))
                logs = own + np.sqrt(shared) * random.standard_normal((draws, 1, launches))
                logs[:, 1] += shift
                pairs = stats.ttest_1samp(logs[:, 1] - logs[:, 0], 0, axis=-1).pvalue
                plain = welch(logs[:, 0], logs[:, 1])
                row.append(" / ".join(part(p < STATED) for p in (ours(logs), plain, pairs)))
            rows.append(row)
    heads = ["of blocks", "launches a side", "change of 1", "2", "4 deviations"]
    return table(heads, rows)


def frame(values: Floats, context: int = 128) -> pd.DataFrame:
    """Launch values as `launch_means` gives them."""
    at = np.arange(len(values))
    return pd.DataFrame(
        {"launch": at, "block": at, "stack": "a", "context_tokens": context, METRIC.name: values}
    )


def verdicts(make: Callable[[], tuple[Floats, Floats]], draws: int, **rules: float) -> Counter[str]:
    """What `compare` says, with `bimodal` and the like counted beside it."""
    seen: Counter[str] = Counter()
    for _ in range(draws):
        first, second = make()
        (cell,) = compare.compare(frame(first), frame(second), [METRIC], stack="b", same_run=True, **rules)
        seen[str(cell.verdict)] += 1
        seen["bimodal"] += cell.bimodal
    return seen


def slow_mode(draws: int) -> str:
    """A slow mode at start, 2.55 against 4.12 ms with probability 0.6 on both sides, in percent (seed 66).

    The last three columns: how often launches of one mode at CV 13 % are called bimodal.
    """
    random = np.random.default_rng(66)
    rows = []
    for launches in (2, 3, 4, 5, 6, 8, 10):

        def modes(count: int = launches) -> Floats:
            levels = np.where(random.random(count) < 0.6, 4.12, 2.55)
            return np.asarray(levels * np.exp(random.normal(0, 0.01, count)))

        seen = verdicts(lambda modes=modes: (modes(), modes()), draws)  # type: ignore[misc]
        wrong = seen["regressed"] + seen["improved"]
        said = [seen["bimodal"] / draws]
        for tails in ("gauss", "t3", "lognormal"):

            def single(count: int = launches, tails: str = tails) -> Floats:
                return np.asarray(10 * np.exp(0.13 * effects(random, tails, (count,))))

            quiet = verdicts(lambda single=single: (single(), single()), draws)  # type: ignore[misc]
            said.append(quiet["bimodal"] / draws)
        rows.append([launches, part(wrong / draws), part(seen["equivalent"] / draws), *map(part, said)])
    heads = [
        "launches a side",
        "wrong verdict",
        "equivalent",
        "bimodal said",
        "of gauss",
        "of t3",
        "of lognormal",
    ]
    return table(heads, rows)


def field_cases(draws: int) -> str:
    """Field cases, percent of comparisons at a margin of 1 % (seed 67)."""
    random = np.random.default_rng(67)
    rows = []
    for change, spread in ((0.032, 0.005), (0.0, 0.005), (0.032, 0.13)):
        for launches in (3, 5, 8):

            def make(
                change: float = change, spread: float = spread, n: int = launches
            ) -> tuple[Floats, Floats]:
                first, second = (10 * np.exp(random.normal(0, spread, n)) for _ in range(2))
                return first, second * (1 + change)

            seen = verdicts(make, draws)
            names = ("regressed", "improved", "equivalent", "undecided")
            told = [part(seen[name] / draws) for name in names]
            rows.append([f"{change:.1%} slower", f"{spread:.1%}", launches, *told])
    heads = ["change", "CV", "launches a side", "regressed", "improved", "equivalent", "undecided"]
    return table(heads, rows)


def many_cells(draws: int) -> str:
    """Many cells, in percent: any false alarm, and how many changes of 1.5 deviations are found (seed 68)."""
    random = np.random.default_rng(68)
    rows = []
    for cells in (3, 12):
        for launches in (3, 5, 10):
            for correlated in (0.0, 0.5, 0.9):
                alarms = [_family(random, cells, launches, correlated, 0.0) for _ in range(draws)]
                found = [_family(random, cells, launches, correlated, 1.5) for _ in range(draws // 4)]
                wrong = [np.mean([np.any(one[way]) for one in alarms]) for way in (0, 1)]
                right = [np.mean([np.mean(one[way]) for one in found]) for way in (0, 1)]
                rows.append([cells, launches, correlated, *map(part, wrong), *map(part, right)])
    heads = [
        "cells",
        "launches a side",
        "correlation",
        "false alarms",
        "Bonferroni",
        "found",
        "by Bonferroni",
    ]
    return table(heads, rows)


def _family(
    random: np.random.Generator, cells: int, launches: int, correlated: float, shift: float
) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    shape = (2, launches)
    logs = np.sqrt(correlated) * random.standard_normal((*shape, 1))
    logs = logs + np.sqrt(1 - correlated) * random.standard_normal((*shape, cells))
    logs[1] += shift
    seen = [estimate.of_launches(logs[0, :, k], logs[1, :, k], list(range(launches))) for k in range(cells)]
    parts = [logs[1] - logs[0]] if seen[0].paired else [logs[0], logs[1]]
    rows = np.concatenate([one - one.mean(axis=0) for one in parts])
    known = family.correlation(rows, len(rows) - len(parts))
    values = [one.p for one in seen]
    mine = family.rejected(values, [one.freedom for one in seen], STATED, known)
    return mine, tuple(value <= STATED / cells for value in values)


def borrowing(draws: int) -> str:
    """False alarms in percent if the spread were borrowed from other stacks (seed 69)."""
    random = np.random.default_rng(69)
    rows = []
    for others in (4, 8):
        for name, noisy in (("alike", 1.0), ("one of the pair 3 times as noisy", 3.0)):
            for launches in (2, 3, 5):
                scale = np.ones(others)
                scale[1] = noisy
                logs = random.standard_normal((draws, others, launches)) * scale[:, None]
                spreads = logs.var(axis=2, ddof=1)
                change = logs[:, 1].mean(-1) - logs[:, 0].mean(-1)
                shared = stats.t.sf(
                    np.abs(change) / np.sqrt(2 * spreads.mean(1) / launches), others * (launches - 1)
                )
                mine = ours(logs[:, :2])
                rows.append([others, name, launches, part(mine < STATED), part(2 * shared < STATED)])
    return table(["stacks", "spreads", "launches", "ours", "spread of all stacks"], rows)


def decides(draws: int) -> str:
    """Undecided cells, and how many were decided by the launches named; CV 1 %, margin 1 % (seed 70)."""
    random = np.random.default_rng(70)
    rows = []
    for launches in (3, 5):
        for change in (0.0, 0.01, 0.03):
            told, decided = [], 0
            for _ in range(draws):
                sides = [list(np.exp(random.normal(shift, 0.01, launches))) for shift in (0.0, change)]
                cell = _cell(sides)
                if cell.further_launches is None:
                    continue
                told.append(cell.further_launches)
                for side, shift in zip(sides, (0.0, change), strict=True):
                    side += list(np.exp(random.normal(shift, 0.01, cell.further_launches)))
                decided += _cell(sides).verdict != compare.Verdict.UNDECIDED
            middle = int(np.median(told)) if told else 0
            rows.append(
                [
                    launches,
                    f"{change:.0%}",
                    part(len(told) / draws),
                    middle,
                    part(decided / max(len(told), 1)),
                ]
            )
    return table(
        ["launches a side", "true change", "undecided", "further launches, median", "decided then"], rows
    )


def _cell(sides: list[list[float]]) -> compare.Cell:
    first, second = (frame(np.asarray(side)) for side in sides)
    (cell,) = compare.compare(first, second, [METRIC], stack="b", same_run=True)
    return cell


def reading(draws: int) -> str:
    """Reading a stored run and comparing its two stacks, in seconds (best of three, imports not counted)."""
    from stored_cycles import make

    from benchharness.cli.stack_name import Side

    with tempfile.TemporaryDirectory() as name:
        make(Path(name), draws)
        rows = []
        percentiles = ["cycle_ms", "verify_p50_ms", "cycle_p99_ms"]
        for label, metrics in (("cycle_ms", ["cycle_ms"]), ("and two percentiles", percentiles)):
            chosen = [METRICS[metric] for metric in metrics]
            best = np.inf
            for _ in range(3):
                began = time.perf_counter()
                sides = Side.of(Path(name), "speed:a"), Side.of(Path(name), "speed:b")
                means = [side.means(chosen) for side in sides]
                compare.compare(means[0], means[1], chosen, stack="b", same_run=True)
                twolevel.of_cells(sides[0].requests(chosen[0]), sides[1].requests(chosen[0]), same_run=True)
                best = min(best, time.perf_counter() - began)
            rows.append([f"{draws:,}", label, f"{best:.2f}"])
    return table(["stored cycles", "metrics", "seconds"], rows)


TABLES: tuple[tuple[int, Callable[[int], str]], ...] = (
    (10_000, false_alarms),
    (10_000, drifting),
    (10_000, heavy_tails),
    (10_000, coverage),
    (4_000, power),
    (1_000, slow_mode),
    (1_000, field_cases),
    (2_000, many_cells),
    (10_000, borrowing),
    (500, decides),
    (10_000_000, reading),
)
"""Draws (stored cycles for the last one) and what makes the table; its title is the function's own."""


if __name__ == "__main__":
    write_tables(sys.argv[1:], TABLES, "bench-stats")
