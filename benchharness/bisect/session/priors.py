"""What earlier runs of an experiment on this machine tell of a metric's noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchharness import machine
from benchharness.bisect.search import Prior
from benchharness.bisect.session import observed
from benchharness.bisect.session.question import Question
from benchharness.errors import HarnessError
from benchharness.stats import twolevel
from benchharness.stats.launch_means import request_values
from benchharness.stats.twolevel import Components
from benchharness.store import open_run, runs

MOST_RUNS = 5
"""Newest runs that are looked at."""

MOST_WEIGHT = 20.0
"""Degrees of freedom that earlier noise counts for at most: the host may have changed since."""


def of_store(results: Path, question: Question) -> Prior | None:
    """Deviations of launches and repeats by earlier runs; None where none tell."""
    row = observed.named(question.metric)
    if row is None or row.fewest:
        return None
    found = list(_components(results, question))
    freedom = sum(one.launches - 1 for one in found)
    if freedom < 1:
        return None
    between = sum(one.between * (one.launches - 1) for one in found) / freedom
    within = sum(one.within / one.effective * (one.launches - 1) for one in found) / freedom
    weight = min(float(freedom), MOST_WEIGHT)
    return Prior(
        between_sd=math.sqrt(between) or None,
        within_sd=math.sqrt(within) or None,
        between_weight=weight,
        within_weight=weight,
    )


def _components(results: Path, question: Question) -> Iterator[Components]:
    here = _identity(machine.describe())
    names = (question.experiment, f"{question.experiment}-bisect")
    known = [one for one in runs(results) if one.experiment in names]
    row = observed.named(question.metric)
    for summary in reversed(known[-MOST_RUNS:]):
        try:
            stored = open_run(summary.path)
            if row is None or _identity(stored.run.machine) != here:
                continue
            values = request_values(stored.connect(), row)
        except HarnessError:
            continue
        for (_, context), rows in values.groupby(["stack", "context_tokens"]):
            launches = [group["value"].to_numpy() for _, group in rows.groupby("launch")]
            usable = [one for one in launches if one.size > 1 and (one > 0).all()]
            parts = twolevel.components(usable) if int(str(context)) in question.contexts else None
            if parts is not None:
                yield parts


def _identity(described: Mapping[str, Any]) -> tuple[object, ...]:
    """What makes a machine the same one."""
    gpus = tuple(str(gpu.get("name")) for gpu in described.get("gpus", []))
    return (described.get("cpu"), described.get("logical_cpus"), described.get("memory_bytes"), gpus)
