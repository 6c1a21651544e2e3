"""`benchharness run`: carry out an experiment."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from benchharness.cli.options import (
    cache_folder,
    cache_option,
    json_option,
    print_json,
    results_option,
    set_option,
)
from benchharness.cli.until_option import UNDECIDED, Until, until_options


@click.command("run", epilog="Example: benchharness run experiments/quickstart.yaml --set measure.launches=5")
@click.argument("experiment", type=click.Path(path_type=Path))
@set_option
@click.option("--resume", is_flag=True, help="Go on with the last unfinished run of this experiment.")
@until_options
@results_option
@cache_option
@json_option
def command(
    experiment: Path,
    sets: tuple[str, ...],
    resume: bool,
    results: Path,
    cache: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Carry out EXPERIMENT: launch every stack, drive the work, store what is measured.

    Results are stored after every trial. A run that was interrupted goes on with --resume, which
    also tries launches again that failed. Ends 5 if a launch failed, 4 if a measurement is invalid,
    and else 3 if --until ended undecided.
    """
    # What can refuse comes first, and what only reports comes last: together they take a second to import.
    from benchharness import plan, spec

    declared = spec.load(experiment, sets)
    made = plan.make(declared)
    wanted = Until.of(options)

    from benchharness import execute

    execute.check(made)
    execute.refuse_crowded(made)
    wanted.check(made)

    from benchharness.cli import run_start
    from benchharness.report import console, progress

    people, place = console.people(as_json), cache_folder(cache)
    lines = console.progress()
    made = execute.resolve(made, place, lambda text: lines.print(text, markup=False))
    with run_start.folder(results, made, declared.source, resume=resume) as folder, run_start.resumable():
        folder.keep_diffs(execute.diffs(made, place))
        known = execute.guessed_costs(made) | run_start.known_costs(results, made.experiment)
        outcome = wanted.carry_out(folder, place, made, progress.of_run(folder.path, known))

        from benchharness.report import run_view, until_view
        from benchharness.store import open_run

        stored = open_run(folder.path)
        run_view.show(people, stored)
        more: dict[str, Any] = {}
        if outcome is not None:
            until_view.show(people, outcome)
            more = {"until": until_view.document(outcome)}
        if as_json:
            print_json(run_view.document(stored) | more)
        undecided = outcome is not None and not outcome.decided
        sys.exit(run_view.exit_status(stored) or (UNDECIDED if undecided else 0))
