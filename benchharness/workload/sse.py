"""Server-sent events, split from bytes that may be cut anywhere (WHATWG HTML, section 9.2)."""

from __future__ import annotations

EVENT_LIMIT = 8 * 1024 * 1024
"""Bytes that one event may take."""

Event = tuple[bytes, bytes]
"""(name, data): the name is empty for plain events, `error` for llama.cpp's `error:` lines."""

_PREFIX = b"data: "


class SseParser:
    """Splits a stream into events; bytes in, events out, what is unfinished is kept.

    Attributes:
        too_large: an event outgrew the limit; nothing more is parsed.
    """

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self.too_large = False
        self._limit = limit
        self._rest: list[bytes] = []
        self._rest_size = 0
        self._last = b""
        self._skip_newline = False
        self._fresh = True

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes, in order."""
        if self.too_large or not data:
            return []
        if self._skip_newline or b"\r" in data:
            data = self._normal(data)
        if b"\n\n" not in data and not (data[:1] == b"\n" and self._last == b"\n"):
            self._keep(data)
            return []
        if self._rest:
            data = b"".join((*self._rest, data))
        parts = data.split(b"\n\n")
        self._rest, self._rest_size, self._last = [], 0, b""
        self._keep(parts.pop())
        if max(map(len, parts)) > self._limit:
            self.too_large = True
            return []
        return self._events(parts)

    def finish(self) -> list[Event]:
        """The event that the end of the stream cut short of its blank line, if there is one."""
        if not self._rest or self.too_large:
            return []
        part = b"".join(self._rest)
        self._rest, self._rest_size = [], 0
        return self._events([part])

    def _keep(self, data: bytes) -> None:
        if data:
            self._rest.append(data)
            self._rest_size += len(data)
            self._last = data[-1:]
            if self._rest_size > self._limit:
                self.too_large = True
                self._rest = []

    def _normal(self, data: bytes) -> bytes:
        """`data` with every line end as LF; a CR at the end of one read may have its LF in the next."""
        if self._skip_newline and data[:1] == b"\n":
            data = data[1:]
        self._skip_newline = data[-1:] == b"\r"
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _events(self, parts: list[bytes]) -> list[Event]:
        if self._fresh:
            parts[0] = parts[0].removeprefix(b"\xef\xbb\xbf")
            self._fresh = False
        events: list[Event] = []
        for part in parts:
            if part[:6] == _PREFIX and b"\n" not in part:
                if len(part) > len(_PREFIX):
                    events.append((b"", part[6:]))
                continue
            event = _event(part)
            if event is not None:
                events.append(event)
        return events


def _event(part: bytes) -> Event | None:
    """One event from its lines; None if it holds comments and unknown fields only."""
    name = b""
    data: list[bytes] = []
    for line in part.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
        elif field == b"error":
            name = b"error"
            data.append(value)
    text = b"\n".join(data)
    return (name, text) if text else None
