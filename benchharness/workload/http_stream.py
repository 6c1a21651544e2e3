"""One HTTP/1.1 response, parsed from the reads that brought it.

The parser is fed lazily: a transport feeds reads until the headers are complete, then only where the
tail of the data looks like the end; all else is parsed when the request is over.
"""

from __future__ import annotations

import httptools

HEADER_LIMIT = 64 * 1024
"""Bytes that status line and headers may take."""


class HttpStream:
    """The state of one response.

    Attributes:
        status: HTTP status; 0 until the headers are complete.
        headers: lower-case name -> value; the last of equal names wins.
        bodies: (index of the read, body bytes that came with it), in order; a consumer may clear it.
        header_complete: status line and headers are known.
        complete: the body has ended by its own framing.
        error: why the bytes are no HTTP response; empty if they are.
        too_large: the headers outgrew HEADER_LIMIT.
        surplus: bytes that came after the end.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.bodies: list[tuple[int, bytes]] = []
        self.header_complete = False
        self.complete = False
        self.error = ""
        self.too_large = False
        self.surplus = 0
        self._header_bytes = 0
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    def feed(self, index: int, data: bytes) -> None:
        """Parse `data`, which read number `index` brought; never raises."""
        if self.error or self.too_large or self._parser is None:
            return
        if self.complete:
            self.surplus += len(data)
            return
        if not self.header_complete:
            self._header_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.error = "the server wants to switch protocols"
        except httptools.HttpParserError as error:
            # What follows a complete response on a connection that is to be closed is no error of it.
            if not self.complete:
                self.error = f"not HTTP: {error}"
        if not self.header_complete and self._header_bytes > HEADER_LIMIT:
            self.too_large = True
        if self._pieces:
            body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self.bodies.append((index, body))
            self._pieces.clear()

    def close(self) -> None:
        """Let go of the parser; what it found stays.

        Parser and stream refer to each other, and while anything streams the collector is off: without
        this, no response that was parsed would be freed before the drive is over.
        """
        self._parser = None

    def end_of_file(self) -> None:
        """The server closed: this ends a body that has no framing of its own."""
        if self.header_complete and not self.error and not self.framed:
            self.complete = True

    @property
    def framed(self) -> bool:
        """The body says itself where it ends (chunked encoding or a content length)."""
        return (
            "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()
        )

    @property
    def content_length(self) -> int | None:
        """Declared length of the body in bytes; None without one."""
        text = self.headers.get("content-length", "")
        return int(text) if text.isdecimal() else None

    # --- what httptools calls ---

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header line (or trailer) is complete."""
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Status line and headers are complete; an interim answer (1xx) is passed over."""
        if self._parser is None:
            return
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != 101:
            self.headers.clear()
            return
        self.status = status
        self.header_complete = True

    def on_message_complete(self) -> None:
        """The body has ended."""
        if self.header_complete:
            self.complete = True


def may_end(tail: bytes) -> bool:
    """Whether a chunked body may end with these last bytes (5 are enough).

    True for the last chunk with or without trailers; False for an event that itself ends in CRLF CRLF,
    so that a stream of such events isn't parsed while it runs.
    """
    return tail.endswith(b"\r\n\r\n") and tail[-5:-4] != b"\n"
