"""The process: start-up, listening, signals and the end."""

from __future__ import annotations

import asyncio
import json
import select
import selectors
import signal
import sys
from collections.abc import Sequence

from . import faults
from .connection import Connection
from .engine import Engine
from .journal import Journal, journal
from .noise import Noise
from .router import Router
from .settings import SettingError, Settings, declared


class FineSelector(selectors.EpollSelector):
    """epoll takes whole milliseconds, so that timers are late by up to one; select waits to microseconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """As the base class, with a sharper time-out."""
        if timeout is not None and timeout > 0:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)


async def _serve(settings: Settings, port: int, log: Journal, noise: Noise) -> int:
    """Serve until told to stop; returns the exit status."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    if settings.fault != "ignore-sigterm":
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
    if settings.fault == "hang-at-start":
        await stop.wait()
        return 0
    try:
        await asyncio.wait_for(stop.wait(), settings.start_s or 1e-6)
        return 0
    except TimeoutError:
        pass
    router = Router(Engine(settings, noise, log))
    try:
        server = await loop.create_server(lambda: Connection(router), "127.0.0.1", port, backlog=1024)
    except OSError as error:
        log.write(
            f"ERROR:    [Errno {error.errno}] error while attempting to bind on ('127.0.0.1', {port}): "
            f"{error.strerror}"
        )
        return 1
    log.ready(port)
    await stop.wait()
    server.close()
    log.say("SIGTERM received. Shutting down...")
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run with `PORT SETTINGS`, the latter a JSON object; returns the exit status."""
    try:
        port = int(arguments[0])
        settings = declared(json.loads(arguments[1]))
    except (IndexError, SettingError, ValueError) as error:
        sys.stderr.write(f"standin: {error}; usage: PORT JSON-OBJECT\n")
        return 2
    # From its first log line on it ends cleanly; the loop takes over from here.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    log = journal(settings)
    noise = Noise(settings)
    log.starting(port, noise.seed)
    sentence = faults.at_start(settings)
    if sentence:
        log.write(sentence)
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(FineSelector())) as runner:
        return runner.run(_serve(settings, port, log, noise))
