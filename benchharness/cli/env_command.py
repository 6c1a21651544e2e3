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

    def tell(text: str) -> None:
        lines.print(text, markup=False)

    made = execute.resolve(made, cache_folder(cache), tell)
    built = execute.build_environments(made, cache_folder(cache), tell)
    env_view.show_built(console.people(as_json), built)
    if as_json:
        print_json(env_view.built_document(built))
    sys.exit(5 if any(one.reason for one in built) else 0)


@command.command(
    "pack",
    epilog="Example: benchharness env pack my.yaml -o bundle --python 3.12 --host-packages pip-list.txt",
)
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path), required=True, help="New folder.")
@click.option("--python", help="The host's Python, as 3.12.  [default: the harness's own]")
@click.option("--platform", help="The host's platform, as uv names it.  [default: x86_64-manylinux_2_34]")
@click.option(
    "--host-packages",
    type=click.Path(path_type=Path, dir_okay=False),
    help="What `pip list` prints on the host, or bare names: fitting packages are left to it.",
)
@click.option(
    "--host-has", multiple=True, metavar="NAME", help="A package that the host has. May be repeated."
)
@click.option("--without", multiple=True, metavar="NAME", help="Leave a package out. May be repeated.")
@click.option(
    "--omit", multiple=True, metavar="GLOB", help="Leave files out, as 'torch/test/*'. May be repeated."
)
@click.option("--strip", is_flag=True, help="Take debuggers' symbols out of libraries.")
@click.option("--part-mib", type=click.IntRange(1, 4096), default=46, show_default=True, help="Largest part.")
@click.option("--with-harness", is_flag=True, help="Bring the harness as well, with an install.py.")
@set_option
@cache_option
@json_option
def pack(
    experiment: Path,
    folder: Path,
    python: str | None,
    platform: str | None,
    host_packages: Path | None,
    host_has: tuple[str, ...],
    without: tuple[str, ...],
    omit: tuple[str, ...],
    strip: bool,
    part_mib: int,
    with_harness: bool,
    sets: tuple[str, ...],
    cache: Path | None,
    as_json: bool,
) -> None:
    """Pack every environment that EXPERIMENT needs, for a host without a network.

    `env unpack` lays them out there, under the keys that `run` looks for. What was left out is recorded with
    the environment and with every launch.
    """
    from benchharness import execute, plan, spec
    from benchharness.report import bundle_view, console
    from benchharness.stack import bundles
    from benchharness.stack.packages import normal

    options = bundles.Options(
        target=bundles.target(python, platform, host_packages, host_has),
        without=tuple(sorted({normal(name) for name in without})),
        omit=omit,
        strip=strip,
        part_bytes=part_mib << 20,
        with_harness=with_harness,
    )
    lines = console.progress()

    def tell(text: str) -> None:
        lines.print(text, markup=False)

    made = plan.make(spec.load(experiment, sets))
    execute.check(made)
    made = execute.resolve(made, cache_folder(cache), tell)
    packed = execute.pack(made, cache_folder(cache), folder.absolute(), options, tell)
    bundle_view.show_packed(console.people(as_json), packed)
    if as_json:
        print_json(bundle_view.packed_document(packed))


@command.command("unpack", epilog="Example: benchharness env unpack bundle")
@click.argument("folder", type=click.Path(path_type=Path))
@cache_option
@json_option
def unpack(folder: Path, cache: Path | None, as_json: bool) -> None:
    """Lay out the environments of a bundle in the cache, without a network.

    Ends 5 if a part is missing or damaged, or if an environment doesn't work on this host.
    """
    import sys

    from benchharness.report import bundle_view, console
    from benchharness.stack import bundles

    lines = console.progress()
    unpacked = bundles.unpack(folder, cache_folder(cache), lambda text: lines.print(text, markup=False))
    bundle_view.show_unpacked(console.people(as_json), unpacked)
    if as_json:
        print_json(bundle_view.unpacked_document(unpacked))
    sys.exit(5 if any(one.reason for one in unpacked) else 0)


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
    """Remove environments and checkouts that were not used for some days. What runs at the moment is kept."""
    from benchharness.report import console, env_view
    from benchharness.stack import checkouts, layers, shelf

    place = cache_folder(cache)
    old, old_code = shelf.unused(place, days), checkouts.unused(place, days)
    for one in old if not dry_run else ():
        shelf.remove(one)
    for code in old_code if not dry_run else ():
        checkouts.remove(code)
    freed = layers.unused_bytes(place) if dry_run else layers.sweep(place)
    env_view.show_removed(console.people(as_json), old, old_code, freed, dry_run=dry_run)
    if as_json:
        print_json({"dry_run": dry_run, **env_view.removed_document(old, old_code, freed)})
