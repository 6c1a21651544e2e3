"""The command line. One file a command; a command's module is imported only when it is called."""

from __future__ import annotations

import io
import os
import signal
import sys
from types import FrameType
from typing import NoReturn, TextIO

INTERRUPTED = 130
NOT_WRITTEN = 5


def main() -> None:
    """Entry point: carries out the command line, and ends the process with its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A path that is no UTF-8, or a terminal that knows less, must not keep a line from being told.
            stream.reconfigure(errors="backslashreplace")
    for number in (signal.SIGTERM, signal.SIGHUP):
        # A cancelled CI job or a closed terminal ends a run as Ctrl-C does: nothing lost, and resumable.
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _interrupted)
    try:
        # Only here, so that Ctrl-C is answered well from the first moment on.
        from benchharness.cli.group import run

        status = run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.stderr.write("\nbenchharness: interrupted\n")
        status = INTERRUPTED
    _end(_flushed(status))


def _flushed(status: int) -> int:
    """Write out what is left, while a failure can still be told: Python would end with its own status."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _to_nowhere(sys.stdout)
    except OSError as error:
        _to_nowhere(sys.stdout)
        sys.stderr.write(f"benchharness: error: {error.strerror or error}\n")
        status = status or NOT_WRITTEN
    except (AttributeError, ValueError):  # closed before the start, or since
        pass
    try:
        sys.stderr.flush()
    except (OSError, AttributeError, ValueError):
        _to_nowhere(sys.stderr)
    return status


def _to_nowhere(stream: TextIO) -> None:
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, AttributeError, ValueError):
        return


def _interrupted(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _end(status: int) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if status == INTERRUPTED:
        # Python ends itself by SIGINT, not with a status, if the interrupt hit code that was made from
        # text on the way (a dataclass's, for instance).
        os._exit(INTERRUPTED)
    sys.exit(status)
