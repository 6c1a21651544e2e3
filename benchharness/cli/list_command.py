"""`benchharness list`: the stored runs."""

from __future__ import annotations

from pathlib import Path

import click

from benchharness.cli.options import json_option, print_json, results_option


@click.command("list")
@click.option("--experiment", help="Only runs of this experiment.")
@results_option
@json_option
def command(experiment: str | None, results: Path, as_json: bool) -> None:
    """List the stored runs, oldest first."""
    from benchharness.report import console, list_view
    from benchharness.store import runs

    found = [summary for summary in runs(results) if experiment in (None, summary.experiment)]
    list_view.show(console.people(as_json), results, found)
    if as_json:
        print_json(list_view.document(found))
