"""Records as JSON documents, whole or not at all, and the migration of older formats."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from benchharness.errors import InfrastructureError, UsageError
from benchharness.records import FORMAT_VERSION

_T = TypeVar("_T")

DAMAGED = "remove the folder that it stands in; a run goes on without it with --resume"

MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""Version -> what turns a run document of that version into one of the next."""


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def write(path: Path, kind: type[Any], record: Any) -> None:
    """Write a record as JSON by write-and-rename, so that a reader sees all of it or the old one.

    Raises InfrastructureError where the disk does not take it.
    """
    text = _adapter(kind).dump_json(record, indent=1)
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(text + b"\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise disk_error(path, error) from None


def disk_error(path: Path, error: OSError) -> InfrastructureError:
    """What to say when the disk does not take a file."""
    return InfrastructureError(
        f"cannot write {path}: {error.strerror or error}",
        "free some space or choose another --results; what was stored before is whole, go on with --resume",
    )


def read(path: Path, kind: type[_T]) -> _T:
    """Read a record; UsageError where the file is missing, damaged or from a newer version.

    Raises InfrastructureError where the disk does not give it.
    """
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{path} is missing", "is this a run's folder?") from None
    except OSError as error:
        raise InfrastructureError(
            f"cannot read {path}: {error.strerror or error}", "see to the disk and to its permissions"
        ) from None
    except ValueError as error:
        raise UsageError(f"{path} cannot be read: {error}", DAMAGED) from None
    if isinstance(document, dict) and "format_version" in document:
        document = migrated(document, path)
    try:
        record: _T = _adapter(kind).validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UsageError(
            f"{path} is damaged: {'.'.join(map(str, first['loc']))}: {first['msg']}", DAMAGED
        ) from None
    return record


def migrated(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """Bring a document to the present format, step by step; UsageError if it is from a newer one."""
    version = document["format_version"]
    if not isinstance(version, int) or version > FORMAT_VERSION or version < 1:
        raise UsageError(
            f"{path} has format version {version!r}, this benchharness reads up to {FORMAT_VERSION}",
            "upgrade benchharness",
        )
    while version < FORMAT_VERSION:
        document = MIGRATIONS[version](document)
        version += 1
        document["format_version"] = version
    return document


def over(run: Path) -> list[Path]:
    """The launch.json of every launch of a run that is over, in order.

    Folders of launches that were begun again (`NNN.interrupted-K`) are left out.
    """
    paths = [path for path in run.glob("launches/*/launch.json") if path.parent.name.isdigit()]
    return sorted(paths, key=lambda path: int(path.parent.name))
