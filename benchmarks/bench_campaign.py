"""Whole bisection campaigns on simulated machines: pre-flight, ends, search and confirmation.

python benchmarks/bench_campaign.py            print the tables
python benchmarks/bench_campaign.py --write    and put each into docs/benchmarks.md as it is done
python benchmarks/bench_campaign.py --trials 0.1     a tenth of the campaigns
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from campaign_tables import campaigns, print_tables, table

from benchharness.bisect.session.deciding import Outcome
from benchharness.bisect.session.rehearsal import Budget, Rehearsed, rehearse
from benchharness.bisect.simulation import Scene, Tails

CONFIDENCE = 0.95
BUDGET = Budget(launches=150)
TOLD = (Outcome.FOUND, Outcome.RANGE)
WIDE = 0.1
"""Deviation of a measurement, in logs, on machines with modes: less than 5 % apart are none to it."""


def machines() -> list[tuple[str, Scene]]:
    """What campaigns are tried on; 64 versions, priced."""
    scene = Scene(64, 2.0, 0.5)
    return [
        ("d = 1", replace(scene, effect=1.0)),
        ("d = 2", scene),
        ("d = 5", replace(scene, effect=5.0)),
        ("d = 2, Student's t, 3 degrees", replace(scene, tails=Tails.T3)),
        ("d = 5, Student's t, 3 degrees", replace(scene, tails=Tails.T3, effect=5.0)),
        ("d = 2, lognormal", replace(scene, tails=Tails.LOGNORMAL)),
        ("d = 5, lognormal", replace(scene, tails=Tails.LOGNORMAL, effect=5.0)),
        (
            "modes 2.0 apart, d = 1, rho = 0.98",
            replace(scene, tails=Tails.MODES, effect=1.0, rho=0.98, deviation=WIDE),
        ),
        (
            "modes 2.0 apart, d = 2, rho = 0.95",
            replace(scene, tails=Tails.MODES, rho=0.95, deviation=WIDE),
        ),
        ("d = 2, repeats correlated, 0.6", replace(scene, lag=0.6)),
        ("d = 2, host drift 0.5 over 30 min", replace(scene, drift=0.5)),
        ("d = 2, host drift 1 over 30 min", replace(scene, drift=1.0)),
        ("d = 2, 30 % unbuildable", replace(scene, unusable=0.3)),
    ]


def _rehearsed(scene: Scene, seed: Sequence[int]) -> Rehearsed:
    return rehearse(scene, CONFIDENCE, seed, BUDGET)


def whole_campaigns(trials: int) -> str:
    """Whole campaigns as `bisect run` makes them: 64 versions, rho = 0.5 unless told, priced, confidence
    0.95, at most 150 launches, a deviation of one measurement of 2 % (10 % with modes) (seed 87).

    Right: the culprit is named, or with unbuildable versions the shortest range. Wrong: another one is, and
    at which confidence that was stated (lowest, middle, highest). Stated is the mean over all that name
    something; the rest are shares and means of all campaigns, launches by ends, search and confirmation.
    """
    rows = []
    for name, scene in machines():
        began = time.perf_counter()
        done = campaigns(partial(_rehearsed, scene), trials, 87)
        rows.append([name, *_cells(done)])
        print(rows[-1], f"{time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    heads = ["machine", "right", "wrong", "stated", "wrong at", "alike or untold", "unconfirmed", "budget"]
    return table([*heads, "hours", "launches"], rows)


def _cells(done: Sequence[Rehearsed]) -> list[str]:
    trials = len(done)
    told = [one for one in done if one.outcome in TOLD]
    wrong = [one for one in told if not one.right]
    ways = Counter(one.outcome for one in done)
    roles = np.mean([_parts(one) for one in done], axis=0)
    return [
        f"{sum(one.right for one in done) / trials:.3f}",
        f"{len(wrong) / trials:.3f}",
        f"{np.mean([one.confidence for one in told]):.3f}" if told else "-",
        _sorted(wrong),
        f"{(ways[Outcome.ALIKE] + ways[Outcome.UNTOLD]) / trials:.3f}",
        f"{ways[Outcome.UNCONFIRMED] / trials:.3f}",
        f"{ways[Outcome.BUDGET] / trials:.3f}",
        f"{np.mean([one.hours for one in done]):.2f}",
        f"{roles.sum():.1f} ({', '.join(f'{one:.1f}' for one in roles)})",
    ]


def _sorted(wrong: Sequence[Rehearsed]) -> str:
    """The lowest, the middle and the highest confidence of those that were wrong."""
    if not wrong:
        return "-"
    stated = sorted(one.confidence for one in wrong)
    return ", ".join(f"{one:.3f}" for one in dict.fromkeys((stated[0], stated[len(stated) // 2], stated[-1])))


def _parts(one: Rehearsed) -> tuple[int, int, int]:
    by_role = {str(role): count for role, count in one.launches.items()}
    return (
        by_role.get("pre-flight", 0) + by_role.get("ends", 0),
        by_role.get("search", 0),
        by_role.get("confirmation", 0),
    )


def ends(trials: int) -> str:
    """Two versions alone: how often ends are said to differ, and the launches until that, or until they are
    given up; d in deviations of one measurement, rho = 0.5, priced, confidence 0.95 (seed 88).
    """
    rows = []
    for effect, drift in ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (2.0, 0.0), (2.0, 1.0)):
        scene = Scene(2, effect, 0.5, drift=drift)
        done = campaigns(partial(_rehearsed, scene), trials, 88)
        differ = sum(one.outcome in TOLD for one in done) / trials
        launches = np.mean([sum(one.launches.values()) for one in done])
        rows.append([f"{effect:g}", f"{drift:g}", f"{differ:.3f}", f"{launches:.1f}"])
    return table(["d", "host drift over 30 min", "said to differ", "launches"], rows)


if __name__ == "__main__":
    sys.exit(print_tables(sys.argv[1:], ((1000, ends), (200, whole_campaigns)), "bench-campaign"))
