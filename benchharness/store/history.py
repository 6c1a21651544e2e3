"""Values of stacks over time: one a run, a series for each experiment, stack, work, metric and machine."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from benchharness.errors import UsageError
from benchharness.metrics import Metric
from benchharness.records import LaunchStatus
from benchharness.stats.launch_means import launch_means
from benchharness.store import documents, views
from benchharness.store.lineage import Member
from benchharness.store.listing import RunSummary

MOST_TRIALS = 1500
"""Trials whose tables are read by one query."""


@dataclass(frozen=True)
class Point:
    """One run of a series.

    Attributes:
        run: which.
        member: the stack as it was then.
        value: mean over its launches (of their logs), in the metric's unit; above 0.
        launches: how many it stands on.
    """

    run: RunSummary
    member: Member
    value: float
    launches: int


@dataclass(frozen=True)
class Series:
    """One metric of one stack at one context length, over the runs of one machine.

    Attributes:
        experiment, stack, context_tokens, metric: what it is.
        hardware: the machine in a few words.
        points: by time, oldest first.
        synthetic: a stand-in engine made it.
    """

    experiment: str
    stack: str
    context_tokens: int
    metric: Metric
    hardware: str
    points: tuple[Point, ...]
    synthetic: bool


@dataclass(frozen=True)
class Histories:
    """All series, and what could not be read.

    Attributes:
        series: in order of experiment, stack, context and metric.
        skipped: one sentence for each run or table that is damaged.
        older: runs that were left out, as there are newer ones enough.
    """

    series: tuple[Series, ...]
    skipped: tuple[str, ...]
    older: int


class _Key(NamedTuple):
    """What makes values one series."""

    experiment: str
    stack: str
    lineage: str
    work: str
    hardware: str
    context: int
    metric: str


@dataclass(frozen=True)
class _Wanted:
    """One stack of one run."""

    run: RunSummary
    member: Member

    def key(self, context: int, metric: str) -> _Key:
        """The series that a value of it belongs to."""
        run, member = self.run, self.member
        work = run.works.get(context, "")
        return _Key(run.experiment, member.name, member.lineage, work, run.hardware, context, metric)


def read(
    summaries: Sequence[RunSummary],
    metrics: Sequence[Metric],
    *,
    stacks: Sequence[str],
    contexts: Sequence[int],
    last: int,
) -> Histories:
    """The series of stored runs.

    Args:
        summaries: the runs, oldest first.
        metrics: one series each.
        stacks, contexts: only these; empty for all.
        last: newest runs of each stack that are read.
    """
    wanted, older = _newest(summaries, stacks, last)
    found: dict[_Key, list[Point]] = {}
    skipped: list[str] = []
    for batch in _batches(wanted):
        for one, context, name, value, launches in _values(batch, metrics, skipped):
            if not contexts or context in contexts:
                point = Point(one.run, one.member, value, launches)
                found.setdefault(one.key(context, name), []).append(point)
    by_name = {metric.name: metric for metric in metrics}
    order = {name: number for number, name in enumerate(by_name)}
    keys = sorted(found, key=lambda key: (key.experiment, key.stack, key.context, order[key.metric], key))
    made = tuple(
        Series(
            key.experiment,
            key.stack,
            key.context,
            by_name[key.metric],
            key.hardware,
            tuple(found[key]),
            any(point.run.synthetic for point in found[key]),
        )
        for key in keys
    )
    return Histories(made, tuple(dict.fromkeys(skipped)), older)


def _newest(summaries: Sequence[RunSummary], stacks: Sequence[str], last: int) -> tuple[list[_Wanted], int]:
    """Stacks of runs, oldest first, at most so many of each kind; and how many were left out."""
    counts: dict[tuple[str, ...], int] = {}
    kept, older = [], 0
    for run in reversed(summaries):
        for member in run.members:
            if stacks and member.name not in stacks:
                continue
            kind = (run.experiment, member.name, member.lineage, run.hardware)
            counts[kind] = counts.get(kind, 0) + 1
            if counts[kind] <= last:
                kept.append(_Wanted(run, member))
            else:
                older += 1
    return kept[::-1], older


def _batches(wanted: Sequence[_Wanted]) -> Iterator[list[_Wanted]]:
    """Runs together, as many as one query reads."""
    batch: list[_Wanted] = []
    trials = 0
    for one in wanted:
        size = max(1, one.run.planned) * max(1, len(one.run.work_rows))
        new_run = not batch or batch[-1].run is not one.run
        if new_run and batch and trials + size > MOST_TRIALS:
            yield batch
            batch, trials = [], 0
        trials += size if new_run else 0
        batch.append(one)
    if batch:
        yield batch


def _values(
    batch: Sequence[_Wanted], metrics: Sequence[Metric], skipped: list[str]
) -> list[tuple[_Wanted, int, str, float, int]]:
    """Stack of a run, context, metric, mean over launches, launches; damaged runs are told and left out."""
    import duckdb

    rows: list[views.TrialRow] = []
    owners: dict[int, _Wanted] = {}
    for run in dict.fromkeys(one.run.folder for one in batch):
        by_stack = {one.member.name: one for one in batch if one.run.folder == run}
        try:
            for row in _trials(Path(run), by_stack, 1 + max(owners, default=-1)):
                rows.append(row)
                owners[row.launch] = by_stack[row.stack]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            skipped.append(f"{run} is damaged and left out: {error}")
            rows = [row for row in rows if not row.folder.startswith(f"{run}/")]
    try:
        means = launch_means(views.connect(rows), metrics)
    except (UsageError, duckdb.Error) as error:
        return _one_by_one(batch, metrics, skipped, error)
    return _means(means.to_dict("records"), owners, metrics)


def _one_by_one(
    batch: Sequence[_Wanted], metrics: Sequence[Metric], skipped: list[str], error: Exception
) -> list[tuple[_Wanted, int, str, float, int]]:
    """Something of a batch is damaged: run by run, so that the others are read."""
    folders = list(dict.fromkeys(one.run.folder for one in batch))
    if len(folders) == 1:
        skipped.append(f"{folders[0]} is damaged and left out: {str(error).splitlines()[0]}")
        return []
    parts = ([one for one in batch if one.run.folder == folder] for folder in folders)
    return [value for part in parts for value in _values(part, metrics, skipped)]


def _means(
    rows: Sequence[Mapping[Any, Any]], owners: Mapping[int, _Wanted], metrics: Sequence[Metric]
) -> list[tuple[_Wanted, int, str, float, int]]:
    logs: dict[tuple[int, int, str], list[float]] = {}
    wanted = {id(one): one for one in owners.values()}
    for row in rows:
        one, context = owners[int(row["launch"])], int(row["context_tokens"])
        for metric in metrics:
            value = float(row[metric.name])
            if math.isfinite(value) and value > 0:
                logs.setdefault((id(one), context, metric.name), []).append(math.log(value))
    return [
        (wanted[which], context, name, math.exp(float(np.mean(values))), len(values))
        for (which, context, name), values in logs.items()
    ]


def _mib(size: int | None) -> float | None:
    return size / (1 << 20) if size else None


def _trials(run: Path, by_stack: Mapping[str, _Wanted], first: int) -> Iterator[views.TrialRow]:
    """The trials of a run that count; launches are numbered from `first` on, all different.

    Read as plain data: ten times as fast as through the records, of which little is needed here.
    """
    for number, path in enumerate(documents.over(run)):
        launch = orjson.loads(path.read_bytes())
        if launch["status"] != LaunchStatus.DONE or launch["stack"] not in by_stack:
            continue
        for file in sorted(path.parent.glob("trials/[!.]*/trial.json")):
            trial = orjson.loads(file.read_bytes())
            if any(finding["grave"] for finding in trial["findings"]):
                continue
            yield views.TrialRow(
                str(file.parent),
                first + number,
                int(launch["block"]),
                launch["stack"],
                int(trial["position"]),
                int(trial["workload"]["context_tokens"]),
                trial.get("engine_cpu_s"),
                trial.get("output_tokens"),
                gpu_memory_mib=_mib(sum(gpu.get("memory_bytes") or 0 for gpu in trial.get("gpus", ()))),
                start_s=launch.get("start_s") or None,
                max_rss_mib=_mib((launch.get("server_exit") or {}).get("max_rss_bytes")),
                script_value=(launch.get("script") or {}).get("value"),
            )
