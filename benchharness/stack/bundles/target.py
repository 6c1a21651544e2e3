"""The host that a bundle is for, and what its packages come to there."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from platform import machine

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from benchharness.errors import UnbuildableError, UsageError
from benchharness.records import EnvironmentSpec
from benchharness.stack import environments
from benchharness.stack.packages import normal
from benchharness.stack.requirements import requirement_files
from benchharness.stack.uv import Builder

_LISTED = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\s*(?:==|\s)\s*([\w.!+-]+))?\s*$")


@dataclass(frozen=True)
class Target:
    """A host without a network.

    Attributes:
        python: its Python, as 3.12.
        platform: as uv names platforms: x86_64-manylinux_2_34.
        packages: normalised name -> version of what it has already; None where the version isn't known.
    """

    python: str
    platform: str
    packages: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def machine(self) -> str:
        """`x86_64`."""
        return self.platform.partition("-")[0]

    @property
    def options(self) -> tuple[str, ...]:
        """For uv: take wheels of that interpreter and platform only."""
        chosen = ("--python-version", self.python, "--python-platform", self.platform)
        return (*chosen, "--only-binary", ":all:")


@dataclass(frozen=True)
class Resolved:
    """What a specification comes to on the target.

    Attributes:
        lines: `name==version` of what the bundle must bring, sorted.
        from_host: normalised names that the host brings, beside those that the specification takes from it.
        without: those of the packages left out by hand that would have been in.
    """

    lines: tuple[str, ...]
    from_host: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def target(python: str | None, platform: str | None, packages: Path | None, more: Iterable[str]) -> Target:
    """The host as a user names it; what is left open is as here.

    Args:
        python: version, as 3.12.
        platform: as uv names it.
        packages: a file with the host's packages.
        more: further packages that it has, of unknown version or as NAME==VERSION.
    """
    if python is not None and not re.fullmatch(r"3\.\d+", python):
        raise UsageError(f"--python {python}: no version of Python", "write it as 3.12")
    if platform is not None and not re.fullmatch(
        r"(?:x86_64|aarch64)-(?:unknown-linux-gnu|manylinux[\w]+)|linux", platform
    ):
        raise UsageError(
            f"--platform {platform}: no platform that a bundle can be for",
            "write it as x86_64-manylinux_2_34",
        )
    there = {} if packages is None else listed_packages(packages)
    there |= dict(_listed(text, "--host-has") for text in more)
    return Target(
        python or ".".join(map(str, sys.version_info[:2])),
        platform or f"{machine()}-manylinux_2_34",
        there,
    )


def listed_packages(file: Path) -> dict[str, str | None]:
    """Packages of a host, from what `pip list` or `pip freeze` printed there, or from bare names.

    Raises UsageError if the file can't be read or has a line that names no package.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the list of the host's packages {file} can't be read: {error}") from None
    found: dict[str, str | None] = {}
    for number, line in enumerate(lines, 1):
        text = re.sub(r"\s@\s.*|\s*#.*", "", line).strip()
        if not text or set(text) <= {"-", " "} or text.split() == ["Package", "Version"]:
            continue
        name, version = _listed(text, f"{file}:{number}")
        found[name] = version
    return found


def _listed(text: str, where: str) -> tuple[str, str | None]:
    match = _LISTED.match(text)
    if match is None:
        raise UsageError(f"{where}: {text!r} is no package", "write NAME or NAME==VERSION")
    return normal(match[1]), match[2]


def resolve(
    spec: EnvironmentSpec, target: Target, without: Collection[str], builder: Builder, scratch: Path
) -> Resolved:
    """Resolve for the target, leaving to the host whatever it has in a version that fits.

    A package of the host's with a known version is taken where the resolution can choose that very version;
    one without, wherever the specification doesn't pin the package itself.

    Args:
        spec: of the environment.
        target: the host.
        without: normalised names that stay out of the bundle.
        builder: runs uv.
        scratch: an empty folder.

    Raises:
        UnbuildableError: nothing fits.
    """
    run = _Resolution(spec, target, builder, scratch)
    if spec.no_deps or not spec.requirements:
        return _exact(spec, target, without)
    out = _effective(run, without) if without else ()
    first = run(out, {name: version for name, version in target.packages.items() if version})
    pinned = {_name(line) for line in spec.requirements if "==" in line}
    taken = sorted(name for name, version in first.items() if _taken(name, version, target, pinned))
    shipped = first
    if taken:
        # What only the host's packages ask for is the host's business, unless it has no such package at all.
        lacking = {name: version for name, version in first.items() if name not in target.packages}
        shipped = lacking | run((*out, *taken), first)
    return Resolved(_lines(shipped), tuple(taken), tuple(sorted(out)))


@dataclass
class _Resolution:
    """Runs of uv's resolver for one specification."""

    spec: EnvironmentSpec
    target: Target
    builder: Builder
    scratch: Path
    count: int = 0

    def __call__(self, out: Sequence[str], preferred: Mapping[str, str]) -> dict[str, str]:
        """Name -> version, without `out`, and with the preferred versions where they fit."""
        self.count += 1
        folder = self.scratch / str(self.count)
        folder.mkdir()
        lock = folder / "lock.txt"
        lock.write_text("".join(f"{name}=={_public(text)}\n" for name, text in preferred.items()))
        spec = replace(self.spec, excludes=(*self.spec.excludes, *out))
        with requirement_files(environments.settled(spec), folder) as files:
            self.builder.resolve(files.requirements, lock, (*files.options, *self.target.options))
        return dict(_pair(line) for line in lock.read_text(encoding="utf-8").splitlines() if "==" in line)


def _effective(
    run: Callable[[Sequence[str], Mapping[str, str]], dict[str, str]], without: Collection[str]
) -> list[str]:
    """Those left out that the resolution would otherwise hold; all if it only succeeds without them."""
    try:
        whole = run((), {})
    except UnbuildableError:
        return sorted(without)
    return sorted(set(without) & set(whole))


def _exact(spec: EnvironmentSpec, target: Target, without: Collection[str]) -> Resolved:
    """Of a specification that lists all it wants."""
    pairs = dict(_pair(line) for line in spec.requirements)
    taken = sorted(name for name, version in pairs.items() if _taken(name, version, target, pairs))
    out = sorted(set(without) & set(pairs))
    kept = {name: version for name, version in pairs.items() if name not in {*taken, *out}}
    return Resolved(_lines(kept), tuple(taken), tuple(out))


def _taken(name: str, version: str, target: Target, pinned: Collection[str]) -> bool:
    if name not in target.packages:
        return False
    there = target.packages[name]
    return name not in pinned if there is None else _public(there) == _public(version)


def _lines(pairs: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(f"{name}=={version}" for name, version in pairs.items()))


def _pair(line: str) -> tuple[str, str]:
    name, _, version = line.partition("==")
    return normal(name.partition("[")[0].strip()), version.partition(";")[0].strip()


def _name(line: str) -> str:
    try:
        return normal(Requirement(line).name)
    except InvalidRequirement:
        raise UsageError(f"a requirement is malformed: {line}", "write it as `name==version`") from None


def _public(version: str) -> str:
    """Without the local part: no index has 2.11.0+cu130."""
    try:
        return Version(version).public
    except InvalidVersion:
        return version
