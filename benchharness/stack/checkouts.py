"""Checkouts that stand in the cache under `sources/`: which were not used for long, and removing them."""

from __future__ import annotations

import fcntl
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from benchharness.errors import InfrastructureError
from benchharness.stack.git import Git, GitFailure


@dataclass(frozen=True)
class KeptCheckout:
    """A commit's folder in the cache.

    Attributes:
        path: the folder; its record stands beside it as `NAME.json`.
        last_used: when it was made or last given out, UTC.
        size_bytes: of its files on disk.
    """

    path: Path
    last_used: datetime
    size_bytes: int

    @property
    def name(self) -> str:
        """Repository and commit, as the cache calls them."""
        return f"{self.path.parent.name}/{self.path.name}"


def unused(cache: Path, days: float) -> tuple[KeptCheckout, ...]:
    """Checkouts that were not used for so many days and that no process has on its PYTHONPATH."""
    now = datetime.now(UTC)
    records = sorted((cache.absolute() / "sources").glob("*/*.json"))
    found = [_kept(record) for record in records if record.with_suffix("").is_dir()]
    old = [one for one in found if (now - one.last_used).total_seconds() > days * 86400]
    running = _paths_of_processes() if old else ""
    return tuple(one for one in old if str(one.path) not in running)


def _kept(record: Path) -> KeptCheckout:
    path = record.with_suffix("")
    size = sum(file.lstat().st_blocks * 512 for file in path.rglob("*"))
    return KeptCheckout(path, datetime.fromtimestamp(record.stat().st_mtime, UTC), size)


def _paths_of_processes() -> str:
    found = []
    for process in psutil.process_iter():
        try:
            found.append(process.environ().get("PYTHONPATH", ""))
        except (psutil.Error, OSError):
            continue
    return "\n".join(found)


def remove(one: KeptCheckout) -> None:
    """Remove a checkout and its record, and have our own clone forget it; InfrastructureError if it fails."""
    repository = one.path.parent
    try:
        with repository.with_name(f"{repository.name}.lock").open("w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # The record goes first: without it the folder counts as half made, whatever happens next.
            one.path.with_name(f"{one.path.name}.json").unlink(missing_ok=True)
            shutil.rmtree(one.path)
            # What was read from that code stands beside it.
            shutil.rmtree(one.path.with_name(f"{one.path.name}.arguments"), ignore_errors=True)
            mirror = repository.with_name(f"{repository.name}.git")
            if mirror.exists():
                Git(mirror).run("worktree", "prune")
    except OSError as error:
        raise InfrastructureError(f"cannot remove {one.path}: {error.strerror}") from None
    except GitFailure as failure:
        raise failure.as_error(str(repository)) from None
