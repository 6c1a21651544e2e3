"""Packages taken from the interpreter that an environment is made of, each by links to its files.

A CUDA host may hold a build of torch that no index has. Only the distributions asked for, and what they
require, become visible in the environment; all else that the host has stays out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement

from benchharness.errors import UnbuildableError
from benchharness.stack.packages import normal

HOST_PYTHON = "BENCHHARNESS_HOST_PYTHON"
"""Variable that names another interpreter to take packages from."""
PATH_CODE = "import json, sys; print(json.dumps(sys.path))"
PATH_TIMEOUT_S = 60


def places(environment: Path) -> tuple[Path, ...]:
    """Folders with the packages of the host of an environment, the first to win.

    The host is what BENCHHARNESS_HOST_PYTHON names, else what the harness's own interpreter sees beyond its
    own environment if it is of the same version, and the interpreter that `environment` was made of.
    """
    chosen = os.environ.get(HOST_PYTHON)
    if chosen:
        return _unique(_path_of(chosen))
    base = _path_of(str(_base_python(environment)))
    own = environment_version(environment) == ".".join(map(str, sys.version_info[:2]))
    seen = sys.path if own else []
    return _unique([*_outside(seen), *base, *(place for place in seen if place.startswith(sys.prefix))])


def environment_version(environment: Path) -> str:
    """`3.12`, as the environment's library folder is named."""
    return next(iter(environment.glob("lib/python*/site-packages"))).parent.name.removeprefix("python")


def link(
    names: Iterable[str], environment: Path, *, leave_out: Collection[str] = (), only_these: bool = False
) -> dict[str, str]:
    """Link the host's distributions, with what they require as far as the host has it.

    What the environment holds already stays as it is.

    Args:
        names: normalised names.
        environment: a folder with `lib/pythonX.Y/site-packages`.
        leave_out: distributions that stay out although a linked one requires them.
        only_these: link nothing that the named ones require.

    Returns:
        Normalised name -> version of what was linked.

    Raises:
        UnbuildableError: the host has no such distribution.
    """
    wanted = sorted(set(names))
    if not wanted:
        return {}
    site = next(iter(environment.glob("lib/python*/site-packages")))
    version = environment_version(environment)
    there = {normal(one.metadata["Name"]) for one in distributions(path=[str(site)])}
    found = _found(places(environment))
    _refuse_missing(name for name in wanted if name not in found and name not in there)
    linked = [
        name
        for name in (wanted if only_these else _closure(wanted, found, leave_out, version))
        if name in found and name not in there
    ]
    owners = _owners(found, linked)
    for name in linked:
        _link_files(name, found, frozenset(linked), owners, site)
    return {name: found[name].version for name in linked}


def refuse_missing(names: Iterable[str], environment: Path) -> None:
    """Refuse distributions that the host doesn't have, before anything large is installed.

    Raises UnbuildableError.
    """
    wanted = sorted(set(names))
    found = _found(places(environment)) if wanted else {}
    _refuse_missing(name for name in wanted if name not in found)


def _refuse_missing(names: Iterable[str]) -> None:
    for name in names:
        raise UnbuildableError(
            f"the host's Python has no package {name}",
            f"install it there, or name the interpreter that has it by {HOST_PYTHON}",
        )


def _path_of(python: str) -> list[str]:
    try:
        ended = subprocess.run(
            [python, "-I", "-c", PATH_CODE],
            capture_output=True,
            text=True,
            timeout=PATH_TIMEOUT_S,
            check=True,
        )
        return [str(place) for place in json.loads(ended.stdout.splitlines()[-1])]
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise UnbuildableError(
            f"the host's interpreter {python} doesn't run: {error}", "correct its path"
        ) from None


def _base_python(environment: Path) -> Path:
    return (environment / "bin" / "python").resolve()


def _outside(seen: Sequence[str]) -> list[str]:
    return [place for place in seen if not place.startswith(sys.prefix)]


def _unique(seen: Iterable[str]) -> tuple[Path, ...]:
    """Folders of packages among them, each once."""
    folders = [Path(place) for place in seen if place.endswith(("site-packages", "dist-packages"))]
    return tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))


def _found(folders: Sequence[Path]) -> dict[str, Distribution]:
    found: dict[str, Distribution] = {}
    for folder in folders:
        for one in distributions(path=[str(folder)]):
            if one.metadata["Name"]:
                found.setdefault(normal(one.metadata["Name"]), one)
    return found


def _closure(
    names: Sequence[str], found: Mapping[str, Distribution], leave_out: Collection[str], version: str
) -> list[str]:
    """The names and, after them, what they require of what the host has."""
    order = list(names)
    for name in order:
        for line in (found[name].requires or ()) if name in found else ():
            requirement = Requirement(line)
            wanted = normal(requirement.name)
            if wanted in order or wanted not in found or wanted in leave_out:
                continue
            if requirement.marker is None or requirement.marker.evaluate(
                {"extra": "", "python_version": version}
            ):
                order.append(wanted)
    return order


def _owners(found: Mapping[str, Distribution], linked: Sequence[str]) -> dict[PurePosixPath, set[str]]:
    """Each path below the top entries of what is linked -> the distributions that have files there."""
    tops = {path.parts[0] for name in linked for path in _paths(found[name])}
    owners: dict[PurePosixPath, set[str]] = defaultdict(set)
    for name, one in found.items():
        for path in _paths(one):
            for above in (path, *path.parents) if path.parts[0] in tops else ():
                owners[above].add(name)
    return owners


def _paths(one: Distribution) -> Iterator[PurePosixPath]:
    """Files of a distribution under its folder of packages."""
    for path in one.files or ():
        if ".." not in path.parts and not path.is_absolute() and "__pycache__" not in path.parts:
            yield PurePosixPath(path)


def _link_files(
    name: str,
    found: Mapping[str, Distribution],
    linked: Collection[str],
    owners: Mapping[PurePosixPath, set[str]],
    site: Path,
) -> None:
    """Link whole folders where all their owners are linked from one place, else file by file."""
    one, done = found[name], set[PurePosixPath]()
    if not one.files:
        raise UnbuildableError(f"the host's package {name} lists no files", "install it there with pip")
    home = str(one.locate_file(""))

    def is_whole(path: PurePosixPath) -> bool:
        alike = all(other in linked and str(found[other].locate_file("")) == home for other in owners[path])
        return alike and not _is_folder(site / path)

    for path in _paths(one):
        whole = next((above for above in [*reversed(path.parents)][1:] if is_whole(above)), path)
        if whole in done:
            continue
        done.add(whole)
        place, source = site / whole, Path(home) / whole
        if source.exists() and not place.exists() and not place.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(source.absolute())


def _is_folder(place: Path) -> bool:
    """A real folder of the environment's own, into which links go one by one."""
    return place.is_dir() and not place.is_symlink()
