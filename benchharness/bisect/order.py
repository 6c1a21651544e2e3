"""Points of an axis in order: what each one sets in a stack, and the slice between two ends (pure)."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from packaging.version import InvalidVersion, Version

from benchharness.errors import UsageError, nearest
from benchharness.records import Model, Source, Stack
from benchharness.spec.document import split
from benchharness.spec.matrix import check_path, text_of

Part = TypeVar("Part", Source, Model)

LEAST_HASH = 4
"""Characters of a hash that may stand for it."""


class Declared(enum.Enum):
    """A value that takes the declaration itself away: the engine's own default holds again.

    In `packages`, None leaves a distribution out of the environment; this leaves it to the engine's pins.
    """

    NOT = "not declared"


@dataclass(frozen=True)
class Point:
    """One point of an axis.

    Attributes:
        label: unique on its axis: a version, a full hash, a value.
        settings: path in the experiment's `base` -> value, as `packages.sgl-kernel: "0.3.20"`.
        date: for people; empty where none is known.
        subject: for people: a commit's first line.
        unbuildable: why it can't be built, where that is known before trying; else empty.
    """

    label: str
    settings: Mapping[str, Any]
    date: str = ""
    subject: str = ""
    unbuildable: str = ""


@dataclass(frozen=True)
class Release:
    """One version of a package, as an index or a folder of wheels tells of it.

    Attributes:
        version: as it is written there, with a local part if it has one.
        date: of its upload, where that is told.
        yanked: why it was withdrawn; None if it wasn't.
        unbuildable: why it can't be installed here; empty if nothing is known against it.
    """

    version: str
    date: str = ""
    yanked: str | None = None
    unbuildable: str = ""


@dataclass(frozen=True)
class Named:
    """The releases under one name of a package."""

    name: str
    releases: tuple[Release, ...]


def releases(
    package: str,
    found: Iterable[Release],
    *,
    prereleases: bool = False,
    yanked: bool = False,
    as_source: bool = False,
) -> tuple[Point, ...]:
    """A package's releases in version order.

    Args:
        package: name of the distribution.
        found: in any order; what is no version by PEP 440 is left out.
        prereleases: take release candidates and development versions too.
        yanked: take withdrawn releases too.
        as_source: the package is the engine itself, so a point sets `source.release`.
    """
    points = []
    for release in _in_order(found, prereleases, yanked):
        if as_source:
            settings: dict[str, Any] = {
                "source.release": release.version,
                "source.repo": None,
                "source.commit": None,
                "source.patch": None,
            }
        else:
            settings = {f"packages.{package}": release.version}
        points.append(_point(release, settings))
    return tuple(points)


def renamed(names: Sequence[Named], *, prereleases: bool = False, yanked: bool = False) -> tuple[Point, ...]:
    """One axis of a package that changed its name; oldest name first.

    Each point sets the name that it needs and leaves the others out of the environment. Versions run in
    their order; one that stands under two names is taken under the later one. Where a later name began
    to count anew (its highest version is below the earlier name's), its versions follow after all
    earlier ones; a version that then stands twice is labelled with its name, as `sgl-kernel==0.3.1`.
    """
    rows: list[tuple[int, Version, str, Release]] = []
    era, highest = 0, None
    for named in names:
        own = _in_order(named.releases, prereleases, yanked)
        if not own:
            continue
        top = Version(own[-1].version)
        if highest is not None and top < highest:
            era += 1
        highest = top
        rows = [row for row in rows if (row[0], row[1]) not in {(era, Version(one.version)) for one in own}]
        rows += [(era, Version(one.version), named.name, one) for one in own]
    points, owners = [], []
    everybody = [named.name for named in names]
    for _, _, name, release in sorted(rows, key=lambda row: row[:2]):
        others = {f"packages.{other}": None for other in everybody if other != name}
        point = _point(release, {**others, f"packages.{name}": release.version})
        points.append(replace(point, subject=f"{name}, {point.subject}".rstrip(", ")))
        owners.append(name)
    labels = [point.label for point in points]
    return tuple(
        replace(point, label=f"{name}=={point.label}") if labels.count(point.label) > 1 else point
        for point, name in zip(points, owners, strict=True)
    )


def commit(repo: str, sha: str, *, date: str = "", subject: str = "", unbuildable: str = "") -> Point:
    """One commit of a repository, by its full hash."""
    settings = {"source.release": None, "source.repo": repo, "source.commit": sha}
    return Point(sha, settings, date, subject, unbuildable)


def listed(path: str, values: Sequence[Any]) -> tuple[Point, ...]:
    """Points for an ordered list that somebody wrote, as `env.LD_LIBRARY_PATH: [a, b, c]`.

    Raises:
        UsageError: the path leads nowhere, or a value stands twice.
    """
    check_path("--axis", path)
    labels = [text_of(value) for value in values]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"{path} has the value {label!r} twice", "remove one of them")
    return tuple(Point(label, {path: value}) for label, value in zip(labels, values, strict=True))


def between(points: Sequence[Point], good: str, bad: str) -> tuple[Point, ...]:
    """The points from the good end to the bad one, good end first.

    The good end may be the later one: which is newer never decides which is better.

    Args:
        points: the whole axis in order.
        good, bad: a label; of commits also the beginning of a hash; a version may be written differently.

    Raises:
        UsageError: an end that isn't on the axis, both ends alike, an axis with a single point.
    """
    if len(points) < 2:
        only = f"only {points[0].label}" if points else "no point"
        raise UsageError(f"the axis has {only}, so there is nothing to bisect", "name an axis that varies")
    first, last = _index(points, good, "good"), _index(points, bad, "bad")
    if first == last:
        raise UsageError(f"the good and the bad end are both {points[first].label}", "name two points")
    if first < last:
        return tuple(points[first : last + 1])
    return tuple(reversed(points[last : first + 1]))


def on(stack: Stack, point: Point) -> Stack:
    """The stack at a point of the axis; its name tells both."""
    name = point.label if stack.name == "base" else f"{stack.name},{point.label}"
    return replace(applied(stack, point.settings), name=name)


def applied(stack: Stack, settings: Mapping[str, Any]) -> Stack:
    """The stack with further settings.

    Args:
        stack: what it stands on.
        settings: path in `base` -> value. None leaves a package out and takes anything else away;
            `Declared.NOT` takes a package's declaration away.

    Raises:
        UsageError: a path that leads nowhere, or a value that can't stand there.
    """
    for path, value in settings.items():
        check_path("axis", path)
        section, *rest = split(path)
        if section in ("packages", "env", "args"):
            stack = _in_map(stack, section, rest[0], value)
        elif section == "source":
            changed = _replaced(path, stack.source, rest[0], value)
            # What differs from the commit belongs to the commit that it was found beside.
            stack = replace(stack, source=replace(changed, diff_sha256="", folder=None))
        elif section == "model":
            stack = replace(stack, model=_replaced(path, stack.model, rest[0], value))
        elif section == "python":
            stack = replace(stack, python=None if value in (None, Declared.NOT) else text_of(value))
        else:
            raise UsageError(f"{path} can't be an axis", "name one of source, packages, env, model, args")
    return stack


def normal(name: str) -> str:
    """The normalised name of a distribution."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _in_map(stack: Stack, section: str, key: str, value: Any) -> Stack:
    kept = dict(getattr(stack, section))
    if section == "packages":
        kept = {name: found for name, found in kept.items() if normal(name) != normal(key)}
    else:
        kept.pop(key, None)
    if value is None and section == "packages":
        kept[key] = None
    elif value is not None and value is not Declared.NOT:
        kept[key] = value if section == "args" else text_of(value)
    changed: dict[str, Any] = {section: kept}
    return replace(stack, **changed)


def _replaced(path: str, record: Part, key: str, value: Any) -> Part:
    """A source or model with one field changed; numbers stay numbers, all else is text."""
    known: dict[str, Any] = {one.name: one.default for one in fields(record)}
    known |= {"folder": ..., "diff_sha256": ...}
    default = known.get(key, ...)
    if default is ...:
        settable = [name for name, found in known.items() if found is not ...]
        raise UsageError(f"there is no {path}{nearest(key, settable)}", "correct the path")
    if value is None or value is Declared.NOT:
        changed: dict[str, Any] = {key: default}
        return replace(record, **changed)
    if not isinstance(default, int):
        changed = {key: text_of(value)}
        return replace(record, **changed)
    try:
        changed = {key: int(value)}
        return replace(record, **changed)
    except (TypeError, ValueError):
        raise UsageError(
            f"{path} needs a whole number, not {text_of(value)!r}", "correct the value"
        ) from None


def _index(points: Sequence[Point], wanted: str, which: str) -> int:
    """Where an end stands: its label, the same version, or the only hash that begins so."""
    labels = [point.label for point in points]
    if wanted in labels:
        return labels.index(wanted)
    version = _version(wanted)
    same = [at for at, label in enumerate(labels) if version is not None and _version(label) == version]
    if not same and len(wanted) >= LEAST_HASH and re.fullmatch(r"[0-9a-f]+", wanted):
        same = [at for at, label in enumerate(labels) if label.startswith(wanted)]
    if len(same) == 1:
        return same[0]
    if same:
        shown = ", ".join(labels[at] for at in same[:4])
        raise UsageError(f"the {which} end {wanted!r} may be any of {shown}", "write it in full")
    raise UsageError(
        f"the {which} end {wanted!r} is not on the axis{nearest(wanted, labels)}",
        f"the axis runs from {labels[0]} to {labels[-1]}",
    )


def _in_order(found: Iterable[Release], prereleases: bool, yanked: bool) -> list[Release]:
    kept = {}
    for release in found:
        version = _version(release.version)
        if version is None or (version.is_prerelease and not prereleases):
            continue
        if release.yanked is None or yanked:
            kept[version] = release
    return [kept[version] for version in sorted(kept)]


def _point(release: Release, settings: Mapping[str, Any]) -> Point:
    subject = "" if release.yanked is None else f"yanked: {release.yanked}".rstrip(": ")
    return Point(release.version, settings, release.date, subject, release.unbuildable)


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None
