"""Duet against interleaved launches on a host that drifts: width of intervals and false alarms.

python benchmarks/bench_duet.py            print the tables
python benchmarks/bench_duet.py --write    and put them into docs/method.md
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from bench_stats import STATED, part, table
from scipy import special
from simulated_launches import REQUESTS, Floats, noise
from simulated_tables import write_tables

from benchharness.stats import estimate

LASTING = 0.95
"""Correlation of what the host does to one request and to the next one in time: about a launch long."""


def blocks(random: np.random.Generator, draws: int, count: int, host: float, *, duet: bool) -> Floats:
    """Draws x 2 sides x blocks: mean logs of launches.

    A launch has its own level (deviation 1) and requests of deviation 1 around it. The host moves on all the
    time, by `host` deviations, in 2 x `REQUESTS` requests a block: first one launch's and then the other's,
    or in pairs of random order.
    """
    level = random.standard_normal((draws, 2, count))
    own = random.standard_normal((draws, 2, count, REQUESTS)).mean(-1)
    moves = host * noise(random, LASTING, (draws, count * 2 * REQUESTS)).reshape(draws, count, -1)
    if duet:
        first = random.random((draws, count, REQUESTS)) < 0.5
        even, odd = moves[..., ::2], moves[..., 1::2]
        met = np.stack([np.where(first, even, odd).mean(-1), np.where(first, odd, even).mean(-1)], axis=1)
    else:
        halves = np.stack([moves[..., :REQUESTS].mean(-1), moves[..., REQUESTS:].mean(-1)], axis=1)
        # Every second block runs in reverse.
        met = np.where(np.arange(count) % 2 == 0, halves, halves[:, ::-1])
    return np.asarray(level + own + met)


def judged(values: Floats, *, pairs: bool) -> tuple[Floats, Floats]:
    """Half width of the 95 % interval, and whether it misses no change."""
    count = values.shape[2]
    off = values[:, 1] - values[:, 0]
    if pairs:
        error, freedom = off.std(-1, ddof=1) / np.sqrt(count), count - 1
    else:
        error, freedom = np.sqrt(values.var(-1, ddof=1).sum(-1) / count), 2 * (count - 1)
    width = special.stdtrit(freedom, 1 - STATED / 2) * error
    return width, np.abs(off.mean(-1)) > width


def widths(draws: int) -> str:
    """Duet: half width of the 95 % interval, in deviations of a launch's own level (seed 91).

    In brackets: false alarms. The first column: what the host does, in the same deviations. "As pairs" and
    "as groups" are two ways to judge the same launches; a bold one is the one that is used.
    """
    random = np.random.default_rng(91)
    rows = []
    for host in (0.0, 1.0, 3.0, 10.0):
        for count in (2, 3, 4, 5, 10):
            row: list[object] = [host, count]
            for duet in (False, True):
                values = blocks(random, draws, count, host, duet=duet)
                fewest = estimate.FEWEST_DUETS if duet else estimate.FEWEST_PAIRS
                for pairs in (False, True):
                    width, alarm = judged(values, pairs=pairs)
                    told = f"{np.median(width):.2f} ({part(alarm)} %)"
                    row.append(f"**{told}**" if pairs == (count >= fewest) else told)
            rows.append(row)
    heads = [
        "host",
        "blocks",
        "interleaved as groups",
        "interleaved as pairs",
        "duet as groups",
        "duet as pairs",
    ]
    return table(heads, rows)


TABLES: tuple[tuple[int, Callable[[int], str]], ...] = ((10_000, widths),)

if __name__ == "__main__":
    write_tables(sys.argv[1:], TABLES, "bench-duet")
