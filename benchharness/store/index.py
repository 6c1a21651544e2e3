"""An index of run manifests, so that ten thousand runs are listed without reading ten thousand files.

It is a cache and nothing else: each entry carries the stamps of its run.json (modification and change time,
size, inode) and is believed only while they hold. What is missing, damaged or stale is read anew. Launches
are not in it: they are counted where they lie.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from benchharness.store import lineage

NAME = ".runs.json"
FORMAT = 1
FEWEST = 100
"""Runs from which on an index is written: a few are read as fast without."""

RACY_NS = 2_000_000_000
"""A file that changed so lately may change again without its stamps showing it: it is read each time."""

Row = list[Any]
"""What an entry holds of a run: see `_row`."""


def rows(results: Path) -> Iterator[tuple[str, Row]]:
    """Folder and row of every run with a readable manifest, oldest first.

    A row is [run, experiment, created_at, planned launches, synthetic, finished, hardware, stacks, works],
    with stacks as [name, lineage, moving] and works as [context_tokens, digest].
    """
    place = str(results)
    known, fresh = _load(place), {}
    changed = False
    found: list[tuple[str, str, str, Row]] = []
    now = time.time_ns()
    for experiment, run, stamps in _manifests(place):
        key = f"{experiment}/{run}"
        entry = known.get(key)
        if entry is None or entry[0] != stamps:
            row = _read(f"{place}/{key}/run.json")
            if row is None:
                # A damaged manifest must not hide the other runs; `show` says what is wrong with it.
                continue
            entry, changed = [stamps, row], True
        if now - max(stamps[:2]) > RACY_NS:
            fresh[key] = entry
        found.append((run, experiment, f"{place}/{key}", entry[1]))
    if (changed or len(fresh) != len(known)) and len(fresh) >= FEWEST:
        _save(place, fresh)
    found.sort(key=lambda one: one[:2])
    for _, _, path, row in found:
        yield path, row


def launches_over(run: str) -> int:
    """Launches of a run that are over, counted by their launch.json."""
    try:
        names = os.listdir(f"{run}/launches")  # noqa: PTH208 - ten thousand of them
    except OSError:
        return 0
    return sum(name.isdigit() and os.access(f"{run}/launches/{name}/launch.json", os.F_OK) for name in names)


def _manifests(place: str) -> Iterator[tuple[str, str, list[int]]]:
    """Experiment, run and the stamps of run.json of every run."""
    for experiment in _folders(place):
        for run in _folders(f"{place}/{experiment}"):
            try:
                state = os.stat(f"{place}/{experiment}/{run}/run.json")  # noqa: PTH116 - ten thousand of them
            except OSError:
                continue
            yield experiment, run, [state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino]


def _folders(place: str) -> list[str]:
    try:
        with os.scandir(place) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except OSError:
        return []


def _read(path: str) -> Row | None:
    try:
        return _row(orjson.loads(Path(path).read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _row(document: dict[str, Any]) -> Row:
    plan = document["plan"]
    members = [lineage.member(stack) for stack in plan["stacks"]]
    return [
        document["id"],
        plan["experiment"],
        document["created_at"],
        len(plan["launches"]),
        bool(document.get("synthetic")),
        bool(document.get("finished")),
        lineage.hardware(document.get("machine") or {}),
        [[one.name, one.lineage, one.moving] for one in members],
        [[one["context_tokens"], lineage.work(one)] for one in plan["workloads"]],
    ]


def _load(place: str) -> dict[str, list[Any]]:
    """Entries by `experiment/run`; empty where there is no index or it is not to be believed."""
    try:
        document = orjson.loads(Path(f"{place}/{NAME}").read_bytes())
        entries: dict[str, list[Any]] = document["runs"] if document["format"] == FORMAT else {}
        fits = all(len(stamps) == 4 and len(row) == 9 for stamps, row in entries.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    return entries if fits else {}


def _save(place: str, entries: dict[str, list[Any]]) -> None:
    """Whole or not at all; a folder that can't be written to has no index."""
    partial = Path(f"{place}/{NAME}.{os.getpid()}.partial")
    with contextlib.suppress(OSError):
        try:
            partial.write_bytes(orjson.dumps({"format": FORMAT, "runs": entries}))
            partial.replace(f"{place}/{NAME}")
        except OSError:
            partial.unlink(missing_ok=True)
