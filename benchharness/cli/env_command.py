"""`benchharness env`: the environments that stacks run in."""

from __future__ import annotations

from pathlib import Path

import click

from benchharness.cli.options import cache_folder, cache_option, json_option, print_json, set_option


@click.group("env")
def command() -> None:
    """Build, list and remove the environments that stacks run in.

    Each set of packages has one environment, kept by its content and shared by all experiments.
    """


@command.command("build", epilog="Example: benchharness env build experiments/quickstart.yaml")
@click.argument("experiment", type=click.Path(path_type=Path))
@set_option
@cache_option
@json_option
def build(experiment: Path, sets: tuple[str, ...], cache: Path | None, as_json: bool) -> None:
    """Build every environment that EXPERIMENT needs, so that `run` finds them ready.

    Ends 5 if one can't be built; the others are built all the same.
    """
    import sys

    from benchharness import execute, plan, spec
    from benchharness.report import console, env_view

    made = plan.make(spec.load(experiment, sets))
    execute.check(made)
    lines = console.progress()
    built = execute.build_environments(
        made, cache_folder(cache), lambda text: lines.print(text, markup=False)
    )
    env_view.show_built(console.people(as_json), built)
    if as_json:
        print_json(env_view.built_document(built))
    sys.exit(5 if any(one.reason for one in built) else 0)


@command.command("list")
@cache_option
@json_option
def list_(cache: Path | None, as_json: bool) -> None:
    """List the environments of the cache, with what removing each would free."""
    from benchharness.report import console, env_view
    from benchharness.stack import shelf

    found = shelf.kept(cache_folder(cache))
    env_view.show_kept(console.people(as_json), cache_folder(cache), found)
    if as_json:
        print_json(env_view.kept_document(found))


@command.command("gc", epilog="Example: benchharness env gc --days 14 --dry-run")
@click.option("--days", type=click.FloatRange(min=0), default=30.0, show_default=True, help="Unused so long.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@cache_option
@json_option
def gc(days: float, dry_run: bool, cache: Path | None, as_json: bool) -> None:
    """Remove environments that were not used for some days. What runs at the moment is kept."""
    from benchharness.report import console, env_view
    from benchharness.stack import shelf

    old = shelf.unused(cache_folder(cache), days)
    for one in old if not dry_run else ():
        shelf.remove(one)
    env_view.show_removed(console.people(as_json), old, dry_run=dry_run)
    if as_json:
        print_json({"dry_run": dry_run, **env_view.kept_document(old)})
