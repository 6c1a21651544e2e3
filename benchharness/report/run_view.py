"""What a run measured: what is wrong with it first, then a line for each stack and context."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from rich.console import Console
from rich.markup import escape

from benchharness.metrics import METRICS
from benchharness.plan import DUET
from benchharness.records import LaunchStatus
from benchharness.report import account_view, attestation_view, inside_view, probe_view, rank_view
from benchharness.report.console import duration, number, sentence, table
from benchharness.stats import compare, duet
from benchharness.stats.client_error import ClientError
from benchharness.stats.launch_means import all_metrics, launch_means, plain_metrics
from benchharness.store import StoredRun

COLUMNS = ("accept_length", "cycle_ms", "draft_ms", "verify_ms", "ttft_ms", "itl_ms", "output_tok_s")


def show(console: Console, stored: StoredRun, target_tok_s: float | None = None) -> None:
    """Print findings, figures, and how the other stacks compare with the first one.

    Args:
        console: where to.
        stored: the run.
        target_tok_s: speed of a stream whose accept length is to be told.
    """
    run = stored.run
    state = "" if run.finished else " [yellow](not finished; go on with --resume)[/yellow]"
    sentence(console, f"[bold]{run.plan.experiment}/{run.id}[/bold]  {escape(str(stored.path))}{state}")
    if run.synthetic:
        console.print(
            "[yellow]Made with a stand-in engine: no figure here says anything of a real one.[/yellow]"
        )
    style = {"valid": "green", "suspect": "yellow", "invalid": "red"}[validity(stored)]
    console.print(f"[{style}]{validity(stored)}[/{style}]")
    _show_failures(console, stored)
    means = launch_means(stored.connect(), plain_metrics())
    if means.empty:
        console.print("No valid trial was stored, so there are no figures.")
        return
    console.print(_figures(stored, means))
    console.print("n launches. Means over launches (± half of their range), each the mean over requests.")
    account_view.show(console, stored, means, target_tok_s)
    _show_changes(console, stored, means)
    rank_view.show(console, stored)
    inside_view.show(console, stored)
    probe_view.show(console, stored)
    spent = sum(launch.start_s + launch.requests_s + launch.stop_s for launch in stored.launches)
    console.print(f"{len(stored.launches)} launches, {duration(spent)} in engines.")


def validity(stored: StoredRun) -> str:
    """`invalid` where something may not be judged, `suspect` where there are notes, else `valid`."""
    if not stored.valid:
        return "invalid"
    return "suspect" if any(trial.findings for _, trial in stored.trials) else "valid"


def _show_failures(console: Console, stored: StoredRun) -> None:
    for launch in stored.launches:
        if launch.status != LaunchStatus.DONE:
            place = f"launch {launch.index} ({escape(launch.stack)})"
            sentence(console, f"[red]{launch.status}[/red] {place}: {escape(launch.reason)}")
            for line in launch.last_lines[-8:]:
                sentence(console, f"    [dim]| {escape(line)}[/dim]")
    stacks = {launch.index: launch.stack for launch in stored.launches}
    for _, trial in stored.trials:
        for finding in trial.findings:
            word = "[red]invalid[/red]" if finding.grave else "[yellow]note[/yellow]"
            place = f"launch {trial.launch} ({escape(stacks[trial.launch])})"
            context = f"context {trial.workload.context_tokens}"
            sentence(console, f"{word} {place}, {context}: {escape(finding.sentence)}")


def _figures(stored: StoredRun, means: pd.DataFrame) -> Any:
    shown = [name for name in COLUMNS if means[name].notna().any()]
    figures = table("")
    figures.add_column("context", justify="right")
    figures.add_column("stack", overflow="fold")
    figures.add_column("n", justify="right")
    for name in shown:
        figures.add_column(name, justify="right", no_wrap=True)
    for context in sorted(set(means["context_tokens"])):
        for stack in stored.run.plan.stacks:
            rows = means[(means["context_tokens"] == context) & (means["stack"] == stack.name)]
            if not rows.empty:
                cells = [_spread(rows[name], METRICS[name].decimals) for name in shown]
                figures.add_row(str(context), escape(stack.name), str(len(rows)), *cells)
        figures.add_section()
    return figures


def _spread(values: pd.Series[float], decimals: int) -> str:
    """Mean over launches, and half the distance from the lowest to the highest in percent of it."""
    known = values.dropna()
    if known.empty:
        return "-"
    mean = float(known.mean())
    text = number(mean, decimals)
    half = (float(known.max()) - float(known.min())) / 2
    if half == 0 or mean == 0:
        return text
    return f"{text} ±{half / abs(mean):.{0 if half / abs(mean) >= 0.1 else 1}%}"


def _show_changes(console: Console, stored: StoredRun, means: pd.DataFrame) -> None:
    """Each further stack against the first one, by the headline metric."""
    from benchharness.report import compare_view, until_view

    names = [stack.name for stack in stored.run.plan.stacks if (means["stack"] == stack.name).any()]
    cells: list[compare.Cell] = []
    metric, paired = METRICS["output_tok_s"], stored.run.plan.pairing == DUET
    for name in names[1:]:
        sides = means[means["stack"] == names[0]], means[means["stack"] == name]
        if paired:
            sides = duet.sides(stored.connect(names[0]), stored.connect(name), [metric])
        cells += compare.compare(
            *sides,
            [metric],
            stack=name,
            same_run=True,
            duet=paired,
            client=ClientError.of([stored.run.client], client_cycles=stored.client_cycles),
        )
    if cells:
        compare_view.show_cells(console, f"Against {escape(names[0])}", cells)
        until_view.note(console, stored)


def exit_status(stored: StoredRun) -> int:
    """5 if a launch failed or none could be built, 4 if a trial is invalid, else 0.

    Unbuildable points of a matrix are results, as long as some point could be built.
    """
    statuses = [launch.status for launch in stored.launches]
    if LaunchStatus.FAILED in statuses or (
        statuses and not {LaunchStatus.DONE, LaunchStatus.INVALID} & set(statuses)
    ):
        return 5
    sound = LaunchStatus.INVALID not in statuses and all(trial.valid for _, trial in stored.trials)
    return 0 if sound else 4


def document(stored: StoredRun) -> dict[str, Any]:
    """The run for programs."""
    means = launch_means(stored.connect(), all_metrics())
    cells = []
    for stack in stored.run.plan.stacks:
        for context in sorted(set(means["context_tokens"])):
            rows = means[(means["context_tokens"] == context) & (means["stack"] == stack.name)]
            if rows.empty:
                continue
            values = {name: float(rows[name].mean()) for name in METRICS if rows[name].notna().any()}
            known = {name: value for name, value in values.items() if math.isfinite(value)}
            cells.append(
                {"stack": stack.name, "context_tokens": int(context), "launches": len(rows), "metrics": known}
            )
    return {
        "run": stored.run.id,
        "path": str(stored.path),
        "launches": len(stored.launches),
        "valid": stored.valid,
        "validity": validity(stored),
        "finished": stored.run.finished,
        "synthetic": stored.run.synthetic,
        "failures": [
            {"launch": one.index, "stack": one.stack, "status": str(one.status), "reason": one.reason}
            for one in stored.launches
            if one.status != LaunchStatus.DONE
        ],
        "findings": [
            {
                "launch": trial.launch,
                "context_tokens": trial.workload.context_tokens,
                "check": finding.check,
                "grave": finding.grave,
                "sentence": finding.sentence,
            }
            for _, trial in stored.trials
            for finding in trial.findings
        ],
        "cells": cells,
        "accounts": account_view.document(stored, means),
        "ranks": rank_view.document(stored),
        "requests_inside": inside_view.document(stored),
        "probe_cost": probe_view.document(stored),
        "attestations": attestation_view.document(stored),
        "gpus": attestation_view.gpus(stored),
        "achieved": [
            {
                "launch": trial.launch,
                "context_tokens": trial.workload.context_tokens,
                "concurrency": trial.workload.concurrency,
                "rate_rps": trial.workload.rate_rps,
                **trial.achieved,
            }
            for _, trial in stored.trials
        ],
    }
