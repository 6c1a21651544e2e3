"""A program of the user's, run against an engine that serves: its exit status and figure are measurements."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence

from benchharness.errors import UsageError
from benchharness.records import ScriptEnd

URL, STACK, LAUNCH = "BENCHHARNESS_URL", "BENCHHARNESS_STACK", "BENCHHARNESS_LAUNCH"
"""Variables that the program gets: the engine's address, the stack's name, the launch's index."""

MOST_KEPT = 2000
"""Characters of its output that are stored."""

_FIGURE = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def carry_out(arguments: Sequence[str], url: str, stack: str, launch: int, timeout_s: float) -> ScriptEnd:
    """Run it to its end; one that takes longer is ended, and has no exit code.

    Its figure is the last number in the last line that it prints. UsageError where it can't be started.
    """
    env = {**os.environ, URL: url, STACK: stack, LAUNCH: str(launch)}
    try:
        done = subprocess.run(
            list(arguments),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return ScriptEnd(None, None, _kept(late.stdout))
    except OSError as error:
        raise UsageError(
            f"measure.script can't be started: {arguments[0]}: {error.strerror}",
            "give a program and its arguments",
        ) from None
    text = _kept(done.stdout)
    return ScriptEnd(done.returncode, figure(text), text)


def figure(output: str) -> float | None:
    """The last number in the last line that holds anything; None where that line has none."""
    lines = [line for line in output.splitlines() if line.strip()]
    found = _FIGURE.findall(lines[-1]) if lines else []
    return float(found[-1]) if found else None


def _kept(output: bytes | None) -> str:
    return (output or b"").decode("utf-8", errors="replace")[-MOST_KEPT:]
