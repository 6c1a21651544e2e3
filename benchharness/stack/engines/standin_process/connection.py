"""One HTTP/1.1 connection: reads requests, writes plain and streamed answers."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .answer import Answer
    from .router import Router

_LONGEST_HEAD = 64 * 1024
_LONGEST_BODY = 64 * 1024 * 1024
_LONGEST_BACKLOG = 64 * 1024 * 1024
_SPLIT_S = 0.0001


class Connection(asyncio.Protocol):
    """Serves one request after the other; the next one waits in the buffer until this one is answered."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._settings = router.settings
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._busy = False
        self._keep = True
        self._chunked = False
        self._request = ""
        self._held = b""
        self._rest = b""
        self._answer: Answer | None = None

    # --- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has come."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a stream transport was expected")
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        self._buffer += data
        self._next_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone, or we closed."""
        self._transport = None
        if self._answer is not None:
            self._answer.cancel()
            self._answer = None

    # --- requests

    def _next_request(self) -> None:
        if self._busy or self._transport is None:
            return
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _LONGEST_HEAD:
                self._refuse(431)
            return
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines[1:])
        }
        length = headers.get("content-length", "0")
        words = lines[0].split(" ")
        if len(words) != 3 or not length.isdigit() or "transfer-encoding" in headers:
            self._refuse(400)
        elif int(length) > _LONGEST_BODY:
            self._refuse(413)
        elif len(self._buffer) < end + 4 + int(length):
            if headers.get("expect", "").lower() == "100-continue" and len(self._buffer) == end + 4:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        else:
            body = bytes(self._buffer[end + 4 : end + 4 + int(length)])
            del self._buffer[: end + 4 + int(length)]
            self._keep = words[2] == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
            self._busy, self._request = True, lines[0]
            self._router.route(self, words[0], words[1].partition("?")[0], body)

    def _refuse(self, status: int) -> None:
        self._buffer.clear()
        self._busy, self._keep, self._request = True, False, "? ? HTTP/1.1"
        self.respond_json(status, {"error": {"message": HTTPStatus(status).phrase, "code": status}})

    # --- answers

    def begin_stream(self, answer: Answer) -> None:
        """Send the head of an event stream."""
        self._answer = answer
        self._chunked = self._settings.framing == "chunked"
        self._keep = self._keep and self._chunked
        framing = {"Transfer-Encoding": "chunked"} if self._chunked else {}
        self._write(
            self._head(200, {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"} | framing)
        )

    def await_answer(self, answer: Answer) -> None:
        """The answer comes in one piece, later."""
        self._answer = answer

    def send(self, body: bytes, *, last: bool = False) -> None:
        """One piece of a stream, cut or held back as `tcp` declares."""
        if not body or self._transport is None:
            return
        piece = b"%x\r\n%b\r\n" % (len(body), body) if self._chunked else body
        if self._settings.tcp == "merge" and not last and not self._held:
            self._held = piece
            return
        piece, self._held = self._held + piece, b""
        if self._settings.tcp == "split":
            middle = len(piece) // 2
            self._write(piece[:middle])
            self._rest = piece[middle:]
            asyncio.get_running_loop().call_later(_SPLIT_S, self._write, b"")
        else:
            self._write(piece)

    def end(self) -> None:
        """The stream is complete."""
        self._write(self._held + (b"0\r\n\r\n" if self._chunked else b""))
        self._held = b""
        self._answered()

    def respond(self, status: int, kind: str, body: bytes, extra: dict[str, str] | None = None) -> None:
        """An answer in one piece; nothing if the client has gone."""
        head = {"Content-Type": kind, "Content-Length": str(len(body))} | (extra or {})
        self._write(self._head(status, head) + body)
        self._answered()

    def respond_json(self, status: int, value: Any) -> None:
        """The same, of a JSON value."""
        self.respond(status, "application/json", json.dumps(value).encode())

    def reset(self) -> None:
        """Break the connection: the client gets RST."""
        if self._transport is not None:
            linger = struct.pack("ii", 1, 0)
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._transport.abort()

    def half_close(self) -> None:
        """Say that nothing more comes, without having ended the stream; keep listening."""
        if self._transport is not None:
            self._transport.write_eof()

    def _answered(self) -> None:
        self._answer = None
        self._busy = False
        if not self._keep and self._transport is not None:
            self._write(b"")
            self._transport.close()
        else:
            asyncio.get_running_loop().call_soon(self._next_request)

    def _head(self, status: int, headers: dict[str, str]) -> bytes:
        self._router.answered(self._transport, self._request, status)
        phrase = HTTPStatus(status).phrase
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
        lines.append(f"Connection: {'keep-alive' if self._keep else 'close'}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def _write(self, data: bytes) -> None:
        """Write what an earlier cut left, then `data`."""
        if self._transport is None:
            return
        data, self._rest = self._rest + data, b""
        if data:
            self._transport.write(data)
        if self._transport.get_write_buffer_size() > _LONGEST_BACKLOG:
            self._transport.abort()
