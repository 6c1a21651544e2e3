"""The files of a bundle: each content once, in compressed archives that are cut into parts.

There is an archive of programs and libraries and one of all else, since these compress in different ways,
and both again for the harness, which `install.py` lays out alone. xz is used because the standard library
of every Python can read it.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import tarfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from threading import Event
from typing import IO, Any

from benchharness.stack.bundles.install import HARNESS, INDEX
from benchharness.stack.bundles.tree import Tree, TreeFile

ENGINE = "engine"
WINDOW_BYTES = 64 << 20
"""How far back equal bytes are found; reading takes as much memory, writing eleven times that."""


@dataclass(frozen=True)
class Archive:
    """One archive to be written: its owner, its kind, and its members by number."""

    owner: str
    kind: str
    members: tuple[tuple[int, TreeFile], ...]
    index: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Beginning of its parts' names."""
        return f"{self.owner}-{self.kind}.tar.xz"


def write(trees: Mapping[str, Tree], folder: Path, part_bytes: int, machine: str) -> list[dict[str, Any]]:
    """Write all trees, by owner; HARNESS is one, every other owner is an environment.

    Args:
        trees: owner -> its files.
        folder: existing; gets the parts.
        part_bytes: most bytes of one part.
        machine: the target's, as x86_64.

    Returns:
        For the manifest: owner, name, parts (file, bytes, sha256) and plain bytes of each archive.
    """
    archives = _archives(trees)
    stop = Event()
    with ThreadPoolExecutor(max_workers=2) as pool:
        try:
            return list(pool.map(lambda one: _write(one, folder, part_bytes, machine, stop), archives))
        except BaseException:
            # Compressing takes minutes: an interrupt must not wait for its end.
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _archives(trees: Mapping[str, Tree]) -> list[Archive]:
    numbers: dict[str, int] = {}
    members: dict[tuple[str, str], list[tuple[int, TreeFile]]] = {}
    index: dict[str, dict[str, Any]] = {HARNESS: {}, ENGINE: {}}
    for owner, tree in sorted(trees.items(), key=lambda pair: pair[0] != HARNESS):
        group = HARNESS if owner == HARNESS else ENGINE
        rows: dict[str, tuple[int, int]] = {}
        for one in tree.files:
            if one.digest not in numbers:
                numbers[one.digest] = len(numbers)
                kind = "binary" if one.binary else "text"
                members.setdefault((group, kind), []).append((numbers[one.digest], one))
            rows[one.path] = (numbers[one.digest], one.mode)
        index[group][owner] = rows
    return [
        Archive(group, kind, tuple(sorted(members.get((group, kind), []), key=_likeness)), index[group])
        for group in (HARNESS, ENGINE)
        for kind in ("text", "binary")
        if members.get((group, kind)) or (kind == "text" and index[group])
    ]


def _likeness(member: tuple[int, TreeFile]) -> tuple[str, str, str]:
    """An order in which like stands by like, whatever tree it is from."""
    path = PurePosixPath(member[1].path)
    return path.suffix, path.name, str(path)


class _Parts:
    """A file that is cut into parts as it is written."""

    def __init__(self, folder: Path, name: str, part_bytes: int) -> None:
        self.rows: list[dict[str, Any]] = []
        self._folder, self._name, self._limit = folder, name, part_bytes
        self._held = bytearray()

    def write(self, data: bytes) -> int:
        self._held += data
        while len(self._held) >= self._limit:
            self._cut(self._limit)
        return len(data)

    def close(self) -> None:
        if self._held:
            self._cut(len(self._held))

    def _cut(self, size: int) -> None:
        part, self._held = bytes(self._held[:size]), self._held[size:]
        file = f"{self._name}.{len(self.rows):02d}"
        (self._folder / file).write_bytes(part)
        self.rows.append({"file": file, "bytes": size, "sha256": hashlib.sha256(part).hexdigest()})


class _Stopped(Exception):  # noqa: N818 - ends a thread, and is told to nobody
    """The bundle isn't wanted any more."""


class _Stoppable:
    """A file that stops being readable once the bundle isn't wanted any more."""

    def __init__(self, file: IO[bytes], stop: Event) -> None:
        self._file, self._stop = file, stop

    def read(self, size: int = -1) -> bytes:
        if self._stop.is_set():
            raise _Stopped
        return self._file.read(size)


def _write(archive: Archive, folder: Path, part_bytes: int, machine: str, stop: Event) -> dict[str, Any]:
    parts = _Parts(folder, archive.name, part_bytes)
    plain = 0
    filters: list[dict[str, Any]] = [{"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": WINDOW_BYTES}]
    if archive.kind == "binary" and machine == "x86_64":
        filters.insert(0, {"id": lzma.FILTER_X86})
    with (
        lzma.LZMAFile(parts, "wb", filters=filters) as stream,  # type: ignore[arg-type]
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
    ):
        if archive.kind == "text":
            content = json.dumps(archive.index, separators=(",", ":")).encode()
            _add(tar, INDEX, len(content), io.BytesIO(content))
        for number, one in archive.members:
            size = one.source.stat().st_size
            plain += size
            with one.source.open("rb") as file:
                _add(tar, str(number), size, _Stoppable(file, stop))
    parts.close()
    return {"owner": archive.owner, "name": archive.name, "parts": parts.rows, "plain_bytes": plain}


def _add(tar: tarfile.TarFile, name: str, size: int, content: Any) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    tar.addfile(member, content)


def total_bytes(archives: Sequence[Mapping[str, Any]]) -> int:
    """Bytes of all parts."""
    return sum(part["bytes"] for archive in archives for part in archive["parts"])
