"""A server for tests that does exactly what a script says with each connection: real sockets on loopback."""

import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(fields: object) -> bytes:
    return b"data: " + json.dumps(fields, ensure_ascii=False).encode() + b"\n\n"


def answer(status: str, body: bytes = b"", kind: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


class Connection:
    """One connection, its request read."""

    def __init__(self, sock: socket.socket, head: bytes, body: bytes) -> None:
        self.sock = sock
        self.head = head
        self.path = head.split(b" ")[1].decode()
        self.body = json.loads(body) if body else {}

    def send(self, *pieces: bytes, gap_s: float = 0.0) -> None:
        """Send each piece in a packet of its own."""
        for piece in pieces:
            self.sock.sendall(piece)
            if gap_s:
                time.sleep(gap_s)

    def stream(self, events: Iterable[bytes], gap_s: float = 0.0) -> None:
        """A whole chunked stream, one write an event."""
        self.send(HEAD)
        self.send(*(chunk(one) for one in events), gap_s=gap_s)
        self.send(END)

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class SseServer:
    """Runs `script` for each connection in a thread of its own; the connection is closed after it.

    Attributes:
        open_most: most connections that were open at one time.
        seen: the bodies of all requests, in order of arrival.
    """

    def __init__(self, script: Callable[[Connection], None], tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.tls = tls
        self.open_now = self.open_most = 0
        self.seen: list[dict] = []
        self.errors: list[BaseException] = []
        self.lock = threading.Lock()
        self.ending = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.threads: list[threading.Thread] = []

    def __enter__(self) -> "SseServer":
        self._thread(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(10)
        assert not self.errors, self.errors

    def _thread(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.ending.is_set():
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._thread(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        with self.lock:
            self.open_now += 1
            self.open_most = max(self.open_most, self.open_now)
        try:
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_side=True)
            connection = self._read(sock)
            if connection is not None:
                with self.lock:
                    self.seen.append(connection.body)
                self.script(connection)
        except OSError:
            pass  # the client went away, as some tests want it to
        except (AssertionError, LookupError, TypeError, ValueError) as error:
            self.errors.append(error)
        finally:
            with self.lock:
                self.open_now -= 1
            sock.close()

    def _read(self, sock: socket.socket) -> Connection | None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = sock.recv(65536)
            if not more:
                return None
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        while len(body) < length:
            body += sock.recv(65536)
        return Connection(sock, head, body)


def sglang_event(total: int, text: str = " word", last: bool = False, **more: object) -> bytes:
    reason = {"type": "length", "length": total} if last else None
    meta = {
        "prompt_tokens": 8,
        "cached_tokens": 0,
        "completion_tokens": total,
        "finish_reason": reason,
    } | more
    return event({"text": text, "meta_info": meta})


def sglang_stream(tokens: int, a_chunk: int = 1) -> list[bytes]:
    """The events of one whole answer, `a_chunk` tokens in each."""
    totals = [*range(a_chunk, tokens, a_chunk), tokens]
    return [*(sglang_event(total, last=total == tokens) for total in totals), b"data: [DONE]\n\n"]
