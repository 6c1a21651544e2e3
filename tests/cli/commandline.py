"""`python -m benchharness` as a real process, as a shell would start it, and what came of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

LIMIT_S = 90.0
MARK = "CLI_TEST_MARK"
"""Variable that every descendant of a command inherits, so that none of them can hide."""

QUICK = {"prefill_ms": 0, "prefill_ms_per_1k": 0, "noise_seed": 1, "speculation": False, "step_ms": 10}
"""Stand-in: ten milliseconds a token and nothing else."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """What --json printed: the only thing on standard output."""
        document = json.loads(self.out)
        assert isinstance(document, dict)
        return document

    def refused(self, status: int, *words: str) -> str:
        """The one line that says what is wrong; fails if there is anything else to be said about it."""
        assert "Traceback" not in self.err + self.out
        lines = [line for line in self.err.splitlines() if line.startswith("benchharness: error: ")]
        assert len(lines) == 1, self.err
        assert self.err.splitlines()[-1] == lines[0]
        assert self.status == status, lines
        for word in words:
            assert word in lines[0]
        return lines[0]


class Command:
    """A running command, in a process group of its own as a terminal's foreground job is.

    Args:
        arguments: what comes after `benchharness`.
        cwd: where.
        env: variables on top of the test's own.
        python_options: options of the interpreter.
    """

    def __init__(
        self,
        *arguments: str | Path,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        python_options: tuple[str, ...] = (),
    ) -> None:
        self.mark = uuid.uuid4().hex
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, *python_options, "-m", "benchharness", *map(str, arguments)],
            cwd=cwd,
            env={**variables(), **(env or {}), MARK: self.mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A test run in the background ignores SIGINT, and its children would as well.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        self._told = threading.Condition()
        self._out: list[str] = []
        self._readers = [
            threading.Thread(target=self._read_err, daemon=True),
            threading.Thread(target=lambda: self._out.append(self.process.stdout.read()), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read_err(self) -> None:
        for line in self.process.stderr:
            with self._told:
                self.lines.append(line)
                self._told.notify_all()

    def wait_for_line(self, text: str) -> None:
        """Wait until standard error has a line with that text."""
        with self._told:
            seen = self._told.wait_for(lambda: any(text in line for line in self.lines), LIMIT_S)
        assert seen, f"{text!r} never came: {self.lines}"

    def wait_for_file(self, folder: Path, pattern: str) -> None:
        """Wait until a file that fits is there."""
        deadline = time.monotonic() + LIMIT_S
        while not any(folder.glob(pattern)):
            assert time.monotonic() < deadline and self.process.poll() is None, (pattern, self.lines)
            time.sleep(0.002)

    def interrupt(self) -> None:
        """Ctrl-C: SIGINT for the whole group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL for the harness alone."""
        self.process.kill()

    def end(self) -> Ended:
        """Wait for its end."""
        try:
            self.process.wait(LIMIT_S)
        finally:
            self.process.kill()
        for reader in self._readers:
            reader.join(LIMIT_S)
        return Ended(self.process.returncode, "".join(self._out), "".join(self.lines))

    def family(self) -> list[psutil.Process]:
        """All living processes that come from it, itself included."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    def assert_nobody_left(self, within_s: float = 10.0) -> None:
        """Nothing that it started lives on."""
        deadline = time.monotonic() + within_s
        while (left := self.family()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left, [process.cmdline() for process in left]


def variables() -> dict[str, str]:
    """The test's own variables, less those that change what a command does."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("BENCHHARNESS_") and name != "PYTHONUNBUFFERED"
    }


def bench(*arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> Ended:
    """Run a command to its end."""
    return Command(*arguments, cwd=cwd, env=env).end()


def experiment(path: Path, **parts: Any) -> Path:
    """Write an experiment of the stand-in; `args` go into its base, other parts replace those here."""
    args = {**QUICK, **parts.pop("args", {})}
    document = {
        "name": "small",
        "engine": "standin",
        "base": {"args": args},
        "workload": {"context_tokens": [16], "output_tokens": 12, "requests": 2},
        "measure": {"launches": 1, "warmup": 0},
        **parts,
    }
    path.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
    return path


def run_folder(results: Path) -> Path:
    """The only run under a results folder."""
    (manifest,) = results.glob("*/*/run.json")
    return manifest.parent
