"""Versions of a package by its files: in a folder of wheels, and which of them fit an interpreter."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging import tags
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion

from benchharness.bisect.order import Release
from benchharness.errors import UsageError

LATE_MICRO = 99
"""Stands for the last patch release of an interpreter whose own isn't given."""


@dataclass(frozen=True)
class Distribution:
    """One file of a package.

    Attributes:
        filename: of a wheel or a source archive.
        requires_python: specifier, empty if any will do.
        yanked: why it was withdrawn; None if it wasn't.
        date: of its upload, ISO 8601; empty if it isn't told.
    """

    filename: str
    requires_python: str = ""
    yanked: str | None = None
    date: str = ""


@dataclass(frozen=True)
class _Read:
    """A file's name, understood; a source archive has no tags."""

    file: Distribution
    version: str
    tags: frozenset[Tag]


def in_folder(folder: str, package: str, python: str | None = None) -> tuple[Release, ...]:
    """Every version of a package in a folder of wheels, local versions (`0.3.20+cu128`) included.

    Args:
        folder: read without its subfolders, as `find_links:` is.
        package: name of the distribution.
        python: version of the environment's interpreter; None or a path checks nothing.

    Raises:
        UsageError: no such folder, or nothing of that package in it.
    """
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise UsageError(f"there is no folder {folder}", "name a folder of wheels")
    found = of_files(package, (Distribution(path.name) for path in sorted(place.iterdir())), python)
    if not found:
        raise UsageError(f"{folder} has no wheel of {package}", "check the name, or name another folder")
    return found


def of_files(package: str, files: Iterable[Distribution], python: str | None = None) -> tuple[Release, ...]:
    """The files of one package by version; other packages' files and names nobody can read are left out.

    A version is marked unbuildable if none of its files fits the interpreter and this machine. A source
    archive fits any that its `requires_python` allows.
    """
    grouped: dict[str, list[_Read]] = {}
    for file in files:
        read = _read(package, file)
        if read is not None:
            grouped.setdefault(read.version, []).append(read)
    version = _interpreter(python)
    return tuple(_release(text, group, version) for text, group in grouped.items())


def _read(package: str, file: Distribution) -> _Read | None:
    try:
        if file.filename.endswith(".whl"):
            name, version, _, fitting = parse_wheel_filename(file.filename)
        else:
            name, version = parse_sdist_filename(file.filename)
            fitting = frozenset()
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None
    return _Read(file, str(version), fitting) if name == canonicalize_name(package) else None


def _release(version: str, group: list[_Read], python: tuple[int, ...] | None) -> Release:
    withdrawn = [one.file.yanked for one in group]
    standing = [one for one in group if one.file.yanked is None] or group
    dates = sorted(one.file.date for one in group if one.file.date)
    return Release(
        version=version,
        date=dates[0] if dates else "",
        yanked=None if None in withdrawn else withdrawn[0],
        unbuildable="" if python is None else _why_not(version, standing, python),
    )


def _why_not(version: str, group: list[_Read], python: tuple[int, ...]) -> str:
    """Why no file fits; empty if one does."""
    text = ".".join(map(str, python))
    allowed = [one for one in group if _allows(one.file.requires_python, python)]
    if not allowed:
        return f"{version} needs Python {group[0].file.requires_python}, and the environment has {text}"
    if any(not one.tags for one in allowed):
        return ""
    wheels = frozenset().union(*(one.tags for one in allowed))
    if wheels & _supported(python[:2]):
        return ""
    made_for = ", ".join(sorted({f"{tag.interpreter}-{tag.platform}" for tag in wheels})[:4])
    return f"{version} has wheels for {made_for} only, and the environment has Python {text} on this machine"


def _supported(python: tuple[int, ...]) -> frozenset[Tag]:
    digits = "".join(map(str, python))
    own = tags.cpython_tags(python_version=python)
    return frozenset([*own, *tags.compatible_tags(python_version=python, interpreter=f"cp{digits}")])


def _allows(specifier: str, python: tuple[int, ...]) -> bool:
    try:
        allowed = SpecifierSet(specifier)
    except InvalidSpecifier:
        return True
    micros = (0, LATE_MICRO) if len(python) == 2 else (python[2],)
    return any(allowed.contains(f"{python[0]}.{python[1]}.{micro}") for micro in micros)


def _interpreter(python: str | None) -> tuple[int, ...] | None:
    found = re.fullmatch(r"(?:cpython-?|python)?(\d+)\.(\d+)(?:\.(\d+))?", python or "")
    return None if found is None else tuple(int(part) for part in found.groups() if part is not None)
