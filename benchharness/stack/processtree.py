"""A program and all that it starts, kept by a guard (see guard.py) so that none of it is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchharness.errors import InfrastructureError
from benchharness.records import Command

GUARD = Path(__file__).with_name("guard.py")
MARK = "BENCHHARNESS_TREE"
"""Variable in every process of a tree; finds them even when the guard itself was killed."""
ORPHAN_GRACE_S = 2.0
START_LIMIT_S = 60.0
END_LIMIT_S = 40.0
"""Beyond the grace: more than the guard's own limit for processes that can't be killed."""


@dataclass(frozen=True)
class TreeEnd:
    """How a tree ended.

    Attributes:
        exit_code: of the program; negative for a signal; None if the guard was killed before it knew.
        cpu_s: user and system seconds of the program and every descendant that was reaped.
        max_rss_bytes: largest resident set of any one of them.
        forced: the program had to be killed after the grace.
        killed: other processes that had to be killed.
        left: processes that could not be killed (they hang in the kernel).
    """

    exit_code: int | None
    cpu_s: float = 0.0
    max_rss_bytes: int = 0
    forced: bool = False
    killed: int = 0
    left: int = 0


class ProcessTree:
    """A running program under its guard. Whoever starts one must `stop` it.

    Args:
        command: what to execute; its variables are laid over the harness's own.
        log_path: file that gets standard output and standard error.
        append: keep what the log holds; otherwise it starts empty.
        hold_fds: descriptors that stay open as long as anything of the tree lives (a lock, say).

    Raises OSError with `filename` set when the program or its folder can't be used, and
    InfrastructureError when the log can't be written or the guard doesn't answer.
    """

    def __init__(
        self, command: Command, log_path: Path, *, append: bool = False, hold_fds: tuple[int, ...] = ()
    ) -> None:
        self.log_path = log_path
        self.ended: TreeEnd | None = None
        self._exit_code: int | None = None
        self._report = b""
        self._mark = secrets.token_hex(16)
        log_fd = _open_log(log_path, append)
        control_read, control_write = os.pipe()
        report_read, report_write = os.pipe()
        # File objects, not numbers: should an interrupt come right here, they close by themselves,
        # and end of file is what tells the guard to end.
        self._control, self._reports = os.fdopen(control_write, "wb"), os.fdopen(report_read, "rb", 0)
        try:
            self._guard = _start_guard(log_fd, control_read, report_write, hold_fds)
        finally:
            for fd in (log_fd, control_read, report_write):
                os.close(fd)
        try:
            self._send(self._order(command))
            self.pid, self.started_ns = self._started()
        except BaseException:
            self._let_go()
            raise

    @property
    def exit_code(self) -> int | None:
        """The program's exit code, negative for a signal; None while it runs. Doesn't wait."""
        return self.wait(0.0)

    @property
    def alive(self) -> bool:
        """Whether the program runs."""
        return self.wait(0.0) is None and self.ended is None

    def wait(self, timeout_s: float) -> int | None:
        """Wait for the program's end, at most so long; its exit code, or None if it still runs."""
        deadline = time.monotonic() + timeout_s
        while self._exit_code is None and self.ended is None:
            event = self._next_event(deadline)
            if event is None:
                break
        return self._exit_code

    def process_ids(self) -> tuple[int, ...]:
        """The processes of the tree, the guard left out."""
        try:
            found = psutil.Process(self._guard.pid).children(recursive=True)
        except psutil.Error:
            return ()
        return tuple(process.pid for process in found if _runs(process))

    def stop(self, grace_s: float) -> TreeEnd:
        """End the tree: SIGTERM, then SIGKILL after the grace. Returns when nothing of it is left.

        An interrupt while waiting is passed on, and the guard finishes the work with a short grace.
        """
        try:
            if self.ended is None:
                self._send({"stop": grace_s})
            deadline = time.monotonic() + grace_s + END_LIMIT_S
            while self.ended is None and self._next_event(deadline) is not None:
                pass
            if self.ended is None:  # neither an answer nor an end: the guard itself hangs
                self._guard.kill()
                self.ended = self._end_without_guard()
            return self.ended
        finally:
            self._let_go()

    def _order(self, command: Command) -> dict[str, Any]:
        return {
            "argv": list(command.argv),
            "env": {**environment_for(command.env), MARK: self._mark},
            "cwd": command.cwd,
            "harness": os.getpid(),
            "orphan_grace_s": ORPHAN_GRACE_S,
        }

    def _started(self) -> tuple[int, int]:
        event = self._next_event(time.monotonic() + START_LIMIT_S)
        if event is None or event["event"] not in ("started", "failed"):
            raise InfrastructureError(
                "the guard process didn't answer", f"read {self.log_path} and try `{sys.executable} -I -S -V`"
            )
        if event["event"] == "failed":
            self._guard.wait()
            raise OSError(event["errno"], os.strerror(event["errno"]), event["subject"])
        return event["pid"], event["started_ns"]

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self._control.write(json.dumps(message).encode() + b"\n")
            self._control.flush()
        except (BrokenPipeError, ValueError):
            return  # the guard has ended; its report, or its lack, tells the rest

    def _next_event(self, deadline: float) -> dict[str, Any] | None:
        """The next report of the guard, noted here as well; None at the deadline."""
        fd = self._reports.fileno()
        poller = select.poll()
        poller.register(fd, select.POLLIN)
        while b"\n" not in self._report:
            if not poller.poll(max(0.0, deadline - time.monotonic()) * 1e3):
                return None
            data = os.read(fd, 65536)
            if not data:
                self.ended = self._end_without_guard()
                return {"event": "lost"}
            self._report += data
        line, self._report = self._report.split(b"\n", 1)
        event: dict[str, Any] = json.loads(line)
        if event["event"] == "exited":
            self._exit_code = event["exit_code"]
        elif event["event"] == "ended":
            self.ended = TreeEnd(**{name: value for name, value in event.items() if name != "event"})
        return event

    def _end_without_guard(self) -> TreeEnd:
        """The guard was killed: the program dies with it by itself, the rest is found by its mark."""
        killed = 0
        deadline = time.monotonic() + END_LIMIT_S
        while (found := _marked(self._mark)) and time.monotonic() < deadline:
            for process in found:
                try:
                    process.kill()
                    killed += 1
                except psutil.Error:
                    continue
            psutil.wait_procs(found, timeout=0.05)
        return TreeEnd(self._exit_code, forced=True, killed=killed, left=len(found))

    def _let_go(self) -> None:
        """Close both pipes: end of file makes the guard end what is left."""
        with contextlib.suppress(BrokenPipeError):  # an order that the guard never read
            self._control.close()
        self._reports.close()
        if self.ended is not None:
            self._guard.wait()


