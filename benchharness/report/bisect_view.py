"""A bisection campaign, for people and programs: where it stands, and what it found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from benchharness.bisect.session import observed
from benchharness.bisect.session.axis_hunt import AxisHunt
from benchharness.bisect.session.deciding import Ended, Outcome, Wanted
from benchharness.bisect.session.difference import Difference
from benchharness.bisect.session.effects import Effect
from benchharness.bisect.session.factor_hunt import FactorHunt
from benchharness.bisect.session.legs import Hunt
from benchharness.bisect.session.observed import Observed
from benchharness.bisect.session.standing import Standing
from benchharness.bisect.session.state import Leg
from benchharness.bisect.session.swap_hunt import SwapHunt
from benchharness.bisect.session.verdict import Verdict
from benchharness.metrics import METRICS
from benchharness.report import bisect_culprits
from benchharness.report.bisect_culprits import sure
from benchharness.report.console import duration, number, percent, sentence, table

BAR = 24
MOST_POINTS = 40
"""Points of an axis that are all shown; of longer axes those that were measured or are likely."""

LIKELY = 0.005


def show_status(console: Console, standing: Standing, coming: Wanted | Ended) -> None:
    """Print each leg, what was tried, what it cost, what is next and why."""
    question = standing.state.question
    sentence(console, f"[bold]{escape(standing.state.id)}[/bold]: {escape(question.title)}")
    for leg, hunt in zip(standing.state.legs, standing.hunts, strict=True):
        _show_leg(console, question.metric, leg, hunt)
    sentence(console, f"{standing.launches} launches so far, {duration(standing.hours * 3600)}")
    if isinstance(coming, Ended):
        sentence(console, f"over: {coming.outcome}: {escape(coming.reason)}")
    else:
        places = ", ".join(place.label for place in coming.places)
        sentence(console, f"next ({coming.role}): {escape(places)}: {escape(coming.reason)}")


def _show_leg(console: Console, metric: str, leg: Leg, hunt: Hunt) -> None:
    for note in leg.notes:
        sentence(console, f"[dim]{escape(note)}[/dim]")
    if isinstance(hunt, AxisHunt):
        _show_axis(console, metric, leg, hunt)
    elif isinstance(hunt, FactorHunt):
        _show_factors(console, metric, leg, hunt)
    else:
        _show_swaps(console, hunt)


def _show_axis(console: Console, metric: str, leg: Leg, hunt: AxisHunt) -> None:
    """The posterior plot: how likely each point is the first bad one."""
    searched = isinstance(hunt.ends(), Difference)
    chances = [0.0] * len(hunt.places)
    if searched and len(hunt.places) > 2:
        chances[1:] = map(float, hunt.probability())
    lines = table(f"{leg.axis}: {len(hunt.places)} points, good end first")
    lines.add_column("point", no_wrap=True)
    lines.add_column("", overflow="fold")
    lines.add_column(metric, justify="right")
    lines.add_column("n", justify="right")
    lines.add_column("first bad one")
    gone = hunt.unusable
    hidden = 0
    for index, place in enumerate(hunt.places):
        mine = [one for one in hunt.observed if one.stack == place.stack]
        told = index in (0, len(hunt.places) - 1) or mine or chances[index] >= LIKELY
        if len(hunt.places) > MOST_POINTS and not told:
            hidden += 1
            continue
        words = f"[red]{escape(gone[place.label])}[/red]" if place.label in gone else _bar(chances[index])
        lines.add_row(escape(place.label), escape(place.text[:40]), *_measured(metric, mine), words)
    console.print(lines)
    if hidden:
        sentence(console, f"[dim]{hidden} points that are neither measured nor likely are not shown[/dim]")


def _show_factors(console: Console, metric: str, leg: Leg, hunt: FactorHunt) -> None:
    ends = hunt.ends()
    held = f", {len(leg.held)} as in the good one" if leg.held else ""
    lines = table(f"{hunt.count} differences of the two stacks{held}")
    lines.add_column("difference", overflow="fold")
    lines.add_column("belongs to the culprit")
    marginal = hunt.marginal(ends) if isinstance(ends, Difference) else [0.0] * hunt.count
    for name, chance in zip(hunt.names, marginal, strict=True):
        lines.add_row(escape(name), _bar(float(chance)))
    console.print(lines)
    tried = table("")
    for heading in ("combination", metric, "n"):
        tried.add_column(heading, overflow="fold", justify="left" if heading == "combination" else "right")
    for place in leg.places:
        mine = [one for one in hunt.observed if one.stack == place.stack]
        why = hunt.unusable.get(place.label)
        tried.add_row(escape(place.label + (f" ({why})" if why else "")), *_measured(metric, mine))
    console.print(tried)


def _show_swaps(console: Console, hunt: SwapHunt) -> None:
    for name, without, with_ in hunt.pairs:
        found = hunt.difference(without, with_)
        told = "not measured yet" if found is None else percent(math.expm1(found.mean))
        sentence(console, f"{name}: {escape(without.label)} against {escape(with_.label)}: {told}")


def _measured(metric: str, mine: Sequence[Observed]) -> tuple[str, str]:
    values = [one.value for one in mine if one.value is not None]
    if not values:
        return "-", str(len(mine) or "")
    decimals = METRICS[metric].decimals if metric in METRICS else 2
    return number(observed.plain(metric, sum(values) / len(values)), decimals), str(len(values))


def _bar(chance: float) -> str:
    if chance < LIKELY:
        return ""
    return f"[cyan]{'█' * max(1, round(BAR * chance))}[/cyan] {chance:.1%}"


def show_verdict(console: Console, found: Verdict) -> None:
    """Print the answer, its size, its phase, and what it was not."""
    sentence(console, headline(found))
    for line in facts(found):
        sentence(console, escape(line))
    _show_effects(console, found.effects)
    for one in found.eliminated:
        sentence(console, f"not {escape(one.what)}: {escape(one.evidence)}")
    for label, why in found.unusable.items():
        sentence(console, f"[yellow]not measured[/yellow] {escape(label)}: {escape(why)}")
    for note in found.notes:
        sentence(console, f"[dim]{escape(note)}[/dim]")


def _show_effects(console: Console, effects: Sequence[Effect]) -> None:
    if not effects:
        return
    lines = table("Last good against first bad, by all their launches (* is sure)")
    for heading in ("context", "metric", "last good", "first bad", "change", "interval", "n"):
        lines.add_column(heading, justify="left" if heading == "metric" else "right")
    for one in effects:
        decimals = METRICS[one.metric].decimals
        star = "*" if one.sure else " "
        lines.add_row(
            str(one.context_tokens),
            one.metric,
            number(one.before, decimals),
            number(one.after, decimals),
            f"{percent(one.change)}{star}",
            f"{percent(one.low)} .. {percent(one.high)}",
            str(one.launches),
        )
    console.print(lines)


def headline(found: Verdict) -> str:
    """The answer in one line, with markup."""
    verb = "improved" if found.better else "changed"
    if found.culprit is not None:
        phase = f" ({escape(found.phase)})" if found.phase else ""
        size = f" by {percent(found.change)} [{percent(found.low)}, {percent(found.high)}]"
        return (
            f"[bold]{escape(found.culprit)}[/bold] {verb} {found.metric}{size}{phase}, "
            f"with {sure(found.confidence)} confidence"
        )
    if found.outcome in (Outcome.ALIKE, Outcome.UNTOLD, Outcome.UNUSABLE):
        return f"[yellow]nothing to find[/yellow]: {escape(found.reason)}"
    if not found.confidence:
        words = "[yellow]nothing is told yet[/yellow]: the ends did not yet show to differ"
        return f"{words}, and {escape(found.reason)}"
    first, last = (escape(label) for label in found.range_)
    return (
        f"[yellow]a range only[/yellow]: the change lies after {first} and up to {last} "
        f"({found.confidence:.1%}): {escape(found.reason)}"
    )


def facts(found: Verdict) -> list[str]:
    """What else is to be said, a line each."""
    told = []
    if found.culprit is not None and any(found.texts):
        told.append(f"last good: {found.range_[0][:12]} {found.texts[0]}".rstrip())
        told.append(f"first bad: {found.range_[1][:12]} {found.texts[1]}".rstrip())
    if found.better:
        told.append("the end that was called bad is the better one: what was found is what made it faster")
    if found.contexts:
        told.append(f"seen at context {', '.join(map(str, found.contexts))}")
    told += [
        f"{one.direction}: {one.before} -> {one.after}: {percent(one.change)} "
        f"[{percent(one.low)}, {percent(one.high)}]{'' if one.proven else ', not sure'}"
        for one in found.swaps
    ]
    told += bisect_culprits.lines(found)
    told += found.warnings
    told.append(f"{found.launches} launches, {duration(found.hours * 3600)}")
    return told


def document(standing: Standing, found: Verdict) -> dict[str, Any]:
    """The answer for programs."""
    question = standing.state.question
    return {
        "campaign": standing.state.id,
        "path": str(standing.path),
        "question": {
            "kind": question.kind,
            "axis": question.axis,
            "good": question.good,
            "bad": question.bad,
            "metric": question.metric,
            "confidence": question.confidence,
        },
        "outcome": str(found.outcome),
        "reason": found.reason,
        "culprit": found.culprit,
        "range": list(found.range_),
        "confidence": found.confidence,
        "phase": found.phase or None,
        "change": found.change,
        "low": found.low,
        "high": found.high,
        "improved": found.better,
        "contexts": list(found.contexts),
        "launches": found.launches,
        "hours": found.hours,
        "eliminated": [{"what": one.what, "evidence": one.evidence} for one in found.eliminated],
        "swaps": [
            {
                "direction": one.direction,
                "before": one.before,
                "after": one.after,
                "change": one.change,
                "low": one.low,
                "high": one.high,
                "proven": one.proven,
            }
            for one in found.swaps
        ],
        "culprits": bisect_culprits.documents(found),
        "rest": bisect_culprits.rest_document(found),
        "every": found.every,
        "unusable": found.unusable,
        "warnings": list(found.warnings),
        "notes": list(found.notes),
    }


def status_document(standing: Standing, coming: Wanted | Ended) -> dict[str, Any]:
    """Where a campaign stands, for programs."""
    return {
        "campaign": standing.state.id,
        "path": str(standing.path),
        "launches": standing.launches,
        "hours": standing.hours,
        "legs": [
            {
                "kind": leg.kind,
                "axis": leg.axis,
                "factors": list(hunt.names) if isinstance(hunt, FactorHunt) else list(leg.factors),
                "part": leg.part is not None or bool(leg.held),
                "places": [place.label for place in leg.places],
                "probability": _probability(hunt),
                "unusable": {} if isinstance(hunt, SwapHunt) else hunt.unusable,
            }
            for leg, hunt in zip(standing.state.legs, standing.hunts, strict=True)
        ],
        "next": None if isinstance(coming, Ended) else [place.label for place in coming.places],
        "outcome": str(coming.outcome) if isinstance(coming, Ended) else None,
        "reason": coming.reason,
    }


def _probability(hunt: Hunt) -> list[float] | None:
    """Of each point to be the first bad one; of each factor to belong to the culprit; None before that."""
    ends = None if isinstance(hunt, SwapHunt) else hunt.ends()
    if not isinstance(ends, Difference):
        return None
    if isinstance(hunt, AxisHunt):
        return [0.0, *map(float, hunt.probability())] if len(hunt.places) > 2 else None
    return [float(one) for one in hunt.marginal(ends)] if isinstance(hunt, FactorHunt) else None


def exit_status(found: Verdict) -> int:
    """0 with a culprit (with all, where all were asked for), 5 where an end can't be launched, else 3."""
    if found.complete:
        return 0
    return 5 if found.outcome is Outcome.UNUSABLE else 3
