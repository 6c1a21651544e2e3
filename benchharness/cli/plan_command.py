"""`benchharness plan`: what would run."""

from __future__ import annotations

from pathlib import Path

import click

from benchharness.cli.options import (
    cache_folder,
    cache_option,
    json_option,
    print_json,
    results_option,
    set_option,
)


@click.command(
    "plan", epilog="Example: benchharness plan experiments/quickstart.yaml --set measure.launches=5"
)
@click.argument("experiment", type=click.Path(path_type=Path))
@set_option
@results_option
@cache_option
@json_option
def command(
    experiment: Path, sets: tuple[str, ...], results: Path, cache: Path | None, as_json: bool
) -> None:
    """Show what EXPERIMENT would run: stacks, launches in order, environments, time.

    Nothing is built and nothing is started; commits are looked up, and checked out into the cache.
    The stack names shown here are the ones that `compare` takes.
    """
    from benchharness import plan, spec

    made = plan.make(spec.load(experiment, sets))

    from benchharness import execute

    execute.check(made)

    from benchharness.report import console, plan_view

    lines = console.progress()
    made = execute.resolve(made, cache_folder(cache), lambda text: lines.print(text, markup=False))

    from benchharness.store import costs

    known = costs.of_stacks(results, made.experiment)
    seconds = plan.estimate_s(made, execute.guessed_costs(made) | known)
    environments = execute.environments_of(made, cache_folder(cache))
    people = console.people(as_json)
    room = execute.room_of(made)
    plan_view.show(people, made, environments, seconds, measured=bool(known), room=room)
    if as_json:
        print_json(plan_view.document(made, environments, seconds, room))
