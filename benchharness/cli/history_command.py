"""`benchharness history`: stacks over time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from benchharness.cli.options import json_option, print_json, results_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchharness.cli.stack_name import Side
    from benchharness.report.compare_view import Apart
    from benchharness.report.history_view import Judged, Told
    from benchharness.stats.changepoint import Change
    from benchharness.store.history import Series
    from benchharness.store.listing import RunSummary

FEWEST = 4
"""Runs from which on a series can show a change."""

MOST_COMMANDS = 3


@click.command("history", epilog="Example: benchharness history --experiment nightly --metric verify_ms")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    default=("output_tok_s",),
    show_default=True,
    help="What to follow; see docs/glossary.md. May be repeated.",
)
@click.option("--experiment", help="Only runs of this experiment.")
@click.option("--stack", "stacks", multiple=True, help="Only this stack. May be repeated.")
@click.option("--context", "contexts", multiple=True, type=int, help="Only this context length.")
@click.option(
    "--last", type=click.IntRange(min=FEWEST), default=200, show_default=True, help="Newest runs of a stack."
)
@click.option("--margin", default="1%", show_default=True, help="Largest change that is not worth telling.")
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="That none of the series shown tells a change where there is none.",
)
@results_option
@json_option
def command(
    metrics: tuple[str, ...],
    experiment: str | None,
    stacks: tuple[str, ...],
    contexts: tuple[int, ...],
    last: int,
    margin: str,
    confidence: float,
    results: Path,
    as_json: bool,
) -> None:
    """Show how stacks went over the stored runs: where a level changed, and what changed with it.

    A stack is the same over time while its name and what is declared of it stay, but for its commit,
    release and packages. Runs of other machines are other series. Ends 0 whatever it shows; `gate`
    is what fails.
    """
    from benchharness import metrics as metric_table
    from benchharness.cli.compare_command import parse_margin

    chosen = [metric_table.named(name) for name in dict.fromkeys(metrics)]
    allowed = parse_margin(margin)

    from benchharness.store import runs

    found = _known(list(runs(results)), results, experiment, stacks, contexts)

    from benchharness.report import console, history_view
    from benchharness.store import history

    histories = history.read(found, chosen, stacks=stacks, contexts=contexts, last=last)
    long = [series for series in histories.series if len(series.points) >= FEWEST]
    each = 1 - (1 - confidence) / max(1, len(long))
    judged = [_judged(series, allowed, each) for series in histories.series]
    history_view.show(console.people(as_json), judged, histories, FEWEST)
    if as_json:
        print_json(history_view.document(judged, histories))


def _known(
    found: Sequence[RunSummary],
    results: Path,
    experiment: str | None,
    stacks: Sequence[str],
    contexts: Sequence[int],
) -> list[RunSummary]:
    """The runs asked for; UsageError for names that no run has."""
    from benchharness.errors import UsageError, nearest

    if not found:
        raise UsageError(f"{results} holds no runs", "make one with `benchharness run`")
    experiments = sorted({one.experiment for one in found})
    if experiment is not None and experiment not in experiments:
        raise UsageError(
            f"no run of {experiment!r}{nearest(experiment, experiments)}", "see `benchharness list`"
        )
    kept = [one for one in found if experiment in (None, one.experiment)]
    names = {name for one in kept for name in one.stacks}
    for stack in stacks:
        if stack not in names:
            raise UsageError(f"no run has a stack {stack!r}{nearest(stack, names)}")
    lengths = {length for one in kept for length in one.works}
    for context in contexts:
        if context not in lengths:
            known = ", ".join(map(str, sorted(lengths)))
            raise UsageError(f"no run has the context {context} (they have {known})")
    return kept


def _judged(series: Series, margin: float, confidence: float) -> Judged:
    """A series with its changes and what they fall together with."""
    import math

    from benchharness.report.history_view import Judged
    from benchharness.stats import changepoint

    logs = [math.log(point.value) for point in series.points]
    if len(logs) < FEWEST:
        return Judged(series, ())
    found = changepoint.changes(logs, confidence)
    alike = changepoint.correlation(logs, [change.at for change in found])
    return Judged(series, tuple(_told(series, change, margin) for change in found), alike)


def _told(series: Series, change: Change, margin: float) -> Told:
    from benchharness.cli.stack_name import Side
    from benchharness.errors import HarnessError
    from benchharness.report.compare_view import Apart
    from benchharness.report.history_view import Told, verdict
    from benchharness.stack import attestation
    from benchharness.store import open_run

    before, after = series.points[change.before], series.points[change.after]
    word = verdict(series, change, margin)
    try:
        first, second = (Side(open_run(one.run.path), series.stack) for one in (before, after))
        apart = Apart(
            first.differences(second),
            attestation.difference(first.attestation, second.attestation),
            first.conditions(second),
            first.other_ruler(second),
        )
    except HarnessError:  # a run that another table of is damaged still has its values
        return Told(change, word, before, after, Apart({}, {}))
    return Told(change, word, before, after, apart, _commands(series, second, apart))


def _commands(series: Series, newer: Side, apart: Apart) -> tuple[str, ...]:
    """What would find the culprit along each axis that moved: declared ones, else attested packages."""
    import shlex

    experiment = newer.stored.run.experiment
    rows = {path: both for path, both in apart.declared.items() if _axis(path) and "-" not in both}
    if not rows:
        rows = {path: both for path, both in apart.attested.items() if path.startswith("packages.")}
        rows = {path: both for path, both in rows.items() if "-" not in both}
    plan = newer.stored.run.plan
    cell = ["--stack", series.stack] if len(plan.stacks) > 1 else []
    cell += ["--context", str(series.context_tokens)] if len(plan.workloads) > 1 else []
    changed = [word for one in experiment.get("sets", ()) for word in ("--set", str(one))]
    commands = []
    for path, (good, bad) in list(rows.items())[:MOST_COMMANDS]:
        words = ["bisect", "run", str(experiment.get("file", "EXPERIMENT")), "--axis", _axis(path)]
        words += ["--good", good, "--bad", bad, "--metric", series.metric.name]
        words += [*cell, *changed]
        commands.append(shlex.join(["benchharness", *words]))
    return tuple(commands)


def _axis(path: str) -> str:
    """The name of the axis along which a bisection would go; empty where a path is none."""
    if path in ("source.commit", "source.release"):
        return path.removeprefix("source.")
    return path.removeprefix("packages.") if path.startswith("packages.") else ""
