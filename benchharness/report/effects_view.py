"""What each factor of a run does, over all its cells: main effects, and interactions with chosen factors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.markup import escape

from benchharness.errors import UsageError, nearest
from benchharness.records import Stack
from benchharness.report.console import percent, table
from benchharness.stats import fraction
from benchharness.stats.fraction import Coding, Effect, Fit
from benchharness.stats.launch_means import launch_means, plain_metrics
from benchharness.store import StoredRun

METRICS = ("cycle_ms", "step_ms", "output_tok_s")
"""What effects are told of; all are positive, so effects are ratios."""
STEP = "step_ms"
"""The target model's step: verify where a stack speculates, the cycle where it doesn't."""
UNSET = "unset"
MOST_ALIASES = 2
MOST_BESIDE = 0.2
"""Share of the cells up to which those with another level than the usual stand beside the others."""
FEWEST_AROUND = 8
"""Cells from which on there are others to stand beside."""


@dataclass(frozen=True)
class Effects:
    """The effects on one metric at one context.

    Attributes:
        metric, context_tokens: of the values.
        fit: of their logarithms.
        cells, launches: how many of each the fit stands on.
    """

    metric: str
    context_tokens: int
    fit: Fit
    cells: int
    launches: int


def factors(stacks: Sequence[Stack]) -> dict[str, dict[str, str]]:
    """What the stacks differ in: factor -> stack -> level.

    Settings that always change together are one factor, under the first one's name. Names are as short as
    they can be: the variable's, the argument's, the package's.
    """
    flat = {stack.name: dict(_settings(stack)) for stack in stacks}
    paths = dict.fromkeys(path for settings in flat.values() for path in settings)
    found: dict[str, dict[str, str]] = {}
    seen: list[tuple[int, ...]] = []
    for path in paths:
        column = {name: settings.get(path, UNSET) for name, settings in flat.items()}
        known = list(dict.fromkeys(column.values()))
        parts = tuple(known.index(level) for level in column.values())
        if len(known) > 1 and parts not in seen:
            seen.append(parts)
            short = path.partition(".")[2]
            found[path if short in found else short] = column
    return found


def _settings(stack: Stack) -> Iterator[tuple[str, str]]:
    yield "source.release", str(stack.source.release)
    yield "source.commit", str(stack.source.commit)
    yield "model.tp", str(stack.model.tp)
    for kind, values in (("packages", stack.packages), ("env", stack.env), ("args", stack.args)):
        for name, value in values.items():
            if value is not None:
                yield f"{kind}.{name}", str(value).lower() if isinstance(value, bool) else str(value)


def of_run(
    stored: StoredRun, interacting: Sequence[str] = (), within: Mapping[str, str] | None = None
) -> tuple[Effects, ...]:
    """The effects on each metric at each context.

    Args:
        stored: the run; trials that are invalid are left out, as everywhere.
        interacting: factors whose interactions with every other one are told.
        within: factor -> level: only cells with these levels count, and the factors are no longer any.

    Raises:
        UsageError: an unknown factor, or fewer than two stacks.
    """
    known = factors(stored.run.plan.stacks)
    if not known:
        raise UsageError("the run's stacks differ in nothing, so there are no effects", "add a matrix")
    held = within or {}
    for name in (*interacting, *held):
        if name not in known:
            raise UsageError(f"no factor {name!r}{nearest(name, known)}", f"choose of {', '.join(known)}")
    means = launch_means(stored.connect(), plain_metrics())
    for name, level in held.items():
        means = means[[known[name][str(stack)] == level for stack in means["stack"]]]
    known = {name: column for name, column in known.items() if name not in held}
    means[STEP] = means["verify_ms"].where(means["verify_ms"].notna(), means["cycle_ms"])
    return tuple(_effects(means, known, interacting))


def _effects(
    means: pd.DataFrame, known: Mapping[str, Mapping[str, str]], interacting: Sequence[str]
) -> Iterator[Effects]:
    for context in sorted({int(value) for value in means["context_tokens"]}):
        for metric in METRICS:
            rows = means[(means["context_tokens"] == context) & (means[metric] > 0)]
            stacks = [str(name) for name in rows["stack"]]
            # In the order of the plan, so that a factor's first level is the file's.
            order = {name: place for place, name in enumerate(next(iter(known.values())))}
            ranked = sorted(range(len(stacks)), key=lambda row: order[stacks[row]])
            cells = [{name: column[stacks[row]] for name, column in known.items()} for row in ranked]
            if len(set(stacks)) < 2:
                continue
            coding = _coding(cells, known)
            values = np.log(rows[metric].to_numpy(dtype=float))[ranked]
            wanted = fraction.terms(list(known), interacting)
            fitted = fraction.fit(cells, values.tolist(), wanted, coding)
            yield Effects(metric, context, fitted, len(set(stacks)), len(stacks))


def _coding(cells: Sequence[Mapping[str, str]], columns: Mapping[str, Mapping[str, str]]) -> Coding:
    """Which levels come first, and which factors stand beside the others.

    What is unset comes first, else what the file names first, whichever cells were measured. Of a factor
    beside, the level that nearly all cells have does.
    """
    levels, beside = {}, []
    for factor, column in columns.items():
        present = {cell[factor] for cell in cells}
        known = [level for level in dict.fromkeys(column.values()) if level in present]
        counts = Counter(cell[factor] for cell in cells)
        common, most = counts.most_common(1)[0]
        if len(cells) - most <= len(cells) * MOST_BESIDE and len(cells) > FEWEST_AROUND:
            beside.append(factor)
            first = common
        else:
            first = UNSET if UNSET in known else known[0]
        levels[factor] = (first, *(level for level in known if level != first))
    return Coding(levels, frozenset(beside))


def show(console: Console, found: Sequence[Effects]) -> None:
    """Print a line an effect, and what the intervals stand on."""
    if not found:
        console.print("No metric has values in two stacks, so there are no effects.")
    for one in found:
        lines = table(f"Effects on {one.metric} at context {one.context_tokens}")
        lines.add_column("effect", overflow="fold")
        lines.add_column("change", justify="right", no_wrap=True)
        lines.add_column("interval", justify="right", no_wrap=True)
        lines.add_column("also holds", overflow="fold")
        for effect in one.fit.effects:
            change, low, high = changes(effect)
            lines.add_row(
                escape(short_name(effect.name, one.fit) if len(effect.term) > 1 else effect.name),
                percent(change),
                f"{percent(low)} .. {percent(high)}",
                _aliases(effect, one.fit),
            )
        console.print(lines)
        console.print(stands_on(one), soft_wrap=True)
        if one.fit.untold:
            names = ", ".join(" x ".join(term) for term in one.fit.untold)
            console.print(f"Not to be told apart in these cells: {escape(names)}.", soft_wrap=True)
    if found:
        console.print(
            "A main effect is the first level against the second, averaged over the other factors; an"
            " interaction is the ratio of two such changes, and names no levels of a factor that has but two."
            " `also holds`: what else is in it, and what share of that. 95 % intervals, each for itself.",
            soft_wrap=True,
        )


def changes(effect: Effect) -> tuple[float, float, float]:
    """The effect as a fraction, and its interval's ends."""
    return math.expm1(effect.value), _ratio(effect.low), _ratio(effect.high)


