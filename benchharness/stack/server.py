"""One engine as a running server: started, seen ready by its own sign, watched, and ended whole."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from benchharness.errors import EngineError
from benchharness.records import Command, Readiness, ServerExit
from benchharness.stack.logfile import GrowingLog, log_tail
from benchharness.stack.ports import free_port, port_is_free
from benchharness.stack.processtree import ProcessTree, signal_name

__all__ = ["Server", "free_port", "log_tail", "port_is_free", "running"]

CADENCE_S = 0.02
HEALTH_TIMEOUT_S = 1.0
TOLD_EVERY_S = 0.1
SHOWN_LINES = 20


class Server:
    """A running engine.

    Attributes:
        base_url: where it serves.
        log_path: its log.
        started_ns, ready_ns: CLOCK_MONOTONIC at process creation and when it was seen ready.
        stop_s: seconds that ending it took; 0.0 until it has ended.
        exit: how it ended; None until the context is left.
    """

    def __init__(self, tree: ProcessTree, base_url: str) -> None:
        self.base_url = base_url
        self.log_path = tree.log_path
        self.started_ns = tree.started_ns
        self.ready_ns = 0
        self.stop_s = 0.0
        self.exit: ServerExit | None = None
        self._tree = tree

    @property
    def pid(self) -> int:
        """The engine's own process."""
        return self._tree.pid

    @property
    def start_s(self) -> float:
        """Seconds from process creation to readiness; 0.0 before it is ready."""
        return max(0, self.ready_ns - self.started_ns) / 1e9

    def process_ids(self) -> tuple[int, ...]:
        """The engine's process and all its descendants, as they are now."""
        return self._tree.process_ids()

    def alive(self) -> bool:
        """Whether the engine's own process runs."""
        return self._tree.alive

    def check(self) -> None:
        """Raise EngineError, with exit code and last lines, if the engine has died."""
        if not self.alive():
            raise self._death("while it served")

    def tail(self, lines: int = SHOWN_LINES) -> tuple[str, ...]:
        """The last lines of its log, oldest first."""
        return log_tail(self.log_path, lines)

    def wait(self, timeout_s: float) -> bool:
        """Wait at most so long for the engine's death; whether it has died."""
        self._tree.wait(timeout_s)
        return not self._tree.alive

    def _death(self, when: str) -> EngineError:
        code = self._tree.exit_code
        if code is None:
            message = f"the engine was ended {when} because its guard process was killed"
            return EngineError(message, f"its log is {self.log_path}", last_lines=self.tail())
        advice = f"its log is {self.log_path}"
        if code == -9:
            advice += "; SIGKILL often comes from the kernel when memory runs out: see `dmesg`"
        return EngineError(
            f"the engine exited with code {code}{signal_name(code)} {when}",
            advice,
            exit_code=code,
            last_lines=self.tail(),
        )

    def _end(self, grace_s: float) -> None:
        began = time.monotonic()
        end = self._tree.stop(grace_s)
        self.stop_s = time.monotonic() - began
        self.exit = ServerExit(end.exit_code, end.cpu_s, end.max_rss_bytes, end.forced)


@contextmanager
def running(
    command: Command,
    readiness: Readiness,
    *,
    base_url: str,
    log_path: Path,
    stop_grace_s: float = 10.0,
    on_wait: Callable[[float], None] | None = None,
) -> Iterator[Server]:
    """Start an engine, wait until it is ready, and end its whole process tree when the block is left.

    The tree is ended however the block is left: normally, by an error, by Ctrl-C, or by the death of
    the harness itself. Its end is then told by `Server.exit` and `Server.stop_s`.

    Args:
        command: what to execute; its variables are laid over the harness's own.
        readiness: the engine's own sign that it serves, and how long to wait for it.
        base_url: where it will serve, `http://127.0.0.1:PORT`.
        log_path: file for all that it prints; it starts empty.
        stop_grace_s: seconds from SIGTERM to SIGKILL.
        on_wait: called about ten times a second while waiting, with the seconds waited.

    Raises:
        EngineError: it can't be executed, died, isn't ready in time, or someone else has its port.
        InfrastructureError: the log can't be written.
    """
    port = urlsplit(base_url).port or 80
    if not port_is_free(port):
        raise EngineError(
            f"port {port} is taken by another process", "end that process or let the harness choose a port"
        )
    try:
        tree = ProcessTree(command, log_path)
    except OSError as error:
        raise EngineError(
            f"the engine can't be started: {error.filename or command.argv[0]}: {error.strerror}",
            "check the path and that it may be executed",
        ) from None
    server = Server(tree, base_url)
    try:
        _wait_until_ready(server, readiness, on_wait)
        _check_listener(server, port)
        yield server
    finally:
        server._end(stop_grace_s)


def _wait_until_ready(server: Server, readiness: Readiness, on_wait: Callable[[float], None] | None) -> None:
    signs = _Signs(server, readiness)
    deadline = server.started_ns / 1e9 + readiness.timeout_s
    told = 0.0
    try:
        while not signs.all_seen():
            if server.wait(CADENCE_S):
                raise server._death("before it was ready")
            now = time.monotonic()
            if now > deadline:
                raise EngineError(
                    f"the engine was not ready within {readiness.timeout_s:g} s: {signs.missing()}",
                    f"its log is {server.log_path}; give it more time if it only needs that",
                    last_lines=server.tail(),
                )
            if on_wait is not None and now - told >= TOLD_EVERY_S:
                told = now
                on_wait(now - server.started_ns / 1e9)
    finally:
        signs.close()
    if not server.alive():
        raise server._death("before it was ready")
    server.ready_ns = time.monotonic_ns()


class _Signs:
    """What must be seen before the engine counts as ready: its log line first, then its health."""

    def __init__(self, server: Server, readiness: Readiness) -> None:
        self._path = readiness.health_path
        self._address = urlsplit(server.base_url)
        self._pattern = re.compile(readiness.log_line, re.MULTILINE) if readiness.log_line else None
        self._log = GrowingLog(server.log_path)
        self._line_seen = self._pattern is None
        self._answer = "no answer yet"

    def close(self) -> None:
        self._log.close()

    def all_seen(self) -> bool:
        if self._pattern is not None and not self._line_seen:
            self._line_seen = self._log.find(self._pattern)
        return self._line_seen and self._healthy()

    def missing(self) -> str:
        """What was waited for last, in words."""
        if not self._line_seen and self._pattern is not None:
            return f"its log has no line like {self._pattern.pattern!r}"
        return f"{self._path} gave {self._answer}"

    def _healthy(self) -> bool:
        if self._path is None:
            return True
        connection = http.client.HTTPConnection(
            self._address.hostname or "127.0.0.1", self._address.port or 80, timeout=HEALTH_TIMEOUT_S
        )
        try:
            connection.request("GET", self._path)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            self._answer = f"no answer ({error or type(error).__name__})"
            return False
        finally:
            connection.close()
        self._answer = f"status {status}"
        return status == http.client.OK


def _check_listener(server: Server, port: int) -> None:
    """Raise EngineError if the port is served, but by no process of the engine's tree.

    Where the system doesn't tell which process listens, nothing is concluded.
    """
    for pid in server.process_ids():
        try:
            connections = psutil.Process(pid).net_connections(kind="tcp")
        except psutil.NoSuchProcess:
            continue
        except (psutil.AccessDenied, NotImplementedError, OSError):
            return
        for connection in connections:
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                return
    server.check()
    if port_is_free(port):
        return
    raise EngineError(
        f"another process answers on port {port}, not the engine",
        "end that process or let the harness choose a port",
        last_lines=server.tail(),
    )
