"""The environments that stand in the cache: what each takes, when it was last used, and removing some."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benchharness.errors import InfrastructureError
from benchharness.records import Environment
from benchharness.stack import environments


@dataclass(frozen=True)
class Kept:
    """One environment in the cache.

    Attributes:
        environment: what it holds.
        own_bytes: what removing it would free: files that no other place shares by hard link.
        shared_bytes: files that uv's cache or another environment holds as well.
        last_used: when it was built or last given out, UTC.
    """

    environment: Environment
    own_bytes: int
    shared_bytes: int
    last_used: datetime


def kept(cache: Path) -> tuple[Kept, ...]:
    """Every finished environment of the cache, the one used longest ago first."""
    found = [_kept(environment) for environment in environments.installed(cache)]
    return tuple(sorted(found, key=lambda one: one.last_used))


def _kept(environment: Environment) -> Kept:
    own = shared = 0
    folder = Path(environment.path)
    for size, links in _files(folder):
        if links > 1:
            shared += size
        else:
            own += size
    used = (folder / environments.MANIFEST).stat().st_mtime
    return Kept(environment, own, shared, datetime.fromtimestamp(used, UTC))


def _files(folder: Path) -> Iterator[tuple[int, int]]:
    """(bytes on disk, hard links) of each file, each file once."""
    seen: set[int] = set()
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_file():
            continue
        status = path.stat()
        if status.st_ino not in seen:
            seen.add(status.st_ino)
            yield status.st_blocks * 512, status.st_nlink


def unused(cache: Path, days: float) -> tuple[Kept, ...]:
    """Environments that were not used for so many days and that no process runs from."""
    now = datetime.now(UTC)
    old = [one for one in kept(cache) if (now - one.last_used).total_seconds() > days * 86400]
    running = _programs()
    return tuple(one for one in old if not any(_within(one, program) for program in running))


def _programs() -> set[str]:
    programs: set[str] = set()
    for process in psutil.process_iter(["cmdline"]):
        programs.update((process.info["cmdline"] or [])[:1])
    return programs


def _within(one: Kept, program: str) -> bool:
    return program.startswith(f"{one.environment.path}/")


def remove(one: Kept) -> None:
    """Remove an environment, under its lock; InfrastructureError where the disk refuses."""
    folder = Path(one.environment.path)
    with environments.locked(folder, lambda _: None):
        try:
            # The manifest goes first: without it the folder counts as unfinished, whatever happens next.
            (folder / environments.MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(folder)
            folder.with_name(f"{folder.name}.log").unlink(missing_ok=True)
        except OSError as error:
            raise InfrastructureError(f"cannot remove {folder}: {error.strerror}") from None