def environment_for(changes: Mapping[str, str | None]) -> dict[str, str]:
    """The harness's variables, less those of its virtual environment, with `changes` (None removes)."""
    variables = dict(os.environ)
    for name in ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "PYTHONHOME", "__PYVENV_LAUNCHER__"):
        variables.pop(name, None)
    if sys.prefix != sys.base_prefix and "PATH" in variables:
        own = str(Path(sys.prefix) / "bin")
        folders = variables["PATH"].split(os.pathsep)
        variables["PATH"] = os.pathsep.join(folder for folder in folders if folder.rstrip("/") != own)
    for name, value in changes.items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    return variables


def signal_name(exit_code: int) -> str:
    """ " (SIGKILL)" for -9; empty for an ordinary exit code."""
    if exit_code >= 0:
        return ""
    try:
        return f" ({signal.Signals(-exit_code).name})"
    except ValueError:
        return ""


def _open_log(path: Path, append: bool) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (0 if append else os.O_TRUNC)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o644)
    except OSError as error:
        raise InfrastructureError(
            f"the log {path} can't be written: {error.strerror}", "free some space or choose another folder"
        ) from None


def _start_guard(
    log_fd: int, control_fd: int, report_fd: int, hold_fds: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARD)],
            stdin=control_fd,
            stdout=report_fd,
            stderr=log_fd,
            start_new_session=True,
            pass_fds=hold_fds,
        )
    except OSError as error:
        raise InfrastructureError(f"the guard process can't be started: {error.strerror}") from None


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and _runs(process):
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def _runs(process: psutil.Process) -> bool:
    """Whether it is more than an entry that waits to be collected."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
