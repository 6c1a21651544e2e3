"""An engine's log, read while it grows: bounded memory, whatever the engine writes into it."""

from __future__ import annotations

import os
import re
from pathlib import Path

CHUNK_BYTES = 64 * 1024
CARRY_BYTES = 16 * 1024
TAIL_BYTES = 256 * 1024
LINE_CHARACTERS = 300

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_READABLE_END = re.compile(r"[^\x00-\x1f\x7f\ufffd]*\Z")
_NOT_TEXT_SHARE = 0.3


class GrowingLog:
    """A log file followed from byte `start` on."""

    def __init__(self, path: Path, start: int = 0) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        os.lseek(self._fd, start, os.SEEK_SET)
        self._carry = b""

    def close(self) -> None:
        """Close the file; it may be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def find(self, pattern: re.Pattern[str], limit_bytes: int = 16 * CHUNK_BYTES) -> bool:
        """Whether what was added since the last call has the pattern; reads at most `limit_bytes`.

        Colour codes are left out. A line that is still being written counts as far as it goes.
        """
        for _ in range(max(1, limit_bytes // CHUNK_BYTES)):
            data = os.read(self._fd, CHUNK_BYTES)
            if not data:
                return False
            data = self._carry + data
            if pattern.search(_without_colours(data)):
                return True
            # The last line may go on in the next read; a line without end is kept only in part.
            self._carry = data[data.rfind(b"\n") + 1 :][-CARRY_BYTES:]
        return False

    def new_lines(self, limit_bytes: int = 16 * CHUNK_BYTES) -> tuple[str, ...]:
        """The lines completed since the last call, made fit for printing."""
        found: list[str] = []
        for _ in range(max(1, limit_bytes // CHUNK_BYTES)):
            data = os.read(self._fd, CHUNK_BYTES)
            if not data:
                break
            *lines, rest = (self._carry + data).split(b"\n")
            self._carry = rest[-CARRY_BYTES:]
            found += [text for line in lines if (text := _printable(line))]
        return tuple(found)


def log_tail(path: Path, lines: int = 20) -> tuple[str, ...]:
    """The last non-empty lines of a log, oldest first, fit for printing; () if it can't be read.

    Reads the file's end only. Colours are left out, long lines are shortened, and a line that is
    no text is told by its size.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            raw = file.read(TAIL_BYTES).split(b"\n")
    except OSError:
        return ()
    if size > TAIL_BYTES and any(raw[1:]):
        del raw[0]  # it began before what was read
    found: list[str] = []
    for line in reversed(raw):
        text = _printable(line)
        if text:
            found.append(text)
        if len(found) == lines:
            break
    return tuple(reversed(found))


def _without_colours(data: bytes) -> str:
    return _ANSI.sub("", data.decode("utf-8", errors="replace"))


def _readable_end(text: str) -> str:
    found = _READABLE_END.search(text)
    return found[0] if found else ""


def _printable(line: bytes) -> str:
    # A progress bar overwrites its own line: what stands last is what a person would have seen.
    text = _without_colours(line.rstrip(b"\r \t")).rpartition("\r")[2].rstrip()
    odd = text.count("\ufffd") + len(_CONTROL.findall(text))
    if odd > _NOT_TEXT_SHARE * len(text):
        text = f"({len(line)} bytes that are not text) {_readable_end(text)}".rstrip()
    text = _CONTROL.sub("\ufffd", text)
    if len(text) <= LINE_CHARACTERS:
        return text
    head, tail = LINE_CHARACTERS * 2 // 3, LINE_CHARACTERS // 3
    return f"{text[:head]} … {text[-tail:]} ({len(text)} characters)"
