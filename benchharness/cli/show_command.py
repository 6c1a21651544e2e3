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
@click.option("--effects", is_flag=True, help="What each factor of the matrix does, over all cells.")
@click.option(
    "--with",
    "interacting",
    multiple=True,
    metavar="FACTOR",
    help="With --effects: how it changes the others' effects. May be repeated.",
)
@results_option
@json_option
def command(
    run: str, target: float | None, effects: bool, interacting: tuple[str, ...], results: Path, as_json: bool
) -> None:
    """Show what RUN measured. What makes it invalid, if anything, comes first.

    RUN is a folder, a run's id or the start of one, the name of an experiment (its last run), or
    `latest`. With --target each stack's line says which accept length that speed would need. With
    --effects the effects of the factors are shown instead, and what each can't be told from.
    """
    from benchharness.errors import UsageError
    from benchharness.store import find, open_run

    if interacting and not effects:
        raise UsageError("--with names a factor of the effects", "add --effects")

    stored = open_run(find(results, run))

    from benchharness.report import console, effects_view, run_view

    if effects:
        found = effects_view.of_run(stored, interacting)
        effects_view.show(console.people(as_json), found)
        if as_json:
            print_json(
                {"run": stored.run.id, "path": str(stored.path), "effects": effects_view.document(found)}
            )
        return
    run_view.show(console.people(as_json), stored, target)
    if as_json:
        print_json(run_view.document(stored))
