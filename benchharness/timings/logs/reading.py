"""The bytes of a log, in blocks of whole lines: plain, gzip or Zstandard, however large or broken.

What a file is is told by its first bytes, not by its name. Memory is bounded by the size of a block and by
the longest line that is looked at: a longer one is left out and counted. A compressed file that was cut
off gives all that can be decompressed. A plain file that is being written is read up to the size that it
had when it was opened.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

import numpy as np

from benchharness.errors import UsageError

BLOCK = 1 << 20
"""Bytes of a block: small enough that the passes over it run in a processor's cache."""
LONGEST = 4 << 20
"""Bytes of the longest line that is looked at."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines.

    Attributes:
        data: the lines, each with its line feed; only a log's last may lack it.
        first: number of the first of them, from 1.
        lines: how many there are.
        overlong: numbers of the lines that were too long to look at; an empty line stands for each.
    """

    data: bytes
    first: int
    lines: int
    overlong: tuple[int, ...] = ()


def _block(data: bytes, first: int, overlong: int) -> Block:
    ends = np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    return Block(data, first, int(ends) + (not data.endswith(b"\n")), (overlong,) if overlong else ())


class Log:
    """A log that is read once, from beginning to end.

    Args:
        stream: where its bytes come from.
        limit: read no more than that many bytes of it; None for all.

    Attributes:
        truncated: after reading: the compressed stream ended too early or is damaged.
        unfinished: after reading: the last line has no line feed.
        size: after reading: its bytes, decompressed.
    """

    def __init__(self, stream: _Filled, limit: int | None = None) -> None:
        self.truncated = False
        self.unfinished = False
        self.size = 0
        self._stream = stream
        self._limit = limit

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def blocks(self) -> Iterator[Block]:
        """Its lines in blocks."""
        rest, first, overlong, skipping = b"", 1, 0, False
        for piece in self._pieces():
            self.size += len(piece)
            if skipping:
                _, feed, after = piece.partition(b"\n")
                skipping = not feed
                if skipping:
                    continue
                overlong, data = first, b"\n" + after
            else:
                data = piece
            cut = data.rfind(b"\n") + 1
            if cut:
                block = _block(rest + data[:cut], first, overlong)
                yield block
                first += block.lines
                rest, overlong = data[cut:], 0
            else:
                rest += data
            if len(rest) > LONGEST:
                rest, skipping = b"", True
        if skipping:
            yield _block(b"\n", first, first)
        elif rest:
            self.unfinished = True
            yield _block(rest, first, overlong)

    def _pieces(self) -> Iterator[bytes]:
        """Decompressed bytes as UTF-8, in pieces of about a block."""
        head = self._stream.read(BLOCK)
        if head[:2] == _GZIP:
            pieces = self._gunzipped(head)
        elif head[:4] == _ZSTD:
            pieces = self._unzstd(head)
        else:
            pieces = self._plain(head)
        start = next(pieces, b"")
        encoding = _UTF16.get(start[:2])
        if encoding is None:
            yield start.removeprefix(codecs.BOM_UTF8)
            yield from pieces
            return
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        yield decoder.decode(start[2:]).encode("utf-8", "replace")
        for piece in pieces:
            yield decoder.decode(piece).encode("utf-8", "replace")

    def _plain(self, head: bytes) -> Iterator[bytes]:
        left = self._limit
        while head:
            if left is not None:
                head = head[:left]
                left -= len(head)
            yield head
            if left == 0:
                return
            head = self._stream.read(BLOCK)

    def _gunzipped(self, head: bytes) -> Iterator[bytes]:
        """Of every member; what comes after the first damage is left out."""
        machine = zlib.decompressobj(wbits=31)
        while head:
            try:
                yield machine.decompress(head, BLOCK)
                while machine.unconsumed_tail and not machine.eof:
                    yield machine.decompress(machine.unconsumed_tail, BLOCK)
            except zlib.error:
                self.truncated = True
                return
            head = machine.unused_data.lstrip(b"\0") if machine.eof else b""
            if machine.eof and (head := head or self._stream.read(BLOCK).lstrip(b"\0")):
                machine = zlib.decompressobj(wbits=31)
            elif not machine.eof:
                head = self._stream.read(BLOCK)
        self.truncated = not machine.eof

    def _unzstd(self, head: bytes) -> Iterator[bytes]:
        import pyarrow as pa

        whole = io.BufferedReader(_Joined(head, self._stream))
        with pa.CompressedInputStream(pa.PythonFile(whole, mode="r"), "zstd") as stream:
            while True:
                try:
                    # Small pieces: what was decompressed in a call that fails is lost.
                    piece = stream.read(_PIECE)
                except OSError:
                    self.truncated = True
                    return
                if not piece:
                    return
                yield piece


class _Joined(io.RawIOBase):
    """Bytes that were read already, then the rest of their stream."""

    def __init__(self, head: bytes, rest: _Filled) -> None:
        super().__init__()
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer))
        piece, self._head = self._head[: len(view)], self._head[len(view) :]
        piece = piece or self._rest.read(len(view))
        view[: len(piece)] = piece
        return len(piece)


def open_log(path: Path) -> Log:
    """Open a log.

    Raises:
        UsageError: there is no such file, it is a folder, or it may not be read.
    """
    try:
        stream = cast(BinaryIO, path.open("rb", buffering=0))
        state = os.fstat(stream.fileno())
    except OSError as error:
        raise UsageError(
            f"{path}: {(error.strerror or str(error)).lower()}", "give the path of a log"
        ) from None
    limit = state.st_size if stat.S_ISREG(state.st_mode) else None
    return Log(_Filled(stream), limit)


def stream_log(stream: IO[bytes]) -> Log:
    """A log that comes through a pipe."""
    return Log(_Filled(stream))


class _Filled(io.RawIOBase):
    """Reads as many bytes as were asked for: a pipe gives fewer at a time, and blocks would be tiny."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        pieces, left = [], size
        while left > 0:
            piece = self._stream.read(left)
            if not piece:
                break
            pieces.append(piece)
            left -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        self._stream.close()
        super().close()
