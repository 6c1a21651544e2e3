"""Plain http on Linux: non-blocking sockets whose packets the kernel stamps (SO_TIMESTAMPNS)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

from benchharness.records import Failure
from benchharness.workload import clock
from benchharness.workload.http_stream import HEADER_LIMIT, may_end
from benchharness.workload.transport import (
    OPEN_LIMIT,
    READ_OVERHEAD,
    RESPONSE_LIMIT,
    Memory,
    Recording,
    Target,
    fail,
    fail_too_large,
    head_of,
    reason,
)

SO_TIMESTAMPNS = 35
"""From the kernel's asm-generic/socket.h; Python has no name for it."""

READ_BYTES = 64 * 1024
ANCILLARY_BYTES = 64


class KernelTransport:
    """See `transport.Transport`. The stamp of a read is that of its last byte."""

    name = "kernel-stamps"

    def __init__(
        self, target: Target, response_limit: int = RESPONSE_LIMIT, open_limit: int = OPEN_LIMIT
    ) -> None:
        self._target = target
        self._limit = response_limit
        self._memory = Memory(open_limit)
        self._addresses: list[tuple[int, Any]] = []

    async def exchange(self, path: str, body: bytes, timeout_s: float) -> Recording:
        """POST `body` and record the answer."""
        recording = Recording(self.name)
        recording.offset_start = clock.sample_offset()
        try:
            async with asyncio.timeout(timeout_s):
                await self._exchange(recording, head_of(self._target, path, len(body)) + body)
        except TimeoutError:
            fail(recording, Failure.TIMEOUT, f"no complete answer within {timeout_s:g} s")
        finally:
            self._memory.held -= recording.held
        recording.ended_ns = clock.now_ns()
        recording.offset_end = clock.sample_offset()
        return recording

    async def _exchange(self, recording: Recording, request: bytes) -> None:
        try:
            sock = await self._connect()
        except OSError as error:
            fail(recording, Failure.CONNECT, f"no connection to {self._target.authority}: {reason(error)}")
            return
        with contextlib.closing(sock):
            recording.sent_ns = clock.now_ns()
            # A server may refuse a request before it has read it all; its answer is still to be had.
            with contextlib.suppress(ConnectionError):
                await asyncio.get_running_loop().sock_sendall(sock, request)
            await _Receiver(sock, recording, self._limit, self._memory).run()

    async def _connect(self) -> socket.socket:
        """A connection to the first of the host's addresses that takes one (localhost has two)."""
        if not self._addresses:
            self._addresses = await _addresses(self._target)
        for place, (family, address) in enumerate(self._addresses):
            try:
                sock = await _connected(family, address)
            except OSError:
                if place == len(self._addresses) - 1:
                    raise
            else:
                self._addresses = [(family, address)]
                return sock
        raise OSError("the name has no address")


async def _addresses(target: Target) -> list[tuple[int, Any]]:
    """(family, address) pairs of the host, in the order in which the system wants them tried."""
    host, port = target.host, target.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except OSError:  # a name: ask for it outside of the loop
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


async def _connected(family: int, address: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


class _Receiver:
    """Stores the reads of one response until it ends. `readable` is the hot path: nothing is parsed there."""

    __slots__ = (
        "_eager",
        "_ended",
        "_limit",
        "_loop",
        "_memory",
        "_receive",
        "_recording",
        "_sock",
        "_store",
    )

    def __init__(self, sock: socket.socket, recording: Recording, limit: int, memory: Memory) -> None:
        self._sock = sock
        self._recording = recording
        self._limit = limit
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._receive = sock.recvmsg
        self._store = recording.reads.append
        self._eager = True  # parse each read at once: for the headers, and for a body of declared length

    async def run(self) -> None:
        descriptor = self._sock.fileno()
        self._loop.add_reader(descriptor, self.readable)
        try:
            await self._ended
        finally:
            self._loop.remove_reader(descriptor)

    def readable(self) -> None:
        try:
            data, ancillary, _, _ = self._receive(READ_BYTES, ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._broken(error)
            return
        self._store((ancillary, clock.now_ns(), data))
        size = len(data)
        self._recording.held += size + READ_OVERHEAD
        self._memory.held += size + READ_OVERHEAD
        if data[-4:] == b"\r\n\r\n" or self._eager or size < 5 or self._full():
            self._look(data)

    def _full(self) -> bool:
        """One of both bounds of memory is broken."""
        return self._recording.held > self._limit or self._memory.held > self._memory.limit

    def _look(self, data: bytes) -> None:
        """Find out whether the response is over."""
        recording, http = self._recording, self._recording.http
        if not data:
            recording.reads.pop()
            recording.feed_http()
            http.end_of_file()
            self._finish()
        elif self._full():
            fail_too_large(recording, self._limit, self._memory)
            self._finish()
        elif self._eager or may_end(_tail(recording)):
            recording.feed_http()
            self._eager = not http.header_complete or http.content_length is not None
            if http.too_large:
                fail(recording, Failure.TOO_LARGE, f"the headers are larger than {HEADER_LIMIT} bytes")
            if http.complete or http.error or http.too_large:
                self._finish()

    def _broken(self, error: OSError) -> None:
        self._recording.feed_http()
        if not self._recording.http.complete:
            fail(self._recording, Failure.RESET, f"the connection broke: {reason(error)}")
        self._finish()

    def _finish(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


def _tail(recording: Recording) -> bytes:
    """The last five bytes, from as many reads as they take."""
    tail = b""
    for read in reversed(recording.reads):
        tail = read[2][-5:] + tail
        if len(tail) >= 5:
            break
    return tail[-5:]
