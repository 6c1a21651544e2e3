"""The bisection against simulated machines, beside plain bisection and git_bayesect.

    python benchmarks/bench_bisect.py            print the tables
    python benchmarks/bench_bisect.py --write    and put each into docs/benchmarks.md as it is done
    python benchmarks/bench_bisect.py --only nasty

Every table has a seed of its own. `--trials 0.1` makes a tenth of the campaigns.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from bisect_rivals import bayesect
from campaign_tables import campaigns, goal, print_tables, table

from benchharness.bisect.search import Axis, Limits, Observation, believe, next_move
from benchharness.bisect.simulation import (
    EQUAL,
    PRICED,
    Outcome,
    Scene,
    Summary,
    Tails,
    campaign,
    plain,
    summary,
)

LIMITS = Limits(launches=100)


def many(run: Callable[[Sequence[int]], Outcome], trials: int, seed: int) -> Summary:
    """Campaigns, summed up."""
    return summary(campaigns(run, trials, seed))


def one_level(trials: int) -> str:
    """One level of noise, 64 versions, nothing known, equal costs: measurements (success) (seed 81).

    Stated is the mean confidence at the stop. git_bayesect and plain bisection are told a threshold halfway
    between the true levels (plain: halfway between one measurement of each end).
    """
    rows, told = [], ""
    for effect, most in ((1.0, 115), (2.0, 33), (5.0, 12)):
        scene = Scene(64, effect, 0.0, EQUAL)
        found = {}
        for stop in (0.9, 0.95, 0.97, 0.98, 0.99):
            one = many(partial(campaign, scene, stop), trials, 81)
            found[stop] = one
            rows.append(
                [
                    f"{effect:g}",
                    f"ours, {stop:g}",
                    f"{one.mean_measurements:.1f}",
                    f"{one.success:.3f}",
                    f"{one.stated:.3f}",
                ]
            )
        other = many(partial(bayesect, scene, 0.95), trials, 81)
        rows.append(
            [
                f"{effect:g}",
                "git_bayesect, 0.95",
                f"{other.mean_measurements:.1f}",
                f"{other.success:.3f}",
                f"{other.stated:.3f}",
            ]
        )
        for repeats in (1, 5):
            one = many(partial(plain, scene, repeats), trials, 81)
            rows.append(
                [
                    f"{effect:g}",
                    f"plain, {repeats} each",
                    f"{one.mean_measurements:.1f}",
                    f"{one.success:.3f}",
                    "-",
                ]
            )
        enough = [one for one in found.values() if one.success >= 0.96]
        least = min((one.mean_measurements for one in enough), default=float("inf"))
        told += goal(
            least <= most, f"at d = {effect:g} success >= 0.96 in at most {most} measurements ({least:.1f})"
        )
    return table(["d", "search, stop", "measurements", "success", "stated"], rows) + "\n" + told


def two_levels(trials: int) -> str:
    """Two levels of noise, priced: a cold version 420 s, a relaunch 120 s, a measurement 15 s; 64 versions
    (seed 82).
    """
    rows, told = [], ""
    for known in (False, True):
        for effect, rho in ((2.0, 0.0), (2.0, 0.5), (2.0, 0.8), (1.0, 0.5)):
            scene = Scene(64, effect, rho, PRICED, known)
            kind, asked = "known" if known else "unknown", (effect, rho) == (2.0, 0.5)
            found = [(stop, many(partial(campaign, scene, stop), trials, 82)) for stop in _stops(asked)]
            rows += [[kind, f"{effect:g}", rho, f"{stop:g}", *_priced(one)] for stop, one in found]
            if asked:
                most = 1.05 if known else 1.95
                enough = [one for _, one in found if one.success >= 0.97 and one.mean_hours <= most]
                words = f"d = 2, rho = 0.5, {kind}: success >= 0.97 in at most {most} h"
                reached = "; ".join(f"{one.success:.3f}, {one.mean_hours:.2f} h" for _, one in found)
                told += goal(bool(enough), f"{words} ({reached})")
    for repeats in (1, 5, 20):
        one = many(partial(plain, Scene(64, 2.0, 0.5), repeats), trials, 82)
        rows.append([f"plain, {repeats} each", "2", 0.5, "-", *_priced(one)])
    heads = ["noise", "d", "rho", "stop", "success", "stated", "hours", "launches", "measurements"]
    return table([*heads, "cannot tell"], rows) + "\n" + told


def _stops(asked: bool) -> tuple[float, ...]:
    """Where the frontier of success against cost is asked for, several."""
    return (0.95, 0.97, 0.98) if asked else (0.95,)


def _priced(one: Summary) -> list[str]:
    stated = "-" if np.isnan(one.stated) else f"{one.stated:.3f}"
    figures = [f"{one.mean_hours:.2f}", f"{one.mean_launches:.1f}", f"{one.mean_measurements:.1f}"]
    return [f"{one.success:.3f}", stated, *figures, f"{one.cannot_tell:.3f}"]


def _drawn(scene: Scene, stop: float, seed: Sequence[int]) -> Outcome:
    """A campaign for a change of a size of its own."""
    effect = float(np.exp(np.random.default_rng([83, *seed]).uniform(np.log(0.7), np.log(7))))
    return campaign(replace(scene, effect=effect), stop, seed, Limits(launches=250))


def calibration(trials: int) -> str:
    """Stated confidence (mean at the stop) against observed success, 64 versions, nothing known; effects
    drawn log-uniformly from 0.7 to 7 deviations, a new one for each campaign (seed 83).
    """
    rows, told = [], ""
    for name, scene in (
        ("one level, equal costs", Scene(64, 1.0, 0.0, EQUAL)),
        ("rho = 0.5, priced", Scene(64, 1.0, 0.5)),
    ):
        for stop in (0.9, 0.95, 0.99):
            one = many(partial(_drawn, scene, stop), trials, 83)
            error = np.sqrt(one.success * (1 - one.success) / trials)
            rows.append([name, stop, f"{one.stated:.3f}", f"{one.success:.3f}", f"{error:.3f}"])
            told += goal(
                abs(one.stated - one.success) <= 0.02,
                f"{name}, stop {stop}: within 2 points ({one.success - one.stated:+.3f})",
            )
    return table(["scene", "stop", "stated", "observed", "standard error"], rows) + "\n" + told


def nasty(trials: int) -> str:
    """Machines that are not as the model says: d = 2, rho = 0.5 unless told, priced, 64 versions, stop at
    0.95, at most 100 launches (seed 84). With unbuildable versions the shortest range left counts as success.
    """
    scene = Scene(64, 2.0, 0.5)
    kinds: list[tuple[str, Scene]] = [
        ("as the model says", scene),
        ("Student's t, 3 degrees", replace(scene, tails=Tails.T3)),
        ("lognormal", replace(scene, tails=Tails.LOGNORMAL)),
        ("modes at start, 1.4 apart", replace(scene, tails=Tails.MODES)),
        ("modes 2.0 apart, d = 1, rho = 0.98", replace(scene, tails=Tails.MODES, effect=1.0, rho=0.98)),
        ("modes 2.0 apart, d = 2, rho = 0.95", replace(scene, tails=Tails.MODES, rho=0.95)),
        ("repeats correlated, 0.6", replace(scene, lag=0.6)),
        ("host drift 0.5 over 30 min", replace(scene, drift=0.5)),
        ("host drift 1 over 30 min", replace(scene, drift=1.0)),
        ("10 % unbuildable", replace(scene, unusable=0.1)),
        ("30 % unbuildable", replace(scene, unusable=0.3)),
    ]
    rows = []
    for name, kind in kinds:
        one = many(partial(campaign, kind, 0.95, limits=LIMITS), trials, 84)
        other = many(partial(plain, kind, 5), trials, 84)
        rows.append([name, *_priced(one), f"{other.success:.3f}, {other.mean_hours:.2f} h"])
    heads = [
        "machine",
        "success",
        "stated",
        "hours",
        "launches",
        "measurements",
        "cannot tell",
        "plain, 5 each",
    ]
    return table(heads, rows)


def large(trials: int) -> str:
    """Large effects, one level, 64 versions, equal costs: launches until the stop at 0.95 (seed 86).

    Plain bisection measures both ends once, and then six versions.
    """
    rows = []
    for effect in (10.0, 20.0, 40.0):
        kinds = [
            Scene(64, effect, 0.0, EQUAL),
            Scene(64, effect, 0.0, EQUAL, known=True),
        ]
        found = [many(partial(campaign, one, 0.95), trials, 86) for one in kinds]
        found.append(many(partial(plain, kinds[0], 1), trials, 86))
        rows.append([f"{effect:g}", *(f"{one.mean_launches:.1f} ({one.success:.2f})" for one in found)])
    return table(["d", "ours", "ours, known", "plain"], rows)


def speed(_: int) -> str:
    """One step (belief and next move) of a campaign of 40 launches with drift modelled, best of 5, in ms."""
    random = np.random.default_rng(85)
    rows, told = [], ""
    for points, most in ((1024, 50), (100_000, 1000)):
        axis = Axis(points)
        places = np.unique(np.concatenate([[0, points - 1], random.integers(0, points, 25)]))
        shown = [
            Observation(int(p), float(2 * (p > points // 3) + random.normal()), 3, 1.0, i // 2)
            for i, p in enumerate(np.resize(places, 40))
        ]
        best = np.inf
        for _ in range(5):
            began = time.perf_counter()
            next_move(axis, shown, believe(axis, shown), PRICED, 0.999999, running=39)
            best = min(best, time.perf_counter() - began)
        rows.append([f"{points:,}", f"{1e3 * best:.1f}"])
        told += goal(1e3 * best < most, f"a step under {most} ms at N = {points:,} ({1e3 * best:.1f})")
    return table(["points", "ms"], rows) + "\n" + told


TABLES: tuple[tuple[int, Callable[[int], str]], ...] = (
    (1, speed),
    (200, large),
    (300, two_levels),
    (1000, calibration),
    (100, nasty),
    (200, one_level),
)
"""Campaigns a row and what makes the table; its title is the function's own."""


if __name__ == "__main__":
    sys.exit(print_tables(sys.argv[1:], TABLES, "bench-bisect"))
