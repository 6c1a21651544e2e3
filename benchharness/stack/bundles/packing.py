"""Making a bundle: resolve, fetch, leave out, strip, compress."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import benchharness
from benchharness.errors import InfrastructureError, UsageError
from benchharness.records import EnvironmentSpec
from benchharness.stack import environments
from benchharness.stack.bundles import archives, harness, install
from benchharness.stack.bundles.target import Resolved, Target, resolve
from benchharness.stack.bundles.tree import Tree, scan
from benchharness.stack.requirements import requirement_files
from benchharness.stack.uv import Builder

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """An environment to pack, and what it is for."""

    stacks: tuple[str, ...]
    spec: EnvironmentSpec


@dataclass(frozen=True)
class Options:
    """How to pack.

    Attributes:
        target: the host that the bundle is for.
        without: normalised names of distributions that stay out.
        omit: patterns of files that stay out; `*` also stands for slashes.
        strip: take symbols for debuggers out of libraries.
        part_bytes: most bytes of one part.
        with_harness: bring the harness itself as well.
    """

    target: Target
    without: tuple[str, ...] = ()
    omit: tuple[str, ...] = ()
    strip: bool = False
    part_bytes: int = 46 << 20
    with_harness: bool = False


@dataclass(frozen=True)
class Packed:
    """A finished bundle.

    Attributes:
        folder: where it is.
        manifest: what `bundle.json` says.
        packed_bytes: all of its parts.
        took_s: seconds.
    """

    folder: Path
    manifest: dict[str, Any]
    packed_bytes: int
    took_s: float


def pack(wanted: Sequence[Wanted], folder: Path, options: Options, tell: Tell) -> Packed:
    """Write a bundle of environments into a new or empty folder.

    Raises:
        UsageError: the folder isn't empty, or an environment is for another Python than the target's.
        UnbuildableError: an environment can't be resolved for the target.
        InfrastructureError: network, disk, or a program that is missing.
    """
    began = time.monotonic()
    _refuse(wanted, folder, options)
    try:
        with tempfile.TemporaryDirectory(prefix="benchharness-pack-") as scratch:
            return _packed(wanted, folder, options, Path(scratch), tell, began)
    except OSError as error:
        raise InfrastructureError(
            f"the bundle can't be written: {error.strerror or error}", "free some space, or set TMPDIR"
        ) from error


def _refuse(wanted: Sequence[Wanted], folder: Path, options: Options) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty", "choose a new folder for the bundle")
    if not wanted:
        raise UsageError("the experiment needs no environment: there is nothing to pack")
    for one in wanted:
        python = one.spec.python
        if python is not None and python != options.target.python:
            raise UsageError(
                f"{one.stacks[0]} declares `python: {python}`, the bundle is for {options.target.python}",
                f"give --python {python}, or set `base.python` to {options.target.python}",
            )
    if options.strip and shutil.which("strip") is None:
        raise InfrastructureError("--strip needs the program strip", "install binutils, or leave --strip out")


def _packed(
    wanted: Sequence[Wanted], folder: Path, options: Options, scratch: Path, tell: Tell, began: float
) -> Packed:
    log = folder.with_name(f"{folder.name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    trees: dict[str, Tree] = {}
    rows = []
    for number, one in enumerate(wanted):
        tell(f"packing the environment of {', '.join(one.stacks)}")
        resolved, trees[str(number)] = _tree(one.spec, scratch / str(number), log, options, tell)
        rows.append(_row(one, str(number), resolved, trees[str(number)]))
    own = None
    if options.with_harness:
        tell("packing the harness")
        needs = harness.needs(options.target.python)
        resolved, trees[install.HARNESS] = _tree(
            needs, scratch / install.HARNESS, log, options, tell, harness.add_own_files
        )
        own = {
            "version": benchharness.__version__,
            "packages": resolved.lines,
            "from_host": resolved.from_host,
        }
    tell("compressing")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        written = archives.write(trees, folder, options.part_bytes, options.target.machine)
    except BaseException:
        # The folder was empty: half a bundle in it would only stand in the way of the next try.
        for part in folder.iterdir():
            part.unlink()
        raise
    shutil.copyfile(Path(install.__file__), folder / "install.py")
    manifest = {
        "format": install.FORMAT,
        "made_by": f"benchharness {benchharness.__version__}",
        "target": {"python": options.target.python, "platform": options.target.platform},
        "environments": rows,
        "harness": own,
        "archives": written,
    }
    (folder / install.MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    log.unlink()
    return Packed(folder, manifest, archives.total_bytes(written), time.monotonic() - began)


def _tree(
    spec: EnvironmentSpec,
    scratch: Path,
    log: Path,
    options: Options,
    tell: Tell,
    add: Callable[[Path], None] | None = None,
) -> tuple[Resolved, Tree]:
    """Resolve, fetch and look through one environment; `add` puts more into the fetched folder."""
    site, changed, resolving = scratch / "site", scratch / "changed", scratch / "resolving"
    for place in (site, changed, resolving):
        place.mkdir(parents=True)
    builder = Builder(site, log, tell)
    resolved = resolve(spec, options.target, options.without, builder, resolving)
    if resolved.lines:
        _fetch(spec, resolved, builder, scratch, options)
    if add is not None:
        add(site)
    quiet = Builder(site, log, lambda _: None)
    return resolved, scan(site, options.omit, quiet.strip if options.strip else None, changed)


def _fetch(
    spec: EnvironmentSpec, resolved: Resolved, builder: Builder, scratch: Path, options: Options
) -> None:
    fetched = replace(environments.settled(spec), requirements=resolved.lines, no_deps=True)
    with requirement_files(fetched, scratch) as files:
        builder.install_apart(files.requirements, (*files.options, *options.target.options))


def _row(one: Wanted, owner: str, resolved: Resolved, tree: Tree) -> dict[str, Any]:
    """An environment, as the manifest describes it."""
    return {
        "owner": owner,
        "stacks": list(one.stacks),
        "spec": json.loads(environments.masked(json.dumps(asdict(one.spec)))),
        "packages": list(resolved.lines),
        "from_host": list(resolved.from_host),
        "omitted": [*(f"{name} (package)" for name in resolved.without), *tree.omitted],
        "omitted_bytes": tree.omitted_bytes,
        "stripped_bytes": tree.stripped_bytes,
        "files": len(tree.files),
        "plain_bytes": sum(file.source.stat().st_size for file in tree.files),
    }
