"""`benchharness run`: carry out an experiment."""

from __future__ import annotations

import sys
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


@click.command("run", epilog="Example: benchharness run experiments/quickstart.yaml --set measure.launches=5")
@click.argument("experiment", type=click.Path(path_type=Path))
@set_option
@click.option("--resume", is_flag=True, help="Go on with the last unfinished run of this experiment.")
@results_option
@cache_option
@json_option
def command(
    experiment: Path, sets: tuple[str, ...], resume: bool, results: Path, cache: Path | None, as_json: bool
) -> None:
    """Carry out EXPERIMENT: launch every stack, drive the work, store what is measured.

    Results are stored after every trial. A run that was interrupted goes on with --resume, which
    also tries launches again that failed. Ends 5 if a launch failed, 4 if a measurement is invalid.
    """
    # What can refuse comes first, and what only reports comes last: together they take a second to import.
    from benchharness import plan, spec

    declared = spec.load(experiment, sets)
    made = plan.make(declared)

    from benchharness import execute

    execute.check(made)

    from benchharness.cli import run_start
    from benchharness.report import console, progress
    from benchharness.store import costs, open_run

    people, place = console.people(as_json), cache_folder(cache)
    lines = console.progress()
    made = execute.resolve(made, place, lambda text: lines.print(text, markup=False))
    with run_start.folder(results, made, declared.source, resume=resume) as folder, run_start.resumable():
        folder.keep_diffs(execute.diffs(made, place))
        left = plan.without(made, folder.done())
        known = execute.guessed_costs(made) | costs.of_stacks(results, made.experiment)
        with progress.watching(folder.path, left, plan.Remaining(left, known)) as observer:
            execute.run(folder, place, observer)

        from benchharness.report import run_view

        stored = open_run(folder.path)
        run_view.show(people, stored)
        if as_json:
            print_json(run_view.document(stored))
        sys.exit(run_view.exit_status(stored))
