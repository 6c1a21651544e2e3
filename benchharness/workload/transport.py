"""What a transport is: it sends one request and keeps what came back, stamped, without looking into it.

Two exist: `kernel_transport` (plain http on Linux; the kernel stamps each packet) and
`aiohttp_transport` (https, other systems; the user clock stamps each read before it is parsed).
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from benchharness.errors import UsageError
from benchharness.records import Failure
from benchharness.workload import clock
from benchharness.workload.http_stream import HttpStream

RESPONSE_LIMIT = 256 * 1024 * 1024
"""Bytes that one response may take before its request fails as too large."""

OPEN_LIMIT = 2 * 1024 * 1024 * 1024
"""Bytes that all responses that are open at a time may take together."""

READ_OVERHEAD = 512
"""Bytes that keeping a read takes beside its data: its stamps and their objects (measured: 0.4 KB)."""

_TIMESPEC = struct.Struct("qq")

Read = tuple[Sequence[tuple[int, int, bytes]], int, bytes]
"""(ancillary data as recvmsg gives it, user clock ns right after the read, bytes)."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go.

    Attributes:
        tls: https.
        host, port: as in the URL.
        prefix: path before every request's path, without a slash at its end.
    """

    tls: bool
    host: str
    port: int
    prefix: str = ""

    @property
    def authority(self) -> str:
        """`host:port` as a Host header writes it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(slots=True)
class Memory:
    """What the open responses of one transport take together.

    Attributes:
        limit: bytes that they may take.
        held: bytes that they take now, `READ_OVERHEAD` for each read included.
    """

    limit: int = OPEN_LIMIT
    held: int = 0


@dataclass(slots=True)
class Recording:
    """One exchange as it was seen on the wire.

    Attributes:
        transport: name of the transport and its clock.
        sent_ns: monotonic time just before the first byte of the request was handed over; 0 if never.
        ended_ns: monotonic time when the end or the failure was seen.
        reads: the reads, raw, in order.
        held: bytes that the reads take in memory, `READ_OVERHEAD` for each of them included.
        http: the response, parsed as far as was needed to see its end; `fed` reads went into it.
        offset_start, offset_end: realtime minus monotonic around the exchange.
        failure, text: why the exchange broke off; None if the response ended.
    """

    transport: str
    sent_ns: int = 0
    ended_ns: int = 0
    reads: list[Read] = field(default_factory=list)
    held: int = 0
    http: HttpStream = field(default_factory=HttpStream)
    fed: int = 0
    offset_start: clock.Offset = clock.UNKNOWN
    offset_end: clock.Offset = clock.UNKNOWN
    failure: Failure | None = None
    text: str = ""

    def feed_http(self) -> None:
        """Parse the reads that were not parsed yet."""
        reads, http = self.reads, self.http
        for index in range(self.fed, len(reads)):
            http.feed(index, reads[index][2])
        self.fed = len(reads)

    def stamp(self, index: int) -> tuple[int, int]:
        """(arrival ns, delay ns until it was read) of a read; the delay is -1 without a kernel stamp."""
        ancillary, read_ns, _ = self.reads[index]
        if not ancillary or len(ancillary[0][2]) != _TIMESPEC.size:
            return read_ns, -1
        seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2])
        stamp = seconds * 1_000_000_000 + nanoseconds - self.offset_start.ns
        return stamp, max(0, read_ns - stamp)


class Transport(Protocol):
    """Sends requests to one target.

    Attributes:
        name: goes into every trace.
    """

    @property
    def name(self) -> str:
        """Which transport and clock take the stamps."""
        ...

    async def exchange(self, path: str, body: bytes, timeout_s: float) -> Recording:
        """POST `body` (JSON) on a connection of its own and record the answer; raises only when cancelled."""
        ...


def fail(recording: Recording, failure: Failure, text: str) -> None:
    """Note why an exchange broke off; the first reason stays."""
    if recording.failure is None:
        recording.failure, recording.text = failure, text


def fail_too_large(recording: Recording, limit: int, memory: Memory) -> None:
    """Note which of both bounds a response broke."""
    if recording.held > limit:
        text = f"the response is larger than {limit} bytes, {READ_OVERHEAD} for each read included"
    else:
        text = (
            f"all open responses together are larger than {memory.limit} bytes, and this one broke the bound"
        )
    fail(recording, Failure.TOO_LARGE, text)


def reason(error: BaseException) -> str:
    """One line for an exception of the system or a library."""
    strerror = getattr(error, "strerror", None)
    return str(strerror or error or type(error).__name__).splitlines()[0]


def target_of(base_url: str) -> Target:
    """The target that a base URL names; raises UsageError for one that can't be used."""
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{base_url!r} is no URL: {error}", "write it as http://HOST:PORT") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{base_url!r} is no http or https URL", "write it as http://HOST:PORT")
    tls = parts.scheme == "https"
    return Target(tls, parts.hostname, port or (443 if tls else 80), parts.path.rstrip("/"))


def head_of(target: Target, path: str, size: int) -> bytes:
    """The request's head. The connection is to be closed after it, so that the end can always be seen."""
    lines = (
        f"POST {target.prefix}{path} HTTP/1.1",
        f"Host: {target.authority}",
        "User-Agent: benchharness",
        "Accept: text/event-stream",
        "Content-Type: application/json",
        f"Content-Length: {size}",
        "Connection: close",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def make(base_url: str, response_limit: int = RESPONSE_LIMIT, open_limit: int = OPEN_LIMIT) -> Transport:
    """The transport for a base URL: kernel stamps for plain http on Linux, else aiohttp.

    Args:
        base_url: `http://HOST:PORT`, a path may follow.
        response_limit: bytes that a response may take before its request fails.
        open_limit: bytes that all open responses may take together; the one that breaks it fails.
    """
    target = target_of(base_url)
    if sys.platform == "linux" and not target.tls:
        from benchharness.workload.kernel_transport import KernelTransport

        return KernelTransport(target, response_limit, open_limit)
    from benchharness.workload.aiohttp_transport import AiohttpTransport

    return AiohttpTransport(target, response_limit, open_limit)
