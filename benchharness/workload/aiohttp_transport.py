"""https, and systems without kernel stamps: aiohttp makes the connection, the user clock stamps each read.

The stamp is taken where the event loop hands the bytes over, before aiohttp parses them. The bytes
are kept as they came and parsed once more afterwards, so both transports share one parser.
"""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from benchharness.records import Failure
from benchharness.workload import clock
from benchharness.workload.http_stream import HEADER_LIMIT
from benchharness.workload.transport import (
    OPEN_LIMIT,
    READ_OVERHEAD,
    RESPONSE_LIMIT,
    Memory,
    Recording,
    Target,
    fail,
    fail_too_large,
    reason,
)

_HEADERS = {
    "User-Agent": "benchharness",
    "Accept": "text/event-stream",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "Connection": "close",
}


class AiohttpTransport:
    """See `transport.Transport`. Stamps are the user clock's, one a read."""

    name = "aiohttp-user-clock"

    def __init__(
        self, target: Target, response_limit: int = RESPONSE_LIMIT, open_limit: int = OPEN_LIMIT
    ) -> None:
        scheme = "https" if target.tls else "http"
        self._target = target
        self._url = f"{scheme}://{target.authority}{target.prefix}"
        self._limit = response_limit
        self._memory = Memory(open_limit)

    async def exchange(self, path: str, body: bytes, timeout_s: float) -> Recording:
        """POST `body` and record the answer."""
        recording = Recording(self.name)
        recording.offset_start = recording.offset_end = clock.sample_offset()
        try:
            async with asyncio.timeout(timeout_s):
                await self._exchange(recording, path, body)
        except TimeoutError:
            fail(recording, Failure.TIMEOUT, f"no complete answer within {timeout_s:g} s")
        except aiohttp.ClientConnectorError as error:
            fail(recording, Failure.CONNECT, f"no connection to {self._target.authority}: {reason(error)}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            _broken(recording, error)
        finally:
            self._memory.held -= recording.held
        recording.ended_ns = clock.now_ns()
        recording.feed_http()
        if recording.http.complete and recording.failure == Failure.RESET:
            recording.failure, recording.text = None, ""  # what broke had been read to its end
        return recording

    async def _exchange(self, recording: Recording, path: str, body: bytes) -> None:
        async def connected(*_: Any) -> None:
            recording.sent_ns = clock.now_ns()

        trace = aiohttp.TraceConfig(SimpleNamespace)
        trace.on_connection_create_end.append(connected)
        async with (
            aiohttp.ClientSession(
                connector=_StampingConnector(recording, self._limit, self._memory),
                trace_configs=[trace],
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                read_bufsize=READ_BUFFER,
            ) as session,
            session.post(self._url + path, data=body, headers=_HEADERS, allow_redirects=False) as response,
        ):
            async for _ in response.content.iter_any():
                pass
        recording.feed_http()
        recording.http.end_of_file()


def _broken(recording: Recording, error: Exception) -> None:
    """Sort what aiohttp reports: our own parser has the last word on what the bytes were.

    A connection that was closed in good order leaves no failure here; what came is then judged.
    """
    recording.feed_http()
    http = recording.http
    if http.complete or http.error:
        return
    if http.too_large:
        fail(recording, Failure.TOO_LARGE, f"the headers are larger than {HEADER_LIMIT} bytes")
    elif isinstance(error, OSError):
        fail(recording, Failure.RESET, f"the connection broke: {reason(error)}")


READ_BUFFER = 4 * 1024 * 1024
"""aiohttp stops reading a socket whose body piles up beyond twice this; the drain keeps it far below."""


class _StampingConnector(aiohttp.TCPConnector):
    """A connector for one request, whose connection stamps and keeps what it receives."""

    def __init__(self, recording: Recording, limit: int, memory: Memory) -> None:
        super().__init__(force_close=True)
        self._factory: Any = partial(_StampingHandler, recording, limit, memory, loop=self._loop)


class _StampingHandler(ResponseHandler):
    def __init__(
        self, recording: Recording, limit: int, memory: Memory, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(loop=loop)
        self._recording = recording
        self._limit = limit
        self._memory = memory

    def data_received(self, data: bytes) -> None:
        now = clock.now_ns()
        recording, memory = self._recording, self._memory
        if recording.failure is not None:
            return  # what still comes after a bound was broken is dropped
        recording.held += len(data) + READ_OVERHEAD
        memory.held += len(data) + READ_OVERHEAD
        if recording.held > self._limit or memory.held > memory.limit:
            fail_too_large(recording, self._limit, memory)
            self.force_close()
            if self.transport is not None:
                self.transport.abort()
            return
        recording.reads.append(((), now, bytes(data)))
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        if isinstance(exc, OSError):
            fail(self._recording, Failure.RESET, f"the connection broke: {reason(exc)}")
        super().connection_lost(exc)
