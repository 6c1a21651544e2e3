"""The points of the axis that a question names, from whichever place knows them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchharness.bisect import discover, order
from benchharness.bisect.order import Named, Point, Release
from benchharness.bisect.session.question import COMMIT, RELEASE
from benchharness.bisect.session.state import Place
from benchharness.errors import HarnessError, UsageError
from benchharness.records import Stack
from benchharness.stack.git import repository_at

SHORT = 12
"""Characters of a commit's hash in its label."""

RENAMED = {"sgl-kernel": "sglang-kernel"}
"""Packages that changed their names: one axis runs through both."""

DISTRIBUTIONS = {"llamacpp": "xllamacpp", "sglang": "sglang", "vllm": "vllm"}
"""Engine -> the distribution whose version `source.release` is."""


@dataclass(frozen=True)
class Choice:
    """What of an axis counts as a point.

    Attributes:
        values: path -> ordered values that somebody wrote down; they win over whatever an index holds.
        paths: of commits, only those that change something below these.
        prereleases, yanked: of releases, take those too.
    """

    values: Mapping[str, Sequence[Any]]
    paths: tuple[str, ...] = ()
    prereleases: bool = False
    yanked: bool = False


@dataclass(frozen=True)
class Axis:
    """Points, the good end first, and what is to be said of them.

    Attributes:
        name: as the question names it.
        places: the points.
        notes: one sentence each.
    """

    name: str
    places: tuple[Place, ...]
    notes: tuple[str, ...] = ()


def lay_out(axis: str, good: str, bad: str, stack: Stack, choice: Choice) -> Axis:
    """All points from the good end to the bad one; UsageError where an end is not on the axis."""
    path = _path(axis)
    if path in choice.values:
        return _made(axis, order.between(order.listed(path, choice.values[path]), good, bad))
    if axis == COMMIT:
        return _commits(good, bad, stack, choice)
    if axis == RELEASE or axis == DISTRIBUTIONS.get(stack.engine):
        name = DISTRIBUTIONS.get(stack.engine)
        if name is None:
            raise UsageError(
                f"the engine {stack.engine} has no releases on an index",
                "write them down in order under `axes:`, as source.release: [1, 2, 3]",
            )
        found = order.releases(
            name,
            _releases(name, stack),
            prereleases=choice.prereleases,
            yanked=choice.yanked,
            as_source=True,
        )
        return _made(axis, order.between(found, good, bad))
    if "." in path.removeprefix("packages."):
        raise UsageError(
            f"nothing is known of the values of {axis}",
            f"write them down in order under `axes:`, as {path}: [a, b]",
        )
    return _made(axis, order.between(_package(path.removeprefix("packages."), stack, choice), good, bad))


def around(base: Stack, good: str, commit: str, bad: str) -> tuple[Place, ...]:
    """One commit between two ends, wherever it stands in history; UsageError for an unknown revision."""
    repo = base.source.repo
    git = repository_at(repo) if repo else None
    if repo is None or git is None:
        raise UsageError(f"stack {base.name} has no local clone", "set source.repo to the folder of one")
    points = []
    for revision in (good, commit, bad):
        sha = git.commit(revision)
        if sha is None:
            raise UsageError(f"{repo} has no commit {revision}", "fetch it first")
        points.append(order.commit(repo, sha))
    return _made(COMMIT, list({point.label: point for point in points}.values())).places


def entered(merge: Place, name: str) -> Axis:
    """The commits that a merge brought, as an axis of its own."""
    repo = str(merge.settings["source.repo"])
    found = discover.entered(repo, str(merge.settings["source.commit"]))
    made = _made(name, found.points, found.merges - {str(merge.settings["source.commit"])})
    return Axis(name, made.places, (f"entering the merge {merge.label}", *found.notes))


def _path(axis: str) -> str:
    """Where in a stack the axis lies; a bare word is a package."""
    if axis in (COMMIT, RELEASE):
        return f"source.{axis}"
    return axis if "." in axis else f"packages.{axis}"


def _commits(good: str, bad: str, stack: Stack, choice: Choice) -> Axis:
    if stack.source.repo is None:
        raise UsageError(
            f"stack {stack.name} has no repository, so there are no commits",
            "set source.repo to a clone, or bisect over --axis release",
        )
    found = discover.commits(stack.source.repo, good, bad, choice.paths)
    return Axis(COMMIT, _made(COMMIT, found.points, found.merges).places, found.notes)


def _package(name: str, stack: Stack, choice: Choice) -> tuple[Point, ...]:
    """Releases of a package, through a rename where there was one."""
    first, _, second = name.partition(":")
    later = second or RENAMED.get(first, "")
    if not later:
        return order.releases(
            first, _releases(first, stack), prereleases=choice.prereleases, yanked=choice.yanked
        )
    names = []
    for one in (first, later):
        try:
            names.append(Named(one, tuple(_releases(one, stack))))
        except UsageError:
            if one == first or second:
                raise
    return order.renamed(names, prereleases=choice.prereleases, yanked=choice.yanked)


def _releases(name: str, stack: Stack) -> list[Release]:
    """From folders of wheels and from the index, as an installation would see them."""
    found: dict[str, Release] = {}
    trouble: HarnessError | None = None
    for folder in stack.find_links:
        if Path(folder).expanduser().is_dir():
            try:
                found |= {one.version: one for one in discover.in_folder(folder, name, _python(stack))}
            except UsageError as error:
                trouble = error
    try:
        index = discover.releases(name, python=_python(stack), extra_index_urls=stack.extra_index_urls)
        found = {one.version: one for one in index} | found
    except HarnessError as error:
        trouble = error
    if not found and trouble is not None:
        raise trouble
    return list(found.values())


def _made(name: str, points: Sequence[Point], merges: Collection[str] = ()) -> Axis:
    places = []
    for point in points:
        label = point.label[:SHORT] if point.settings.get("source.commit") else point.label
        text = " ".join(part for part in (point.date[:10], point.subject) if part)
        merge = point.label in merges
        places.append(
            Place(label, label, dict(point.settings), text=text, unusable=point.unbuildable, merge=merge)
        )
    return Axis(name, tuple(places))


def _python(stack: Stack) -> str:
    """The interpreter of the stack's environments."""
    return stack.python or f"{sys.version_info.major}.{sys.version_info.minor}"
