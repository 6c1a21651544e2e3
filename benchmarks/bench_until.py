"""`run --until decided` against simulated launches: false alarms over all looks, power, and launches saved.

    python benchmarks/bench_until.py            print the tables
    python benchmarks/bench_until.py --write    and put them into docs/method.md

The looks, their levels and the number of launches between them come from the code that the command uses.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from bench_stats import METRIC, STATED, frame, part, table
from scipy import special
from simulated_launches import Floats, effects
from simulated_tables import write_tables

from benchharness.stats import compare, estimate, family, looks, until
from benchharness.stats.compare import Cell


@dataclass(frozen=True)
class Scene:
    """What launches are like.

    Attributes:
        change: of the candidate, as a fraction.
        spread: of launches, of the log.
        margin: largest change that counts as none.
    """

    change: float = 0.0
    spread: float = 0.01
    margin: float = 0.01

    def launches(self, random: np.random.Generator, count: int) -> Floats:
        """2 sides x launches."""
        logs = self.spread * random.standard_normal((2, count))
        logs[1] += np.log1p(self.change)
        return np.asarray(10 * np.exp(logs))


@dataclass(frozen=True)
class End:
    """How one campaign ended: its cells, and the launches that it made of each stack."""

    cells: tuple[Cell, ...]
    launches: int

    @property
    def decided(self) -> bool:
        """Every cell has a verdict."""
        return not until.open_cells(self.cells)


def judged(values: Floats, scene: Scene, share: float) -> tuple[Cell, ...]:
    """Cells of both sides' launches so far, at a share of the level."""
    sides = [frame(side) for side in values]
    return compare.compare(
        sides[0],
        sides[1],
        [METRIC],
        stack="b",
        same_run=True,
        margin=scene.margin,
        confidence=1 - STATED * share,
        equivalence_level=STATED * share,
    )


def campaign(values: Floats, scene: Scene, first: int) -> End:
    """Rounds as the command makes them, over launches that are there already."""
    planned = looks.planned(first, values.shape[1])
    at = 0
    while True:
        have = planned[at].launches
        cells = judged(values[:, :have], scene, planned[at].share)
        wanted = until.wanted(cells)
        if not until.open_cells(cells) or wanted is None:
            return End(cells, have)
        following = looks.following(planned, at, have, wanted)
        if following == len(planned):
            return End(cells, have)
        at = following


def fixed(values: Floats, scene: Scene) -> End:
    """All launches at once."""
    return End(judged(values, scene, 1.0), values.shape[1])


def estimated(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, standard error and degrees of freedom of many comparisons, as `estimate.of_launches` has them.

    Args:
        values: draws x 2 sides x launches, logs.
    """
    count = values.shape[2]
    off = values[:, 1] - values[:, 0]
    if count >= estimate.FEWEST_PAIRS:
        return off.mean(-1), off.std(-1, ddof=1) / np.sqrt(count), np.full(len(off), count - 1.0)
    spread = values.var(-1, ddof=1).sum(-1)
    return off.mean(-1), np.sqrt(spread / count), np.full(len(off), 2.0 * (count - 1))


def false_alarms(draws: int) -> str:
    """Until decided: false alarms over all looks in percent, of a stated 5 % (seed 81).

    No change. All planned looks are taken, as many as a run could take. "Looking" takes them at 5 % each, and
    "every launch" looks after each launch. Several cells share half of their launches' variance.
    """
    random = np.random.default_rng(81)
    rows = []
    for first, most in ((2, 20), (3, 20), (5, 40), (10, 20)):
        for cells, tails in ((1, "gauss"), (1, "t3"), (1, "lognormal"), (6, "gauss")):
            logs = effects(random, tails, (draws // cells, cells, 2, most))
            if cells > 1:
                logs = logs + effects(random, tails, (draws // cells, 1, 2, most))
            planned = looks.planned(first, most)
            shares = {look.launches: look.share for look in planned}
            plans = [
                shares,
                dict.fromkeys(shares, 1.0),
                dict.fromkeys(range(first, most + 1), 1.0),
                {most: 1.0},
            ]
            rows.append([first, most, cells, tails, *(part(alarms(logs, plan)) for plan in plans)])
    heads = [
        "first launches",
        "most",
        "cells",
        "launches differ by",
        "until",
        "looking",
        "every launch",
        "fixed",
    ]
    return table(heads, rows)


def alarms(logs: Floats, plan: Mapping[int, float]) -> Floats:
    """Whether any cell (second axis) is ever called changed; launches -> share of the level."""
    ever = np.zeros(len(logs), dtype=bool)
    cells = logs.shape[1]
    for count, share in plan.items():
        mean, error, freedom = estimated(logs[..., :count].reshape(-1, 2, count))
        level = family.level(STATED * share, cells, 0.5 if cells > 1 else 0.0, float(freedom[0]))
        p = 2 * special.stdtr(freedom, -np.abs(mean) / error)
        ever |= (p < level).reshape(-1, cells).any(-1)
    return ever


def false_peace(draws: int) -> str:
    """Until decided: a change as large as the margin called equivalent, in percent (seed 82).

    The stated level is 5 %. The first column: the margin in standard deviations of a launch.
    """
    random = np.random.default_rng(82)
    rows = []
    for margin in (0.5, 1.0, 3.0):
        for first, most in ((2, 20), (3, 20), (5, 40)):
            logs = random.standard_normal((draws, 2, most))
            logs[:, 1] += margin
            shares = {look.launches: look.share for look in looks.planned(first, most)}
            plans = [shares, dict.fromkeys(shares, 1.0), {most: 1.0}]
            rows.append([margin, first, most, *(part(_peace(logs, margin, plan)) for plan in plans)])
    return table(["margin", "first launches", "most", "until", "looking", "fixed"], rows)


def _peace(logs: Floats, margin: float, plan: Mapping[int, float]) -> Floats:
    ever = np.zeros(len(logs), dtype=bool)
    for count, share in plan.items():
        mean, error, freedom = estimated(logs[..., :count])
        reach = special.stdtrit(freedom, 1 - STATED * share) * error
        ever |= (mean + reach < margin) & (mean - reach > -margin)
    return ever


def saved(draws: int) -> str:
    """Until decided: what is decided, and by how many launches of each stack (seed 83).

    From 3 launches to at most 20, at a CV of 1 % and a margin of 1 %; beside it 20 launches at once.
    """
    random = np.random.default_rng(83)
    rows = []
    for change in (0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05):
        scene = Scene(change=change)
        launches = [scene.launches(random, 20) for _ in range(draws)]
        grown = [campaign(values, scene, 3) for values in launches]
        told = []
        for found in (grown, [fixed(values, scene) for values in launches]):
            seen = Counter(str(end.cells[0].verdict) for end in found)
            told += [part(seen[name] / draws) for name in ("regressed", "equivalent")]
            told.append(part(np.mean([end.decided for end in found])))
        used = [end.launches for end in grown]
        rows.append([f"{change:.1%}", *told, f"{np.mean(used):.1f}", f"{1 - np.mean(used) / 20:.0%}"])
    heads = [
        "true change",
        "regressed",
        "equivalent",
        "decided",
        "regressed by 20",
        "equivalent by 20",
        "decided by 20",
        "launches, mean",
        "saved",
    ]
    return table(heads, rows)


TABLES: tuple[tuple[int, Callable[[int], str]], ...] = (
    (60_000, false_alarms),
    (40_000, false_peace),
    (400, saved),
)

if __name__ == "__main__":
    write_tables(sys.argv[1:], TABLES, "bench-until")
