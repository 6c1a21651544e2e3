"""`benchharness list`: the stored runs."""

from __future__ import annotations

from pathlib import Path

import click

from benchharness.cli.options import json_option, print_json, results_option

LAST = 50
"""Runs that are shown where nobody asked for more."""


@click.command("list", epilog="Example: benchharness list --experiment quickstart --last 5")
@click.option("--experiment", help="Only runs of this experiment.")
@click.option(
    "--last", type=click.IntRange(min=1), default=LAST, show_default=True, help="Show so many, the newest."
)
@click.option("--all", "everything", is_flag=True, help="Show all of them.")
@results_option
@json_option
def command(experiment: str | None, last: int, everything: bool, results: Path, as_json: bool) -> None:
    """List the stored runs, oldest first. With --json all of them are told."""
    from benchharness.report import list_view
    from benchharness.store import runs

    found = [summary for summary in runs(results) if experiment in (None, summary.experiment)]
    shown = found if everything else found[-last:]
    list_view.show(as_json, results, shown, len(found))
    if as_json:
        print_json(list_view.document(found), indent=2 if len(found) <= last else None)
