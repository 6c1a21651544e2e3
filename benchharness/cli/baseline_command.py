"""`benchharness baseline`: stored runs that others are held against."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from benchharness.cli.options import json_option, print_json, results_option


@click.group("baseline")
def command() -> None:
    """Name stored runs that others are held against.

    A baseline is a run with all that was stored of it: its stacks, attestations and raw data, never a bare
    number. `gate` and `compare` take its name wherever they take a run.
    """


@command.command("set", epilog="Example: benchharness baseline set main latest")
@click.argument("name")
@click.argument("run")
@results_option
@json_option
def set_(name: str, run: str, results: Path, as_json: bool) -> None:
    """Give the stored RUN the NAME of a baseline; a name that is there already moves."""
    from benchharness.report import console
    from benchharness.store import baselines

    made = baselines.promote(results, name, run)
    console.people(as_json).print(f"{made.name}: {made.run}", markup=False)
    if as_json:
        print_json(asdict(made))


@command.command("list")
@results_option
@json_option
def list_(results: Path, as_json: bool) -> None:
    """List the baselines."""
    from benchharness.report import console
    from benchharness.store import baselines

    found = baselines.listed(results)
    people = console.people(as_json)
    for one in found:
        people.print(f"{one.name}: {one.run} (since {one.set_at})", markup=False)
    if not found:
        people.print("no baselines; name one by `benchharness baseline set NAME RUN`", markup=False)
    if as_json:
        print_json({"baselines": [asdict(one) for one in found]})
