"""`benchharness bisect run`: a question, answered."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchharness.cli.options import (
    cache_folder,
    cache_option,
    json_option,
    results_option,
    set_option,
)

if TYPE_CHECKING:
    from benchharness.bisect.session.question import Question
    from benchharness.bisect.session.state import Leg
    from benchharness.spec import Experiment

METRIC = "cycle_ms"


@click.command(
    "run",
    epilog="""\b
Examples:
  benchharness bisect run hunt.yaml --axis commit --good v0.5.9 --bad main --metric verify_ms
  benchharness bisect run hunt.yaml --axis sgl-kernel --good 0.3.12 --bad 0.3.20
  benchharness bisect run hunt.yaml --factors --good before --bad after
  benchharness bisect run hunt.yaml --factors --good before --bad after --every --resume
""",
)
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option(
    "--axis",
    help="What varies: `commit` (of source.repo), `release` (of the engine), a package, or a path under the "
    "experiment's `axes:`. PACKAGE:NEWNAME runs through a rename.",
)
@click.option("--factors", is_flag=True, help="Find which differences of two stacks it is, then their axis.")
@click.option(
    "--good", required=True, help="The good end: a revision, a version, a value; with --factors a stack."
)
@click.option("--bad", required=True, help="The bad end.")
@click.option("--stack", help="The stack that the axis goes through, where the experiment has several.")
@click.option(
    "--metric",
    default=METRIC,
    show_default=True,
    help="What changed (see docs/glossary.md), or `failed`: the launch doesn't start, or dies.",
)
@click.option("--context", "contexts", type=int, multiple=True, help="Judge this length. May be repeated.")
@click.option("--confidence", type=click.FloatRange(0.5, 0.9999), default=0.95, show_default=True)
@click.option("--most-launches", type=click.IntRange(4), default=150, show_default=True, help="Budget.")
@click.option("--most-hours", type=click.FloatRange(0, min_open=True), help="Budget of wall time.")
@click.option(
    "--repeats", type=click.IntRange(1), default=1, show_default=True, help="Trials a launch, first."
)
@click.option("--path", "paths", multiple=True, help="Only commits that touch it. May be repeated.")
@click.option("--merges", is_flag=True, help="Where a merge is the culprit, go on into what it merged.")
@click.option("--prereleases", is_flag=True, help="Take release candidates and development versions too.")
@click.option("--yanked", is_flag=True, help="Take withdrawn releases too.")
@click.option(
    "--every", is_flag=True, help="Go on after the first culprit, until nothing is left unexplained."
)
@click.option("--estimate", is_flag=True, help="Tell what the campaign would take, and launch nothing.")
@click.option("--resume", is_flag=True, help="Go on with the last campaign that asked the same.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the page here.")
@set_option
@results_option
@cache_option
@json_option
def command(
    experiment: Path,
    axis: str | None,
    factors: bool,
    good: str,
    bad: str,
    stack: str | None,
    metric: str,
    contexts: tuple[int, ...],
    confidence: float,
    most_launches: int,
    most_hours: float | None,
    repeats: int,
    paths: tuple[str, ...],
    merges: bool,
    prereleases: bool,
    yanked: bool,
    every: bool,
    estimate: bool,
    resume: bool,
    output: Path | None,
    sets: tuple[str, ...],
    results: Path,
    cache: Path | None,
    as_json: bool,
) -> None:
    """Find what changed a metric between GOOD and BAD.

    Which end is newer never decides which is better: a hunt for what made things faster is as good. Points
    that can't be built or measured are routed around. Ends 0 with a culprit (with --every: with all of
    them), 3 with a range only or ends that do not differ, 5 if an end can't be launched.
    """
    from benchharness import spec
    from benchharness.bisect.session import observed
    from benchharness.bisect.session.question import Question
    from benchharness.errors import UsageError

    if factors == (axis is not None):
        raise UsageError("give either --axis or --factors", "see `benchharness bisect run --help`")
    observed.named(metric)
    declared = spec.load(experiment, sets)
    _refuse_idle_options(declared, axis, metric, paths, most_hours)
    question = Question(
        experiment=declared.name,
        kind="factors" if factors else "axis",
        axis=axis or "",
        good=good,
        bad=bad,
        stack="" if factors else stack_of(declared, stack),
        metric=metric,
        contexts=contexts_of(declared, contexts),
        confidence=confidence,
        most_launches=most_launches,
        most_hours=most_hours,
        repeats=repeats,
        seed=declared.measure.seed,
        paths=paths,
        merges=merges,
        prereleases=prereleases,
        yanked=yanked,
        every=every,
    )
    if estimate:
        _estimate(declared, question, results, resume=resume, output=output, as_json=as_json)
        return
    _answer(declared, question, results, cache_folder(cache), resume=resume, output=output, as_json=as_json)


def _refuse_idle_options(
    declared: Experiment, axis: str | None, metric: str, paths: tuple[str, ...], most_hours: float | None
) -> None:
    """Refuse what would do nothing; UsageError."""
    from benchharness.errors import UsageError

    if most_hours is not None and not math.isfinite(most_hours):
        raise UsageError(f"--most-hours {most_hours} is no budget", "give hours, or leave it out")
    if paths and axis != "commit":
        raise UsageError("--path belongs to --axis commit", "leave it out")
    if metric.startswith("script_") and not declared.measure.script:
        raise UsageError(
            f"{metric} needs a program to run", "name it under `measure:`, as script: [python3, x.py]"
        )


def stack_of(declared: Experiment, given: str | None) -> str:
    """The stack that an axis goes through; UsageError where it isn't named or unknown."""
    from benchharness.errors import UsageError, nearest

    names = [stack.name for stack in declared.stacks]
    if given is None and len(names) == 1:
        return names[0]
    if given is None:
        raise UsageError(
            f"the experiment has {len(names)} stacks", f"name the one of the axis, as --stack {names[0]}"
        )
    if given not in names:
        raise UsageError(f"the experiment has no stack {given!r}{nearest(given, names)}")
    return given


