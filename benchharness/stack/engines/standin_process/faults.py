"""Declared faults: of the process, and of the answer to a request."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from typing import NoReturn

from .settings import ANSWER_FAULTS, STREAM_FAULTS, Settings

_ORPHAN_LIFE_S = 120


def at_start(settings: Settings) -> str:
    """Suffer the faults of the start: may end the process. Returns a line for the log, or nothing."""
    if settings.fault == "die-at-start":
        die(3, "RuntimeError: the stand-in was told to die at its start (fault: die-at-start)")
    if settings.fault == "crash-signal":
        crash()
    if settings.fault == "ignore-sigterm":
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    if settings.fault == "orphan":
        return f"standin: orphan pid={_leave_orphan()}"
    return ""


def of_answer(settings: Settings, request: int) -> str | None:
    """The fault that takes the place of an answer to that request; None if it is answered."""
    due = settings.fault in ANSWER_FAULTS and request >= settings.fault_after_requests
    return settings.fault if due else None


def in_stream(settings: Settings, request: int, sent: int) -> str | None:
    """The fault that strikes that request now, with `sent` tokens on their way; None if none does."""
    due = (
        settings.fault in STREAM_FAULTS
        and request >= settings.fault_after_requests
        and sent >= settings.fault_after_tokens
    )
    return settings.fault if due else None


def die(status: int, last_line: str) -> NoReturn:
    """End at once with a last line on standard error."""
    sys.stdout.flush()
    sys.stderr.write(last_line + "\n")
    sys.stderr.flush()
    os._exit(status)


def crash() -> NoReturn:
    """End by a segmentation fault, without leaving a core file."""
    sys.stdout.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(60)  # the signal may take a moment
    os._exit(4)


def _leave_orphan() -> int:
    """Start a grandchild in a session of its own whose parent is gone; returns its id. It ends by itself."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        grandchild = os.fork()
        if grandchild == 0:
            signal.alarm(_ORPHAN_LIFE_S)
            while True:
                signal.pause()
        os.write(write_end, str(grandchild).encode())
        os._exit(0)
    os.close(write_end)
    os.waitpid(child, 0)
    pid = int(os.read(read_end, 32))
    os.close(read_end)
    return pid
