"""`benchharness show`: what a run measured."""

from __future__ import annotations

from pathlib import Path

import click

from benchharness.cli.options import json_option, print_json, results_option


@click.command("show", epilog="Example: benchharness show latest")
@click.argument("run")
@click.option(
    "--target", type=click.FloatRange(min=0, min_open=True), help="A stream's tok/s: what it needs."
)
@results_option
@json_option
def command(run: str, target: float | None, results: Path, as_json: bool) -> None:
    """Show what RUN measured. What makes it invalid, if anything, comes first.

    RUN is a folder, a run's id or the start of one, the name of an experiment (its last run), or
    `latest`. With --target each stack's line says which accept length that speed would need.
    """
    from benchharness.store import find, open_run

    stored = open_run(find(results, run))

    from benchharness.report import console, run_view

    run_view.show(console.people(as_json), stored, target)
    if as_json:
        print_json(run_view.document(stored))
