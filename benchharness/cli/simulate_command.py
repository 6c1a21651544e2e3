"""`benchharness simulate bisect`: what a campaign would cost and find."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchharness.cli.options import json_option, print_json, results_option
from benchharness.errors import UsageError

if TYPE_CHECKING:
    from benchharness.bisect.simulation import Outcome
    from benchharness.stats.twolevel import Components

_PLAIN_REPEATS = (1, 5)

_FEW = 8
"""Campaigns that are made in this process: starting others would take longer."""

_MODES_DEVIATION = 10.0
"""Percent: modes less than 5 % apart are none to a campaign."""


@click.group("simulate")
def command() -> None:
    """Try a campaign on a simulated machine, before paying for a real one."""


@command.command(
    "bisect",
    epilog="Example: benchharness simulate bisect --versions 64 --effect 2 --rho 0.5 --trials 200 --seed 1",
)
@click.option("--versions", type=int, default=64, show_default=True, help="Points of the axis.")
@click.option(
    "--effect",
    default="2",
    show_default=True,
    metavar="D",
    help="The change in deviations of one measurement; with --noise also in percent, as 5%.",
)
@click.option(
    "--rho", type=float, default=None, help="Share of the variance between launches.  [default: 0.5]"
)
@click.option("--trials", type=int, default=200, show_default=True, help="Campaigns.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same figures.")
@click.option(
    "--cost",
    type=click.Choice(["equal", "priced"]),
    default="priced",
    show_default=True,
    help="priced: 420 s a new version, 120 s a relaunch, 15 s a measurement; equal: launches are free.",
)
@click.option("--known", is_flag=True, help="Levels, deviations and the size of the change are known.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="At which the search stops.")
@click.option(
    "--tails",
    type=click.Choice(["gauss", "t3", "lognormal", "modes"]),
    default="gauss",
    show_default=True,
    help="How launches are spread; modes: a slow one is drawn at start with probability 0.6.",
)
@click.option("--lag", type=float, default=None, help="Correlation of neighbouring repeats.  [default: 0]")
@click.option("--drift", type=float, default=0.0, show_default=True, help="The host's, over half an hour.")
@click.option("--unbuildable", type=float, default=0.0, show_default=True, help="Share of the middle.")
@click.option("--launches", type=int, default=400, show_default=True, help="Most launches of a campaign.")
@click.option(
    "--spread",
    type=float,
    default=None,
    metavar="PERCENT",
    help="Deviation of one measurement: a whole campaign calls ends alike that differ by less than 1 %.  "
    "[default: 2, with modes 10]",
)
@click.option(
    "--search-only", is_flag=True, help="Leave out whole campaigns: pre-flight, ends, search, confirmation."
)
@click.option("--noise", metavar="RUN[:STACK]", default=None, help="Take rho and lag from a stored run.")
@click.option("--metric", default="output_tok_s", show_default=True, help="Whose noise --noise takes.")
@results_option
@json_option
def bisect(
    versions: int,
    effect: str,
    rho: float | None,
    trials: int,
    seed: int,
    cost: str,
    known: bool,
    confidence: float,
    tails: str,
    lag: float | None,
    drift: float,
    unbuildable: float,
    launches: int,
    spread: float | None,
    search_only: bool,
    noise: str | None,
    metric: str,
    results: Path,
    as_json: bool,
) -> None:
    """Simulate bisections: how often they find the change, and what they take, beside plain bisection.

    The search alone stops when it is sure. A whole campaign is what `bisect run` makes: it launches the good
    end twice, compares the ends until they differ for sure, searches, and confirms. Plain bisection launches
    each version once and measures both ends first.
    """
    _refuse(trials, seed, confidence, launches)
    from benchharness.bisect.search import Limits
    from benchharness.bisect.session.rehearsal import Budget, told
    from benchharness.bisect.simulation import EQUAL, PRICED, Scene, Tails, campaign, plain, summary
    from benchharness.report import console, simulate_view

    parts = None if noise is None else _noise(results, noise, metric)
    scene = Scene(
        versions=versions,
        effect=_deviations(effect, parts),
        rho=rho if rho is not None else (parts.share if parts else 0.5),
        prices=EQUAL if cost == "equal" else PRICED,
        known=known,
        tails=Tails(tails),
        lag=lag if lag is not None else (parts.correlation if parts else 0.0),
        drift=drift,
        unusable=unbuildable,
        deviation=_spread(spread, parts, tails),
    )
    runs = [partial(campaign, scene, confidence, limits=Limits(launches=launches))]
    if not search_only:
        runs.append(partial(told, scene, confidence, budget=Budget(launches)))
    runs += [partial(plain, scene, repeats) for repeats in _PLAIN_REPEATS]
    done = list(_watched(_made(runs, trials, seed), trials * len(runs), trials))
    ours, *others = (summary(done[at : at + trials]) for at in range(0, len(done), trials))
    whole = None if search_only else others.pop(0)
    rivals = dict(zip(_PLAIN_REPEATS, others, strict=True))
    simulate_view.show(console.people(as_json), scene, confidence, ours, rivals, whole)
    if as_json:
        print_json(simulate_view.document(scene, confidence, ours, rivals, whole))


Run = Callable[[Sequence[int]], "Outcome"]


def _made(runs: Sequence[Run], trials: int, seed: int) -> Iterator[Outcome]:
    """As many campaigns of each kind, one kind after the other, on all cores that this process may use.

    Each campaign has a seed of its own, so the figures do not depend on how many cores there are.
    """
    seeds = [(seed, trial) for trial in range(trials)]
    workers = min(len(os.sched_getaffinity(0)), trials)
    if trials <= _FEW or workers < 2:
        for run in runs:
            yield from map(run, seeds)
        return
    with ProcessPoolExecutor(workers) as pool:
        for run in runs:
            yield from pool.map(run, seeds, chunksize=max(1, min(10, trials // (2 * workers))))


def _refuse(trials: int, seed: int, confidence: float, launches: int) -> None:
    if trials < 1:
        raise UsageError(f"{trials} trials show nothing", "give --trials 1 or more")
    if seed < 0:
        raise UsageError(f"a seed of {seed} can't be used", "give --seed 0 or more")
    if not 0 < confidence < 1:
        raise UsageError(
            f"a confidence of {confidence:g} can't be reached", "give --confidence between 0 and 1"
        )
    if launches < 2:
        raise UsageError(f"{launches} launches can't even measure both ends", "give --launches 2 or more")


def _deviations(text: str, noise: Components | None) -> float:
    """The effect in deviations of one measurement."""
    percent = text.strip().endswith("%")
    try:
        size = float(text.strip().removesuffix("%"))
    except ValueError:
        raise UsageError(
            f"an effect of {text!r} is no number", "give 2, or 5% together with --noise"
        ) from None
    if not percent:
        return size
    if noise is None:
        raise UsageError(
            f"an effect of {text} needs the noise of a machine", "name a stored run with --noise"
        )
    if size < 0:
        raise UsageError(f"an effect of {text} is no size", "give 0 or more")
    total = math.sqrt(noise.between + noise.within)
    if total <= 0:
        raise UsageError("that run has no noise at all", "give --effect in deviations")
    return math.log1p(size / 100) / total


def _noise(results: Path, run: str, name: str) -> Components:
    """Where the spread of a stored run lies, at its first context."""
    from benchharness import metrics
    from benchharness.cli.stack_name import Side
    from benchharness.stats import twolevel

    side = Side.of(results, run)
    rows = side.requests(metrics.named(name)).dropna(subset="value")
    rows = rows[(rows["value"] > 0) & (rows["context_tokens"] == rows["context_tokens"].min())]
    found = twolevel.components([group.to_numpy() for _, group in rows.groupby("launch")["value"]])
    if found is None or math.isnan(found.share):
        raise UsageError(
            f"{side.name} can't tell how {name} spreads",
            "name a run of two launches or more, with two requests each",
        )
    return found


def _watched(outcomes: Iterable[Outcome], total: int, trials: int) -> Iterator[Outcome]:
    """Progress, where somebody watches."""
    from rich.progress import track

    from benchharness.report import console as consoles

    console = consoles.progress()
    if console.is_terminal:
        yield from track(outcomes, "simulating campaigns", total=total, console=console, transient=True)
        return
    console.print(f"simulating {trials} campaigns")
    yield from outcomes


def _spread(percent: float | None, noise: Components | None, tails: str) -> float:
    """Deviation of one measurement, in logs."""
    if percent is not None:
        if not (math.isfinite(percent) and percent > 0):
            raise UsageError(f"a spread of {percent:g} % is no deviation", "give --spread more than 0")
        return math.log1p(percent / 100)
    known = math.sqrt(noise.between + noise.within) if noise is not None else 0.0
    return known or (_MODES_DEVIATION if tails == "modes" else 2.0) / 100
