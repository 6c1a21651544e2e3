"""What the system tells of a process: program, arguments, environment, libraries, whether it lives.

Of a process that is gone, or that belongs to somebody else, nothing is known: answers are then empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import psutil

LIBRARIES = {"nccl": re.compile(r"/libnccl\.so[.\d]*$")}
"""Name -> how the path of a library ends that is worth naming."""

COMPILER = re.compile(r"_inductor[/.]compile_worker")
"""torch starts these to compile graphs, with a PYTHONPATH made of its own sys.path."""

_TAKE_A_VALUE = ("-X", "-W", "--check-hash-based-pycs")
_END_OPTIONS = "cm"


def program(pid: int) -> str | None:
    """Path of what it executes."""
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return None


def engine_processes(main_pid: int, pids: Sequence[int]) -> list[int]:
    """Those of a tree that are the engine's own: of the same program as its first process, and no compilers.

    Compilers and other short-lived programs may well be started with another environment. torch's compile
    workers run the same program: they are known by their arguments, and so are the processes below them.
    """
    own = program(main_pid)
    if own is None:
        return []
    compilers = {pid for pid in pids if COMPILER.search(_what_runs(pid))}
    return [pid for pid in pids if program(pid) == own and not compilers & {pid, *_ancestors(pid)}]


def _what_runs(pid: int) -> str:
    """The script or module of an interpreter: its first argument that is no option."""
    return next((part for part in arguments(pid)[1:] if not part.startswith("-")), "")


def _ancestors(pid: int) -> set[int]:
    try:
        return {parent.pid for parent in psutil.Process(pid).parents()}
    except psutil.Error:
        return set()


def arguments(pid: int) -> tuple[str, ...]:
    """Its arguments, its own name first, as they are now: a process may rename itself."""
    raw = _read(pid, "cmdline")
    return tuple(part.decode(errors="replace") for part in raw.rstrip(b"\0").split(b"\0")) if raw else ()


def environ(pid: int) -> dict[str, str]:
    """The variables that it was started with."""
    pairs = (entry.partition(b"=") for entry in _read(pid, "environ").split(b"\0") if b"=" in entry)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, _, value in pairs}


def libraries(pid: int) -> dict[str, tuple[str, ...]]:
    """Paths of the libraries of `LIBRARIES` that it has mapped; several where it has several copies."""
    found: dict[str, set[str]] = {}
    for line in _read(pid, "maps").decode(errors="replace").splitlines():
        path = line.split(maxsplit=5)[5:]
        for name, ending in LIBRARIES.items():
            if path and ending.search(path[0].removesuffix(" (deleted)")):
                found.setdefault(name, set()).add(path[0])
    return {name: tuple(sorted(paths)) for name, paths in found.items()}


def python_options(argv: tuple[str, ...]) -> set[str]:
    """Letters of the options of a Python interpreter: `python -IB -W x a.py` -> I, B, W."""
    letters: set[str] = set()
    rest = iter(argv[1:])
    for argument in rest:
        if argument in _TAKE_A_VALUE:
            next(rest, None)
        if not argument.startswith("-") or argument in ("-", "--"):
            break
        if argument.startswith("--"):
            continue
        for letter in argument[1:]:
            letters.add(letter)
            if letter in "XW":
                break
            if letter in _END_OPTIONS:
                return letters
    return letters


def is_dead(pid: int) -> bool:
    """Whether it has ended; one that nobody has waited for yet has ended too."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


def cpu_s(pids: Iterable[int]) -> float:
    """User and system seconds of processes so far, with those of children that they have waited for."""
    spent = 0.0
    for pid in pids:
        try:
            spent += sum(psutil.Process(pid).cpu_times()[:4])
        except psutil.Error:
            continue
    return spent


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
