"""What hunts have in common: what they want measured next, how they end, and whether the ends differ."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchharness.bisect.session import difference
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.observed import Observed
from benchharness.bisect.session.state import Place, Role

LOOKS = 14
"""The chance that places which do not differ are said to do is spent over so many looks. There are more, but
late ones resemble their neighbours: by simulation it comes to 4 to 5 % where 5 % are stated."""

TRENDS = ((8, 0.2), (12, 0.1), (16, 0.05), (24, 0.0))
"""After so many launches a side a question is given up, unless chance alone would make such a difference less
often: most of what is not there is given up after 8, and what is small is not lost."""

MOST_BLOCKS = TRENDS[-1][0]
"""Blocks of a confirmation, or of a swap, after which it is given up, whatever became of its launches."""

FEWEST_BLOCKS = 5
"""Blocks from which on their own differences tell how much they differ."""

ALIKE = 0.01
"""Largest difference of ends (in logs) that counts as none."""

FEWEST_REST = 4
"""Launches of either end of what is left from which on it may be called nothing."""

MOST_TRIES = 2
"""Launches of one place that may fail before the place counts as unusable."""

MOST_INVALID = 4
"""Launches of one place that may be measured in vain: a busy machine spoils one now and then."""


@dataclass(frozen=True)
class Wanted:
    """Measure these places next, one after the other, in one block.

    Attributes:
        places: a place may stand twice.
        role: what for.
        repeats: trials of each cell a launch.
        stay: more trials in the launch that still runs, instead of a new one.
        reason: why, in a sentence.
    """

    places: tuple[Place, ...]
    role: Role
    repeats: int
    reason: str
    stay: bool = False


class Outcome(StrEnum):
    """How a hunt ends."""

    FOUND = "found"
    RANGE = "range"
    ALIKE = "ends do not differ"
    UNTOLD = "ends can't be told apart"
    UNUSABLE = "an end can't be measured"
    BUDGET = "budget spent"
    UNCONFIRMED = "not confirmed"


@dataclass(frozen=True)
class Ended:
    """A hunt is over.

    Attributes:
        outcome: how.
        reason: in a sentence.
    """

    outcome: Outcome
    reason: str


def values(observed: Sequence[Observed], stack: str, role: Role | None = None) -> list[float]:
    """Values of one stack's launches, in order."""
    return [
        one.value
        for one in observed
        if one.stack == stack and one.value is not None and role in (None, one.role)
    ]


def unusable(observed: Sequence[Observed], places: Sequence[Place]) -> dict[str, str]:
    """Labels of places that can't be measured, with the reason."""
    found = {place.label: place.unusable for place in places if place.unusable}
    for place in places:
        mine = [one for one in observed if one.stack == place.stack]
        blank = [one for one in mine if one.value is None]
        measured = any(one.value is not None for one in mine)
        failed = [one for one in blank if not one.spoiled]
        given_up = len(failed) >= MOST_TRIES or len(blank) >= MOST_INVALID
        if any(one.unbuildable for one in mine) or (given_up and not measured):
            found.setdefault(place.label, blank[-1].unknown)
    return found


def check_ends(
    good: Place, bad: Place, observed: Sequence[Observed], confidence: float, repeats: int
) -> Wanted | Ended | Difference:
    """The pre-flight of the good end against itself, then good against bad in interleaved blocks.

    Returns what to measure, why the hunt ends here, or by how much the ends differ, once that is sure.
    """
    for end in (good, bad):
        why = unusable(observed, (end,)).get(end.label)
        if why:
            return Ended(Outcome.UNUSABLE, f"{end.label} can't be measured: {why}")
    ones, others = values(observed, good.stack), values(observed, bad.stack)
    if len(ones) < 2:
        again = (good,) * (2 - len(ones))
        return Wanted(again, Role.PREFLIGHT, repeats, "the good end against itself: how much launches differ")
    if others:
        found = difference.between(ones, others, 1 - confidence)
        blocks = pair(good, bad, observed, (Role.ENDS,), 1 - confidence)
        if blocks is not None and _tells_more(blocks, found, min(len(ones), len(others))):
            found = blocks
        if is_sure(found, confidence):
            return found
        if is_hopeless(found, min(len(ones), len(others))):
            return _not_told(found, len(others))
    order = (bad, good) if len(others) % 2 == 0 else (good, bad)
    return Wanted(order, Role.ENDS, repeats, "whether the ends differ at all")


