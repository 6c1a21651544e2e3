"""What a campaign measured, step by step; of commits in the form of `git bisect log`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.observed import plain
from benchharness.bisect.session.standing import Standing
from benchharness.bisect.session.state import Place
from benchharness.metrics import METRICS
from benchharness.report.console import number


def lines(standing: Standing) -> list[str]:
    """The log for people and, of commits, for `git bisect replay`."""
    comments = [f"# {line}" for line in _steps(standing)]
    hunt = standing.main
    leg = standing.state.legs[standing.hunts.index(hunt)]
    if not isinstance(hunt, AxisHunt) or leg.axis != "commit":
        return [f"# {standing.state.question.title}", *comments]
    good, bad = (str(place.settings.get("source.commit")) for place in (hunt.good, hunt.bad))
    return [
        f"# {standing.state.question.title}",
        f"git bisect start '{bad}' '{good}'",
        *comments,
        *_answers(hunt, standing.state.question.confidence),
    ]


def _answers(hunt: AxisHunt, confidence: float) -> list[str]:
    """Which commits are good and which bad, where that is sure."""
    found = [f"git bisect skip {_sha(place)}" for place in hunt.places if place.label in hunt.unusable]
    if not isinstance(hunt.ends(), Difference) or len(hunt.places) < 3:
        return found
    chance_bad = hunt.probability().cumsum()
    measured = {one.stack for one in hunt.observed if one.value is not None}
    for index, place in enumerate(hunt.places[1:-1]):
        if place.stack in measured and place.label not in hunt.unusable:
            if chance_bad[index] >= confidence:
                found.append(f"git bisect bad {_sha(place)}")
            elif chance_bad[index] <= 1 - confidence:
                found.append(f"git bisect good {_sha(place)}")
    return found


def _sha(place: Place) -> str:
    return str(place.settings.get("source.commit", place.label))


def documents(standing: Standing) -> Sequence[dict[str, Any]]:
    """The same for programs."""
    seen = {one.step: one for one in standing.seen}
    rows = []
    for index, step in enumerate(standing.state.steps):
        one = seen.get(index)
        value = None if one is None or one.value is None else plain(standing.state.question.metric, one.value)
        rows.append(
            {
                "at": step.at,
                "role": str(step.role),
                "place": step.place,
                "block": step.block,
                "launch": step.launch,
                "value": value,
                "unknown": "" if one is None else one.unknown,
                "seconds": step.seconds,
                "reason": step.reason,
            }
        )
    return rows


def _steps(standing: Standing) -> list[str]:
    metric = standing.state.question.metric
    decimals = METRICS[metric].decimals if metric in METRICS else 2
    told = []
    for row in documents(standing):
        value = number(row["value"], decimals) if row["value"] is not None else row["unknown"] or "under way"
        where = "by hand" if row["launch"] is None else f"launch {row['launch']}"
        told.append(f"{row['at']} {where}, {row['role']}: {row['place']}: {value} ({row['reason']})")
    return told
