"""A campaign on disk: `campaign.json` beside the run that holds its launches.

What was measured stands in the run alone. The state says what was asked, which places there are, which
launch was made for what, and what people said by hand; everything else is worked out of that again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from benchharness.bisect.session.question import Question
from benchharness.errors import UsageError, nearest
from benchharness.store import documents

STATE_VERSION = 1
FILE = "campaign.json"


class Role(StrEnum):
    """What a launch is made for."""

    PREFLIGHT = "pre-flight"
    ENDS = "ends"
    SEARCH = "search"
    CONFIRM = "confirmation"
    SWAP = "swap"
    HAND = "by hand"


@dataclass(frozen=True)
class Place:
    """One configuration that can be measured: a point of an axis, or a combination of factors.

    Attributes:
        label: for people, and unique within its leg.
        stack: name of its stack in the run's plan.
        settings: experiment path -> value, over the leg's base; None takes a key away.
        members: factors that it takes from the bad stack; for an axis empty, unless culprits are held.
        text: date and subject of a commit, or the like.
        unusable: why it can't be measured, known beforehand; empty where it can.
        merge: a commit that brought others along.
    """

    label: str
    stack: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    members: tuple[int, ...] = ()
    text: str = ""
    unusable: str = ""
    merge: bool = False


@dataclass(frozen=True)
class Leg:
    """One search: along an axis, over the differences of two stacks, or the swap that proves what was found.

    Attributes:
        kind: which.
        axis: as `Question.axis`; empty for factors.
        base: the experiment's stack that settings are laid over; for factors the good one.
        places: an axis's points, the good end first; for factors the good stack, the bad one, and then the
            combinations as they are tried; for a swap the two pairs.
        factors: names of the differences, in order; empty for an axis.
        notes: what was found out about it.
        attested: the factors hold what only the launches of both ends showed.
        factor: of an axis that is a culprit factor's own, which one.
        part: of a stretch of an axis that was searched before, the leg that did; None for a whole axis.
        inside: of the commits of a merge, the leg whose culprit it is; None for any other.
        held: factors that stay as in the good stack: culprits that were found before.
    """

    kind: Literal["axis", "factors", "swap"]
    axis: str
    base: str
    places: tuple[Place, ...]
    factors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    attested: bool = False
    factor: int | None = None
    part: int | None = None
    inside: int | None = None
    held: tuple[int, ...] = ()

    def place(self, label: str) -> Place:
        """The place of that label; UsageError with the nearest one if there is none."""
        for place in self.places:
            if place.label == label:
                return place
        known = [place.label for place in self.places]
        raise UsageError(f"the campaign has no place {label!r}{nearest(label, known)}", "see `bisect status`")


@dataclass(frozen=True)
class Step:
    """One measurement that was asked for.

    Attributes:
        leg: index of the leg.
        role: what for.
        place: label of the place.
        block: launches of one block stand next to each other in time.
        reason: why this one, in a sentence.
        launch: index in the run; None for a value entered by hand.
        value: entered by hand, in the metric's unit; None for a launch.
        at: when, ISO 8601.
        seconds: wall time that it took, environment included; None until it is over.
    """

    leg: int
    role: Role
    place: str
    block: int
    reason: str
    launch: int | None
    value: float | None = None
    at: str = ""
    seconds: float | None = None


@dataclass(frozen=True)
class Skipped:
    """A place that somebody took out by hand."""

    leg: int
    place: str
    reason: str


@dataclass(frozen=True)
class State:
    """All that a campaign is, but for what its run holds."""

    id: str
    question: Question
    legs: tuple[Leg, ...]
    steps: tuple[Step, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    state_version: int = STATE_VERSION

    def with_step(self, step: Step) -> State:
        """The state with one more step."""
        return replace(self, steps=(*self.steps, step))

    def ended(self, launch: int, seconds: float) -> State:
        """The state with a launch's wall time filled in."""
        steps = tuple(
            replace(one, seconds=seconds) if one.launch == launch and one.seconds is None else one
            for one in self.steps
        )
        return replace(self, steps=steps)


_ADAPTER = TypeAdapter(State)


def write(folder: Path, state: State) -> None:
    """Store the state, whole or not at all."""
    documents.write(folder / FILE, State, state)


def read(folder: Path) -> State:
    """Read it back; UsageError where it is missing, damaged, or of another version."""
    path = folder / FILE
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{folder} is no campaign: it has no {FILE}", "see `benchharness list`") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "start the campaign anew") from None
    version = document.get("state_version") if isinstance(document, dict) else None
    if version != STATE_VERSION:
        raise UsageError(
            f"{path} has state version {version!r}, and this benchharness reads {STATE_VERSION}",
            "go on with the benchharness that began it, or start the campaign anew",
        )
    try:
        return _ADAPTER.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path} is damaged: {where}: {first['msg']}", "start the campaign anew") from None