def _ratio(logarithm: float) -> float:
    # Beyond any float, and beyond what percentages say.
    return math.inf if logarithm > 700 else math.expm1(logarithm)


def short_name(name: str, fitted: Fit) -> str:
    """An interaction's name without the levels of factors that have but two: main effects tell those."""
    mains = [effect for effect in fitted.effects if len(effect.term) == 1]
    counts = Counter(effect.term for effect in mains)
    for effect in (one for one in mains if counts[one.term] == 1):
        name = name.replace(effect.name, effect.term[0])
    return name


def _aliases(effect: Effect, fitted: Fit) -> str:
    told = [
        f"{share:+.2f} {short_name(name, fitted)}"
        for name, share in list(effect.aliases.items())[:MOST_ALIASES]
    ]
    more = len(effect.aliases) - MOST_ALIASES
    return escape("; ".join(told) + (f"; {more} more" if more > 0 else ""))


def stands_on(one: Effects) -> str:
    """What the noise was judged by, in a sentence."""
    fitted = one.fit
    basis = f"{one.launches} launches of {one.cells} cells, {fitted.freedom} more than coefficients"
    if not fitted.freedom:
        return f"{basis}: nothing is left to judge noise by, so the changes are described, not judged."
    rest = f"what they leave over is {math.expm1(fitted.residual):.1%} a launch"
    if one.launches == one.cells:
        return (
            f"{basis}: {rest}. With one launch a cell that is noise between launches and effects that the"
            " model leaves out, together."
        )
    return f"{basis}: {rest}."


def document(found: Sequence[Effects]) -> list[dict[str, Any]]:
    """The same for programs; an end of an interval that can't be told is null."""
    return [
        {
            "metric": one.metric,
            "context_tokens": one.context_tokens,
            "cells": one.cells,
            "launches": one.launches,
            "freedom": one.fit.freedom,
            "residual": math.expm1(one.fit.residual) if one.fit.freedom else None,
            "untold": [list(term) for term in one.fit.untold],
            "effects": [_effect(effect) for effect in one.fit.effects],
        }
        for one in found
    ]


def _effect(effect: Effect) -> dict[str, Any]:
    change, low, high = (value if math.isfinite(value) else None for value in changes(effect))
    return {
        "effect": effect.name,
        "factors": list(effect.term),
        "levels": [list(pair) for pair in effect.levels],
        "change": change,
        "low": low,
        "high": high,
        "aliases": dict(effect.aliases),
    }
