"""Files of a folder of installed packages, as they go into a bundle."""

from __future__ import annotations

import fnmatch
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchharness.stack.bundles.install import SHEBANG

ELF = b"\x7fELF"
SHEBANG_BYTES = 4096

Strip = Callable[[Path, Path], bool]
"""(library, file to write) -> whether it could be stripped."""


@dataclass(frozen=True)
class TreeFile:
    """One file of a tree.

    Attributes:
        path: where it belongs: under site-packages, or `bin/NAME` for scripts and programs.
        source: the file that has its bytes now.
        mode: 0o644 or 0o755.
        digest: SHA-256 of its bytes.
        binary: a program or library for the machine.
    """

    path: str
    source: Path
    mode: int
    digest: str
    binary: bool


@dataclass(frozen=True)
class Tree:
    """What is left of a folder of packages.

    Attributes:
        files: in the order of their paths.
        omitted: patterns that left something out.
        omitted_bytes: what they left out.
        stripped_bytes: what stripping took away.
    """

    files: tuple[TreeFile, ...]
    omitted: tuple[str, ...]
    omitted_bytes: int = 0
    stripped_bytes: int = 0


def scan(folder: Path, omit: Sequence[str], strip: Strip | None, scratch: Path) -> Tree:
    """Read a folder that `uv pip install --target` filled.

    Args:
        folder: packages, with scripts under `bin/`.
        omit: patterns of paths below it; `*` also stands for slashes.
        strip: how to take symbols out of a library; None keeps them.
        scratch: folder for changed copies; must be empty.
    """
    used: set[str] = set()
    files: list[TreeFile] = []
    omitted_bytes = stripped_bytes = 0
    for path in _paths(folder):
        name = path.relative_to(folder).as_posix()
        matching = [pattern for pattern in omit if fnmatch.fnmatchcase(name, pattern)]
        if matching:
            used.update(matching)
            omitted_bytes += path.stat().st_size
            continue
        one = _file(path, name)
        changed = _changed(one, strip, scratch / str(len(files)))
        if one.binary:
            stripped_bytes += path.stat().st_size - changed.source.stat().st_size
        files.append(changed)
    return Tree(tuple(files), tuple(sorted(used)), omitted_bytes, stripped_bytes)


def _paths(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.name != ".lock":
            yield path


def _file(path: Path, name: str) -> TreeFile:
    executable = bool(path.stat().st_mode & 0o111)
    with path.open("rb") as file:
        binary = file.read(len(ELF)) == ELF
    return TreeFile(name, path, 0o755 if executable else 0o644, digest_of(path), binary)


def _changed(one: TreeFile, strip: Strip | None, copy: Path) -> TreeFile:
    """The file stripped, or without the name of an interpreter that only this machine has."""
    if one.binary and strip is not None and not _grafted(one.path):
        return _with(one, copy) if strip(one.source, copy) and copy.stat().st_size else one
    if one.path.startswith("bin/") and not one.binary:
        first, _, rest = one.source.read_bytes().partition(b"\n")
        if first.startswith(b"#!") and b"python" in first:
            copy.write_bytes(SHEBANG + rest)
            return _with(one, copy)
    return one


def _grafted(path: str) -> bool:
    """A library that auditwheel put beside a package: `strip` breaks what patchelf has made of these."""
    return ".libs/" in path


def _with(one: TreeFile, copy: Path) -> TreeFile:
    return replace(one, source=copy, digest=digest_of(copy))


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
