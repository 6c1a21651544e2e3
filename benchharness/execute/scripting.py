"""A program of the user's, run against an engine that serves: its exit status and figure are measurements."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress

from benchharness.errors import UsageError
from benchharness.records import ScriptEnd

URL, STACK, LAUNCH = "BENCHHARNESS_URL", "BENCHHARNESS_STACK", "BENCHHARNESS_LAUNCH"
"""Variables that the program gets: the engine's address, the stack's name, the launch's index."""

MOST_KEPT = 2000
"""Bytes of its output that are stored, from the end."""

_FIGURE = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def check(arguments: Sequence[str]) -> None:
    """Refuse a program that can't be started; UsageError."""
    if shutil.which(arguments[0]) is None:
        raise UsageError(
            f"measure.script can't be started: there is no program {arguments[0]!r}",
            "write program and arguments as a list, as [python3, check.py]",
        )


def carry_out(arguments: Sequence[str], url: str, stack: str, launch: int, timeout_s: float) -> ScriptEnd:
    """Run it to its end, and end whoever it started; one that takes longer is ended without an exit code.

    Its figure is the last number in the last line that it prints. UsageError where it can't be started.
    """
    env = {**os.environ, URL: url, STACK: stack, LAUNCH: str(launch)}
    # A file and no pipe: a child that keeps the pipe open would be waited for.
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                list(arguments),
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(
                f"measure.script can't be started: {arguments[0]}: {error.strerror}",
                "give a program and its arguments",
            ) from None
        code: int | None = None
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - MOST_KEPT))
        text = output.read().decode("utf-8", errors="replace")
    return ScriptEnd(code, figure(text), text)


def figure(output: str) -> float | None:
    """The last number in the last line that holds anything; None where that line has none."""
    lines = [line for line in output.splitlines() if line.strip()]
    found = _FIGURE.findall(lines[-1]) if lines else []
    return float(found[-1]) if found else None
