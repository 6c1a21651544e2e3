"""A server with nothing behind it: it streams events on a known schedule, each with its true send time.

Run as a script (`python -I null_server.py`), it uses the standard library only, so that it starts fast.
It prints its port on one line and ends when its standard input does. A POST asks for a stream in the
form of SGLang's `/generate`; the body's `max_new_tokens` is the number of events and its `interval_us`
their distance: all streams tick together on one grid. Without an interval the events come as fast as
the socket takes them, and carry no time.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time
from typing import BinaryIO

HEAD = b"\r\n".join(
    (
        b"HTTP/1.1 200 OK",
        b"content-type: text/event-stream",
        b"transfer-encoding: chunked",
        b"connection: close",
        b"\r\n",
    )
)
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
EVENT = (
    b'data: {"text":" word","output_ids":[7],"meta_info":{"id":"5c1e0f6ab7d84f0f","finish_reason":%s,'
    b'"prompt_tokens":1,"cached_tokens":0,"completion_tokens":%d,"sent_ns":%d}}\n\n'
)
BATCH = 256
SEND_BYTES = 256 * 1024


def event(number: int, last: bool, sent_ns: int) -> bytes:
    """One event in a chunk of its own."""
    text = EVENT % (b'{"type":"length"}' if last else b"null", number, sent_ns)
    return b"%x\r\n%s\r\n" % (len(text), text)


class Stream:
    """One connection: a request that comes in, then events that go out."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.request = b""
        self.events = 0
        self.sent = 0
        self.interval_ns = 0
        self.due_ns = 0
        self.pending = memoryview(b"")

    def receive(self) -> bool:
        """Take in what came; True once the request is complete. Raises ConnectionError at its end."""
        data = self.sock.recv(SEND_BYTES)
        if not data:
            raise ConnectionResetError
        self.request += data
        head, found, body = self.request.partition(b"\r\n\r\n")
        if not found or self.events:
            return False
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                length = int(value)
        if len(body) < length:
            return False
        asked = json.loads(body)
        self.events = max(1, int(asked["sampling_params"]["max_new_tokens"]))
        self.interval_ns = int(asked.get("interval_us", 0)) * 1000
        return True

    def begin(self) -> None:
        """Send the head and find the first tick."""
        self.sock.sendall(HEAD)
        if self.interval_ns:
            self.due_ns = (time.monotonic_ns() // self.interval_ns + 2) * self.interval_ns

    def tick(self) -> bool:
        """Send the event that is due; True when it was the last one."""
        self.sent += 1
        last = self.sent == self.events
        self.due_ns += self.interval_ns
        data = event(self.sent, last, time.monotonic_ns())
        self.sock.sendall(data + END if last else data)
        return last

    def pour(self) -> bool:
        """Send as many events as the socket takes; True when all are sent."""
        while True:
            if not self.pending:
                if self.sent == self.events:
                    return True
                until = min(self.events, self.sent + BATCH)
                numbers = range(self.sent + 1, until + 1)
                batch = b"".join(event(number, number == self.events, 0) for number in numbers)
                self.sent = until
                self.pending = memoryview(batch + END if until == self.events else batch)
            try:
                self.pending = self.pending[self.sock.send(self.pending) :]
            except BlockingIOError:
                return False


class NullServer:
    """One thread, all streams."""

    def __init__(self, parent: BinaryIO | None) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.listener.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.parent = parent
        if parent is not None:
            self.selector.register(parent, selectors.EVENT_READ)
        self.ticking: list[Stream] = []

    @property
    def port(self) -> int:
        """Where it listens, on loopback."""
        port: int = self.listener.getsockname()[1]
        return port

    def serve(self) -> None:
        """Serve until the parent's end of standard input closes."""
        while True:
            for key, _ in self.selector.select(self._wait_s()):
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj is self.parent:
                    if not self.parent.read(1):
                        return
                else:
                    self._work(key.data)
            self._tick()

    def _wait_s(self) -> float | None:
        if not self.ticking:
            return None
        due_ns = min(stream.due_ns for stream in self.ticking)
        return max(0, due_ns - time.monotonic_ns()) / 1e9

    def _accept(self) -> None:
        sock, _ = self.listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.selector.register(sock, selectors.EVENT_READ, Stream(sock))

    def _work(self, stream: Stream) -> None:
        """A socket can be read (a request) or written (a stream at full speed)."""
        try:
            if stream.events and not stream.interval_ns:
                if stream.pour():
                    self._close(stream)
            elif stream.receive():
                stream.begin()
                if stream.interval_ns:
                    self.ticking.append(stream)
                else:
                    self.selector.modify(stream.sock, selectors.EVENT_WRITE, stream)
        except (OSError, ValueError, KeyError, TypeError):
            self._close(stream)

    def _tick(self) -> None:
        now = time.monotonic_ns()
        for stream in [one for one in self.ticking if one.due_ns <= now]:
            try:
                done = stream.tick()
            except OSError:
                done = True
            if done:
                self._close(stream)

    def _close(self, stream: Stream) -> None:
        if stream in self.ticking:
            self.ticking.remove(stream)
        self.selector.unregister(stream.sock)
        stream.sock.close()


if __name__ == "__main__":
    server = NullServer(sys.stdin.buffer)
    try:
        os.write(sys.stdout.fileno(), f"{server.port}\n".encode())
    except BrokenPipeError:
        # Whoever started it is gone already.
        sys.exit(0)
    server.serve()
