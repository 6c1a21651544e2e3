"""What several culprits of a campaign explain, each and together, for people and programs."""

from __future__ import annotations

import math
import shlex
from typing import Any

from benchharness.bisect.session.levels import LEAST
from benchharness.bisect.session.remaining import Rest
from benchharness.bisect.session.share import Share
from benchharness.bisect.session.verdict import Culprit, Verdict
from benchharness.report.console import percent

MOST_SURE = 0.999
"""Nothing is said to be surer: there is always something that no model holds."""


def lines(found: Verdict) -> list[str]:
    """Each culprit where there are several, what they explain, and where to look for the rest."""
    told = []
    if len(found.culprits) > 1:
        told += [f"{at}. {_words(one)}" for at, one in enumerate(found.culprits, 1)]
    told += [
        f"{_name(one)} is enough by itself, but the bad stack is as slow without it: "
        "something else is enough, too"
        for one in found.culprits
        if one.masked
    ]
    if found.rest is not None:
        told += _rest(found, found.rest)
    elif found.every and found.complete:
        told.append(f"nothing else is left that is {LEAST:.0%} of the difference between the ends")
    return told


def _rest(found: Verdict, rest: Rest) -> list[str]:
    one = found.culprits[0]
    if len(found.culprits) > 1:
        told = [
            f"{share(rest.share)} of the difference between the ends is not explained: it lies {rest.where}"
        ]
    elif one.share is None or one.masked:
        told = [
            f"{share(rest.share)} of the difference between the ends is left without it: it lies {rest.where}"
        ]
    else:
        told = [
            f"explains {share(one.share)} of the difference between the ends; the rest, "
            f"{share(rest.share)}, lies {rest.where}"
        ]
    if not found.every:
        told.append(f"to look for it: {shlex.join(_command(found))}")
    return told


def _words(one: Culprit) -> str:
    parts = [_name(one)]
    if not math.isnan(one.change):
        parts[0] += f": {percent(one.change)} [{percent(one.low)}, {percent(one.high)}]"
    parts[0] += f" ({one.phase})" if one.phase else ""
    parts.append(f"{sure(one.confidence)} confidence")
    if one.share is not None:
        parts.append(f"{'enough by itself for' if one.masked else 'explains'} {share(one.share)}")
    parts += ["it made it better"] if one.better else []
    return ", ".join(parts)


def _name(one: Culprit) -> str:
    return one.name or f"a point after {one.range_[0]} and up to {one.range_[1]}"


def share(one: Share) -> str:
    """A share of the difference of the ends, with its interval."""
    return f"{one.mean:.0%} [{one.low:.0%}, {one.high:.0%}]"


def sure(confidence: float) -> str:
    """How sure something is."""
    return f"{confidence:.1%}" if confidence < MOST_SURE else f"more than {MOST_SURE:.1%}"


def documents(found: Verdict) -> list[dict[str, Any]]:
    """All culprits for programs."""
    return [
        {
            "culprit": one.name,
            "range": list(one.range_),
            "confidence": one.confidence,
            "phase": one.phase or None,
            "change": one.change,
            "low": one.low,
            "high": one.high,
            "improved": one.better,
            "contexts": list(one.contexts),
            "explains": _share_document(one.share),
            "masked": one.masked,
            "reason": one.reason,
        }
        for one in found.culprits
    ]


def rest_document(found: Verdict) -> dict[str, Any] | None:
    """What they leave; None where that is nothing that is sure."""
    if found.rest is None:
        return None
    share_ = _share_document(found.rest.share) or {}
    return {**share_, "where": found.rest.where, "command": None if found.every else _command(found)}


def _command(found: Verdict) -> list[str]:
    """Arguments that go on with the campaign, to what is left."""
    return [*found.asked, "--every", "--resume"]


def _share_document(one: Share | None) -> dict[str, float] | None:
    return None if one is None else {"share": one.mean, "low": one.low, "high": one.high}
