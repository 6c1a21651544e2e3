"""Files that unpacked environments share: each content once in the cache, hard-linked from there."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

READ_BYTES = 1 << 20
EXECUTABLE = 0o755


@contextmanager
def held(cache: Path, *, alone: bool = False) -> Iterator[Path]:
    """The folder of layers, kept from being swept meanwhile; `alone` waits until nobody else adds to it."""
    folder = cache.absolute() / "layers"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield folder


def add(folder: Path, content: IO[bytes]) -> Path:
    """Keep a content; the file that holds it, named by its SHA-256."""
    digest = hashlib.sha256()
    handle, draft = tempfile.mkstemp(dir=folder, prefix="new-")
    try:
        with os.fdopen(handle, "wb") as file:
            while block := content.read(READ_BYTES):
                digest.update(block)
                file.write(block)
        kept = folder / digest.hexdigest()[:2] / digest.hexdigest()
        if kept.exists():
            return kept
        kept.parent.mkdir(exist_ok=True)
        Path(draft).chmod(0o644)
        Path(draft).rename(kept)
    finally:
        Path(draft).unlink(missing_ok=True)
    return kept


def place(kept: Path, target: Path, mode: int) -> None:
    """Put a kept file at `target` by hard link; executable ones share a second copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if mode == EXECUTABLE:
        kept = _executable(kept)
    try:
        os.link(kept, target)
    except OSError as error:
        if error.errno not in (errno.EMLINK, errno.EXDEV, errno.EPERM):
            raise
        shutil.copyfile(kept, target)
        target.chmod(mode)


def _executable(kept: Path) -> Path:
    other = kept.with_name(f"{kept.name}x")
    if not other.exists():
        draft = kept.with_name(f"{kept.name}.{os.getpid()}")
        shutil.copyfile(kept, draft)
        draft.chmod(EXECUTABLE)
        draft.rename(other)
    return other


def unused_bytes(cache: Path) -> int:
    """What `sweep` would free."""
    return sum(path.stat().st_blocks * 512 for path in _unlinked(cache.absolute() / "layers"))


def sweep(cache: Path) -> int:
    """Remove contents that no environment holds; bytes that this freed."""
    if not (cache.absolute() / "layers").is_dir():
        return 0
    with held(cache, alone=True) as folder:
        freed = 0
        for path in list(_unlinked(folder)):
            freed += path.stat().st_blocks * 512
            path.unlink()
        return freed


def _unlinked(folder: Path) -> Iterator[Path]:
    for path in folder.glob("??/*"):
        if path.stat().st_nlink == 1:
            yield path
    yield from folder.glob("new-*")
