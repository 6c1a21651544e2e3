"""Stacks over time: how each series went, and what each change of level falls together with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape

from benchharness.metrics import Direction
from benchharness.report import compare_view
from benchharness.report.compare_view import Apart
from benchharness.report.console import number, percent, sentence
from benchharness.stats.changepoint import Change
from benchharness.store.history import Histories, Point, Series

MOST_MARKS = 60
_MARKS, _PLAIN_MARKS = "▁▂▃▄▅▆▇█", "_.-~=*#@"
_STYLES = {"regressed": "red", "improved": "green"}


@dataclass(frozen=True)
class Told:
    """A change of a series, with what it falls together with.

    Attributes:
        change: where, and how much.
        verdict: `regressed`, `improved`, `changed` (a metric without a better way) or `small`.
        before, after: the last run surely before it and the first surely after it.
        apart: what sets these two runs apart.
        commands: that would find the culprit; empty where nothing declared or attested moved in order.
    """

    change: Change
    verdict: str
    before: Point
    after: Point
    apart: Apart
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judged:
    """A series and its changes.

    Attributes:
        series: the values.
        changes: oldest first.
        correlation: of neighbouring runs, where it is large enough to be told; else None.
    """

    series: Series
    changes: tuple[Told, ...]
    correlation: float | None = None


def verdict(series: Series, change: Change, margin: float) -> str:
    """What to call a change; `small` where even its interval lies within the margin."""
    reach = float(np.log1p(margin))
    if -reach < change.low and change.high < reach:
        return "small"
    if series.metric.direction == Direction.NEITHER:
        return "changed"
    better = (change.mean > 0) == (series.metric.direction == Direction.HIGHER)
    return "improved" if better else "regressed"


def show(console: Console, judged: Sequence[Judged], histories: Histories, fewest: int) -> None:
    """Print the series with changes first, then the others, then what was left out."""
    long = [one for one in judged if len(one.series.points) >= fewest]
    for one in sorted(long, key=lambda one: not one.changes):
        _show_series(console, one)
    short = len(judged) - len(long)
    if short:
        some = f"{short} series have" if short > 1 else "1 series has"
        console.print(f"{some} fewer than {fewest} runs: too few to tell a change.")
    machines = sorted({one.series.hardware for one in judged})
    if len(machines) > 1:
        console.print(f"Runs of {len(machines)} machines; each machine is a series of its own.")
    if histories.older:
        console.print(f"{histories.older} older values were not looked at; see --last.")
    for text in histories.skipped:
        sentence(console, f"[yellow]note[/yellow] {escape(text)}")
    if not judged:
        console.print("No stored run fits.")


def _show_series(console: Console, judged: Judged) -> None:
    series, points = judged.series, judged.series.points
    first, last = points[0].run.created_at[:10], points[-1].run.created_at[:10]
    name = f"{series.experiment}  {series.stack}  context {series.context_tokens}  {series.metric.name}"
    made = " [yellow](synthetic: a stand-in engine)[/yellow]" if series.synthetic else ""
    sentence(console, f"[bold]{escape(name)}[/bold]{made}")
    runs = f"{len(points)} runs, {first} to {last}" if first != last else f"{len(points)} runs on {first}"
    sentence(console, f"  {runs}; {escape(series.hardware)}")
    values = [point.value for point in points]
    low, high = (number(value, series.metric.decimals) for value in (min(values), max(values)))
    cuts = [told.change.at for told in judged.changes]
    sentence(console, f"  {sparkline(values, cuts, _marks(console))}  {low} .. {high} {series.metric.unit}")
    if judged.correlation is not None:
        text = f"neighbouring runs are alike (correlation {judged.correlation:.1f}): a drift of the machine"
        sentence(console, f"  [yellow]note[/yellow] {text} can pass for a change here")
    for told in judged.changes:
        _show_change(console, series, told)
    if not judged.changes:
        console.print("  no change of level")


def _show_change(console: Console, series: Series, told: Told) -> None:
    change = told.change
    points = series.points
    size = percent(float(np.expm1(change.mean)))
    interval = f"{percent(float(np.expm1(change.low)))} .. {percent(float(np.expm1(change.high)))}"
    style = _STYLES.get(told.verdict, "yellow")
    here = f"between {points[change.at - 1].run.run} and {points[change.at].run.run}"
    sentence(console, f"  [{style}]{told.verdict}[/{style}] {size} ({interval}) {here}")
    if (change.before, change.after) != (change.at - 1, change.at):
        sentence(console, f"    surely between {told.before.run.run} and {told.after.run.run}")
    rows = {"attested": told.apart.attested, "declared": told.apart.declared}
    rows |= {"measured": told.apart.conditions, "the ruler changed": told.apart.ruler}
    for word, differing in rows.items():
        if differing:
            compare_view.show_apart(console, f"    {word}", differing)
    if not any(rows.values()):
        console.print("    nothing that was declared or attested differs between these two runs")
    for command in told.commands:
        sentence(console, f"    find it: {escape(command)}")


def _marks(console: Console) -> str:
    return _MARKS if console.encoding.lower().startswith("utf") else _PLAIN_MARKS


def sparkline(values: Sequence[float], cuts: Sequence[int], marks: str = _MARKS) -> str:
    """A mark a value, low to high, with `|` where the level changes; many values are taken together."""
    low, high = min(values), max(values)
    width = (high - low) or 1.0
    each = -(-len(values) // MOST_MARKS)
    text = ""
    edges = [0, *cuts, len(values)]
    for first, last in pairwise(edges):
        parts = [values[at : min(at + each, last)] for at in range(first, last, each)]
        levels = [(float(np.mean(part)) - low) / width for part in parts]
        text += ("|" if first else "") + "".join(marks[round(x * (len(marks) - 1))] for x in levels)
    return text


def document(judged: Sequence[Judged], histories: Histories) -> dict[str, Any]:
    """The same for programs; changes are fractions of the level before."""
    return {
        "series": [
            {
                "experiment": one.series.experiment,
                "stack": one.series.stack,
                "context_tokens": one.series.context_tokens,
                "metric": one.series.metric.name,
                "unit": one.series.metric.unit,
                "machine": one.series.hardware,
                "synthetic": one.series.synthetic,
                "correlation": one.correlation,
                "runs": [_point(point) for point in one.series.points],
                "changes": [_change(one.series, told) for told in one.changes],
            }
            for one in judged
        ],
        "skipped": list(histories.skipped),
        "older": histories.older,
    }


def _point(point: Point) -> dict[str, Any]:
    moving = dict(point.member.moving)
    made = {"run": point.run.run, "path": point.run.folder, "created_at": point.run.created_at}
    return {**made, "value": point.value, "launches": point.launches, "moving": moving}


def _change(series: Series, told: Told) -> dict[str, Any]:
    change, points = told.change, series.points
    size = {name: float(np.expm1(getattr(change, part))) for name, part in _PARTS.items()}
    return {
        "verdict": told.verdict,
        **size,
        "p": change.p,
        "last_before": points[change.at - 1].run.run,
        "first_after": points[change.at].run.run,
        "surely_before": told.before.run.run,
        "surely_after": told.after.run.run,
        "attested": {path: list(both) for path, both in told.apart.attested.items()},
        "declared": {path: list(both) for path, both in told.apart.declared.items()},
        "conditions": {path: list(both) for path, both in told.apart.conditions.items()},
        "ruler": {path: list(both) for path, both in told.apart.ruler.items()},
        "bisect": list(told.commands),
    }


_PARTS = {"change": "mean", "low": "low", "high": "high"}