def contexts_of(declared: Experiment, given: tuple[int, ...]) -> tuple[int, ...]:
    """The lengths that are judged: all of the experiment's, if none are given."""
    from benchharness.errors import UsageError

    known = [workload.context_tokens for workload in declared.workloads]
    for context in given:
        if context not in known:
            raise UsageError(
                f"the experiment has no context {context}", f"it has {', '.join(map(str, known))}"
            )
    return tuple(dict.fromkeys(given)) or tuple(known)


def _leg(declared: Experiment, question: Question) -> Leg:
    """The first leg of a new campaign."""
    from benchharness.bisect.session import axes, factoring
    from benchharness.bisect.session.state import Leg
    from benchharness.cli.bisect_open import choice_of

    stacks = {stack.name: stack for stack in declared.stacks}
    if question.kind == "factors":
        return factoring.first_leg(stacks, question)
    base = stacks[question.stack]
    laid = axes.lay_out(question.axis, question.good, question.bad, base, choice_of(declared, question))
    return Leg("axis", laid.name, base.name, laid.places, notes=laid.notes)


def _estimate(
    declared: Experiment,
    question: Question,
    results: Path,
    *,
    resume: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """What the campaign would take; UsageError with what belongs to one that is made."""
    from benchharness.cli import bisect_estimate, bisect_open
    from benchharness.errors import UsageError

    if resume:
        raise UsageError(
            "--estimate begins nothing", "see `benchharness bisect status` for one that was begun"
        )
    if output is not None:
        raise UsageError("--estimate finds nothing that a page could tell", "leave -o out")
    legs = bisect_open.legs_of(declared, question, results)
    bisect_estimate.tell(declared, question, _leg(declared, question), legs, results, as_json=as_json)


def _answer(
    declared: Experiment,
    question: Question,
    results: Path,
    cache: Path,
    *,
    resume: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    from benchharness.bisect.session.campaign import Campaign
    from benchharness.cli import bisect_carry, bisect_open, run_start
    from benchharness.report import console

    legs = bisect_open.legs_of(declared, question, results)
    if resume:
        folder, state = bisect_open.resumed(declared, question, results)
        lines = console.progress()
        campaign = Campaign(folder, state, legs, cache, lambda text: lines.print(text, markup=False))
        every = question.every or state.question.every
        # The budget may have grown, and all culprits may be wanted now.
        campaign.write(replace(state, question=replace(question, every=every)))
    else:
        campaign = bisect_open.begin(declared, question, _leg(declared, question), legs, results, cache)
    with campaign.folder, run_start.resumable():
        ended = bisect_carry.to_the_end(campaign)
        campaign.end()
        sys.exit(bisect_carry.tell(campaign.standing(), ended, output, as_json=as_json))