def check_rest(
    good: Place, bad: Place, observed: Sequence[Observed], confidence: float, repeats: int, least: float
) -> Wanted | Ended | Difference:
    """Whether anything is left between two places that were measured before, where a culprit is known.

    What is worth a word is `least`, in logs.
    """
    for end in (good, bad):
        why = unusable(observed, (end,)).get(end.label)
        if why:
            return Ended(Outcome.UNUSABLE, f"{end.label} can't be measured: {why}")
    ones, others = values(observed, good.stack), values(observed, bad.stack)
    launches = min(len(ones), len(others))
    if launches and max(len(ones), len(others)) > 1:
        found = difference.between(ones, others, 1 - confidence)
        if is_sure(found, confidence):
            return found if abs(found.mean) >= least else _too_little(good, bad, found)
        if is_little(found, launches, least):
            return _too_little(good, bad, found)
        if is_hopeless(found, launches):
            return _not_told(found, launches)
    order = (bad, good) if launches % 2 == 0 else (good, bad)
    return Wanted(order, Role.ENDS, repeats, f"whether {good.label} and {bad.label} differ, too")


def is_little(found: Difference, launches: int, least: float) -> bool:
    """Whether to give up looking for a difference of at least so much.

    The fewer launches there are, the smaller must it seem: what is worth a word is not lost for a few, and
    that there is nothing is not proven with many.
    """
    surely = found.known and max(abs(found.low), abs(found.high)) < least
    return surely or (launches >= FEWEST_REST and abs(found.mean) < least * launches / TRENDS[0][0])


def _tells_more(blocks: Difference, whole: Difference, launches: int) -> bool:
    """Whether the blocks in which the ends stood together say more than all their launches.

    They must be most of these: what was seen later counts, whatever it says.
    """
    most = blocks.launches >= max(FEWEST_BLOCKS, 0.75 * launches)
    return most and blocks.known and blocks.p < whole.p


def is_sure(found: Difference, confidence: float) -> bool:
    """Whether two places differ, though it was asked after every block."""
    return found.decided((1 - confidence) / LOOKS)


def is_hopeless(found: Difference, launches: int) -> bool:
    """Whether places that were launched so often are not worth more launches."""
    likely = [chance for least, chance in TRENDS if launches >= least]
    return bool(likely) and not found.p < likely[-1]


def _too_little(good: Place, bad: Place, found: Difference) -> Ended:
    told = f"{found.mean:+.2%}, between {found.low:+.2%} and {found.high:+.2%} (in logs)"
    return Ended(Outcome.ALIKE, f"from {good.label} to {bad.label} too little is left to look for: {told}")


def _not_told(found: Difference, launches: int) -> Ended:
    """Ends that look alike: whether they are, or whether their launches differ too much to say."""
    spread = f"what there is lies between {found.low:+.2%} and {found.high:+.2%} (in logs)"
    if found.bimodal:
        spread += ", between launches of one mode: starts draw a slow one now and then"
    if found.low >= -ALIKE and found.high <= ALIKE:
        return Ended(Outcome.ALIKE, f"after {launches} launches a side {spread}")
    return Ended(
        Outcome.UNTOLD, f"{launches} launches a side don't tell the ends apart: {spread}; reduce the noise"
    )


def pair(
    first: Place, second: Place, observed: Sequence[Observed], roles: Collection[Role], level: float
) -> Difference | None:
    """The difference by launches of these roles; None before there are any.

    By launch, or block by block, which leaves out the host's drift: whichever tells more.
    """
    blocks: dict[int, dict[str, float]] = {}
    for one in observed:
        if one.role in roles and one.value is not None and one.stack in (first.stack, second.stack):
            blocks.setdefault(one.block, {})[one.stack] = one.value
    whole = [found for found in blocks.values() if len(found) == 2]
    if not whole:
        return None
    sides = [[found[place.stack] for found in whole] for place in (first, second)]
    found = difference.between(sides[0], sides[1], level)
    if len(whole) < FEWEST_BLOCKS:
        return found
    paired = difference.between(sides[0], sides[1], level, pairs=True)
    return paired if paired.known and paired.p < found.p else found


def blocks_of(first: Place, second: Place, observed: Sequence[Observed], roles: Collection[Role]) -> int:
    """Blocks of these roles in which both of this pair were launched, whatever came of it."""
    stacks = {first.stack, second.stack}
    by_block: dict[int, set[str]] = {}
    for one in observed:
        if one.role in roles:
            by_block.setdefault(one.block, set()).add(one.stack)
    return sum(found == stacks for found in by_block.values())


def next_pair(first: Place, second: Place, done: int, role: Role, repeats: int, reason: str) -> Wanted:
    """Another block of two places, in the order opposite to the last one's."""
    order = (first, second) if done % 2 == 0 else (second, first)
    return Wanted(order, role, repeats, reason)
