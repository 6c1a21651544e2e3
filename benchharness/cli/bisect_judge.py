"""One commit, judged good or bad: what `git bisect run` asks of its script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchharness.bisect.session import axes
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.campaign import Campaign
from benchharness.bisect.session.deciding import Ended, Wanted
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.question import COMMIT, Question
from benchharness.bisect.session.state import Leg
from benchharness.cli import bisect_open, bisect_run
from benchharness.cli.bisect_step import ABORT, BAD, GOOD, SKIP
from benchharness.errors import HarnessError, UsageError
from benchharness.report import campaign_progress, console
from benchharness.spec import load


@dataclass(frozen=True)
class Asked:
    """What `git bisect run` wants to know.

    Attributes:
        experiment, sets: the experiment file, and `--set` arguments.
        commit, good, bad: revisions: the one to judge, and the ends.
        stack: the experiment's, None where it has one only.
        metric, confidence: what is judged, and how sure.
        results, cache: folders.
    """

    experiment: Path
    sets: Sequence[str]
    commit: str
    good: str
    bad: str
    stack: str | None
    metric: str
    confidence: float
    results: Path
    cache: Path


def judged(asked: Asked) -> int:
    """The status for `git bisect run`; whatever goes wrong aborts it, since any other status is an answer."""
    lines = console.progress()
    try:
        campaign, leg = _campaign(asked)
        with campaign.folder:
            status, words = _decide(campaign, leg)
    except HarnessError as error:
        lines.print(f"benchharness: error: {error}", markup=False, soft_wrap=True)
        return ABORT
    lines.print(words, markup=False, soft_wrap=True)
    return status


def _campaign(asked: Asked) -> tuple[Campaign, Leg]:
    """The campaign of this question, begun or found again, with a leg for the commit."""
    declared = load(asked.experiment, tuple(asked.sets))
    question = Question(
        experiment=declared.name,
        kind="axis",
        axis=COMMIT,
        good=asked.good,
        bad=asked.bad,
        stack=bisect_run.stack_of(declared, asked.stack),
        metric=asked.metric,
        contexts=bisect_run.contexts_of(declared, ()),
        confidence=asked.confidence,
        most_launches=10_000,
        seed=declared.measure.seed,
    )
    base = next(one for one in declared.stacks if one.name == question.stack)
    leg = Leg("axis", COMMIT, base.name, axes.around(base, asked.good, asked.commit, asked.bad))
    legs = bisect_open.legs_of(declared, question, asked.results)
    known = bisect_open.known(declared, question, asked.results)
    lines = console.progress()
    if known is None:
        return bisect_open.begin(declared, question, leg, legs, asked.results, asked.cache), leg
    folder, state = known
    campaign = Campaign(folder, state, legs, asked.cache, lambda text: lines.print(text, markup=False))
    campaign.write(replace(state, legs=(*state.legs, leg)))
    return campaign, leg


def _decide(campaign: Campaign, leg: Leg) -> tuple[int, str]:
    """Measure until it is sure on which side the commit lies."""
    good, at, bad = leg.places[0], leg.places[1], leg.places[-1]
    if len(leg.places) == 2:  # the commit is an end
        raise UsageError(f"{at.label} is an end of the question", "judge another commit")
    with campaign_progress.watching() as progress:
        campaign.finish_begun(progress)
        while True:
            standing = campaign.standing()
            hunt = standing.hunts[-1]
            if not isinstance(hunt, AxisHunt):
                raise UsageError("the campaign is none over commits", "begin another")
            if at.label in hunt.unusable:
                return SKIP, f"{at.label} can't be measured: {hunt.unusable[at.label]}"
            if isinstance(hunt.ends(), Difference) and hunt.stop() is not None:
                break
            coming = standing.next()
            if isinstance(coming, Ended):
                return ABORT, coming.reason
            progress.block_begins(coming, standing.launches)
            campaign.measure(coming, progress)
    before, after = hunt.suspects()
    confidence = float(hunt.probability().max())
    if (before, after) == (good, at):
        return BAD, f"{at.label} is bad, at {confidence:.1%}"
    if (before, after) == (at, bad):
        return GOOD, f"{at.label} is good, at {confidence:.1%}"
    return ABORT, f"whether {at.label} is good or bad can't be told"


__all__ = ["Wanted", "judged"]
