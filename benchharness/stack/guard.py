"""The parent of one process tree, so that no part of it outlives the harness.

Started as `python -I -S guard.py` with only the standard library, in a session of its own: Ctrl-C at a
terminal reaches the harness, which then decides, and never the engine first. It reads its order from
standard input and reports on standard output, one JSON object a line:

    in   {"argv": [...], "env": {...}, "cwd": null, "harness": PID, "orphan_grace_s": 2.0}
    in   {"stop": GRACE_S}                       SIGTERM, then SIGKILL after the grace
    out  {"event": "started", "pid": PID, "started_ns": CLOCK_MONOTONIC} or
         {"event": "failed", "errno": N, "subject": "program or folder"}
    out  {"event": "exited", "exit_code": N}     the program itself is gone
    out  {"event": "ended", "exit_code": N, "cpu_s": S, "max_rss_bytes": B, "forced": false,
          "killed": COUNT, "left": COUNT}        the whole tree is gone

End of file on standard input, or the harness's death, is a stop request with `orphan_grace_s`. The program
gets /dev/null to read and the guard's standard error (the log file itself) to write, so that no pipe can
fill up and slow it. On Linux the guard is the reaper of its orphans: a grandchild that made itself a daemon
comes back to it, and "no child left" means that no descendant is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # typing and pathlib would double the time that the guard takes to start
if TYPE_CHECKING:
    from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LEFTOVER_GRACE_S = 1.0
"""What processes get after SIGTERM once the program itself has gone."""
KILL_LIMIT_S = 30.0
"""How long SIGKILL is repeated; a process that survives it hangs in the kernel."""
KILL_AGAIN_S = 0.02
CONTROL, REPORT, LOG = 0, 1, 2
STOP_SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


class Guard:
    """One program, its descendants, and what is known of their end."""

    def __init__(self, order: dict[str, Any], rest: bytes) -> None:
        self.order = order
        self.control = rest
        self.pid = 0
        self.exit_code: int | None = None
        self.cpu_s = 0.0
        self.max_rss_bytes = 0
        self.forced = False
        self.killed: set[int] = set()
        self.deadline: float | None = None
        self.kill_deadline: float | None = None
        self.poller = select.poll()
        self.harness_fd = -1
        self.wake_fd = -1

    def run(self) -> None:
        """Start the program, and return when nothing of its tree is left."""
        if sys.platform == "linux":
            _prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._watch()
        if not self._start():
            return
        self._read_control()
        while self._reap():
            self._act_on_time()
            for fd, _ in self.poller.poll(self._timeout_ms()):
                self._act_on(fd)
            if self.kill_deadline is not None and time.monotonic() > self.kill_deadline:
                break
        self._report(
            event="ended",
            exit_code=self.exit_code,
            cpu_s=self.cpu_s,
            max_rss_bytes=self.max_rss_bytes,
            forced=self.forced,
            killed=len(self.killed - {self.pid}),
            left=len(_descendants(os.getpid()) or ()),
        )

    def _watch(self) -> None:
        self.wake_fd, write_end = os.pipe()
        os.set_blocking(self.wake_fd, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *STOP_SIGNALS):
            signal.signal(number, _noted)
        self.poller.register(CONTROL, select.POLLIN)
        self.poller.register(self.wake_fd, select.POLLIN)
        # A process that the harness forked may hold the control pipe open after the harness has died.
        try:
            self.harness_fd = os.pidfd_open(self.order["harness"])
        except (OSError, AttributeError):
            return
        self.poller.register(self.harness_fd, select.POLLIN)

    def _start(self) -> bool:
        if os.getppid() != self.order["harness"]:
            return False
        failure_read, failure_write = os.pipe()
        guard = os.getpid()
        started_ns = time.monotonic_ns()
        self.pid = os.fork()
        if self.pid == 0:
            _become(self.order, guard, failure_write)
        os.close(failure_write)
        with os.fdopen(failure_read, "rb") as pipe:
            failure = pipe.read()
        if failure:
            self._report(event="failed", **json.loads(failure))
            return False
        self._report(event="started", pid=self.pid, started_ns=started_ns)
        return True

    def _reap(self) -> bool:
        """Collect all that have ended; whether any child is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.cpu_s += usage.ru_utime + usage.ru_stime
            rss_unit = 1 if sys.platform == "darwin" else 1024
            self.max_rss_bytes = max(self.max_rss_bytes, usage.ru_maxrss * rss_unit)
            if pid == self.pid:
                self.exit_code = os.waitstatus_to_exitcode(status)
                self._report(event="exited", exit_code=self.exit_code)
                self._signal_all(signal.SIGTERM)
                self._end_within(LEFTOVER_GRACE_S)

    def _act_on(self, fd: int) -> None:
        data = os.read(CONTROL, 65536) if fd == CONTROL else b""
        if data:
            self.control += data
            self._read_control()
        elif fd in (CONTROL, self.harness_fd):
            self.poller.unregister(fd)
            self._ask_to_end(self.order["orphan_grace_s"])
        elif fd == self.wake_fd and STOP_SIGNALS.intersection(os.read(self.wake_fd, 4096)):
            self._ask_to_end(self.order["orphan_grace_s"])

    def _read_control(self) -> None:
        while b"\n" in self.control:
            line, self.control = self.control.split(b"\n", 1)
            self._ask_to_end(json.loads(line)["stop"])

    def _ask_to_end(self, grace_s: float) -> None:
        if self.deadline is None and self.exit_code is None:
            _kill(self.pid, signal.SIGTERM, group=True)
        self._end_within(grace_s)

    def _end_within(self, grace_s: float) -> None:
        deadline = time.monotonic() + grace_s
        self.deadline = deadline if self.deadline is None else min(self.deadline, deadline)

    def _act_on_time(self) -> None:
        if self.deadline is None or time.monotonic() < self.deadline:
            return
        if self.kill_deadline is None:
            self.kill_deadline = time.monotonic() + KILL_LIMIT_S
            self.forced = self.exit_code is None
        self.killed |= self._signal_all(signal.SIGKILL)

    def _timeout_ms(self) -> float | None:
        if self.kill_deadline is not None:
            return KILL_AGAIN_S * 1e3
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - time.monotonic()) * 1e3 + 1

    def _signal_all(self, number: int) -> set[int]:
        found = _descendants(os.getpid())
        if found is None:
            _kill(self.pid, number, group=True)
            return set()
        for pid in found:
            _kill(pid, number, group=False)
        return found

    def _report(self, **fields: Any) -> None:
        with contextlib.suppress(OSError):  # the harness is gone; the tree must be ended all the same
            os.write(REPORT, json.dumps(fields).encode() + b"\n")


def _become(order: dict[str, Any], guard: int, failure_fd: int) -> None:
    """In the child: turn into the program, or tell why not."""
    subject = order["argv"][0]
    try:
        os.setsid()
        if sys.platform == "linux":
            _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:
                return
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, *STOP_SIGNALS):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.dup2(os.open(os.devnull, os.O_RDONLY), CONTROL)
        os.dup2(LOG, REPORT)
        if order["cwd"] is not None:
            subject = order["cwd"]
            os.chdir(subject)
            subject = order["argv"][0]
        os.execvpe(subject, order["argv"], order["env"])  # noqa: S606 - there is no shell, by design
    except (OSError, ValueError) as error:
        cause = error.errno if isinstance(error, OSError) else errno.EINVAL
        os.write(failure_fd, json.dumps({"errno": cause, "subject": subject}).encode())
    finally:
        os._exit(127)


def _noted(*_: object) -> None:
    """A signal handler only so that the wake-up descriptor is written."""


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _kill(pid: int, number: int, *, group: bool) -> None:
    # Gone, or another user's by setuid: nothing more can be done about it from here.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if group:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _descendants(root: int) -> set[int] | None:
    """Living processes under `root`; None where there is no /proc to tell."""
    parents: dict[int, int] = {}
    try:
        names = os.listdir("/proc")  # noqa: PTH208
    except OSError:
        return None
    for name in names:
        if name.isdigit():
            state_and_parent = _stat(name)
            if state_and_parent is not None and state_and_parent[0] != "Z":
                parents[int(name)] = state_and_parent[1]
    return {pid for pid in parents if _is_under(pid, root, parents)}


def _is_under(pid: int, root: int, parents: dict[int, int]) -> bool:
    seen = set()
    while pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid]
        if pid == root:
            return True
    return False


def _stat(pid: str) -> tuple[str, int] | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields[0].decode(), int(fields[1])


def main() -> None:
    """Read the order, and keep the program until its tree is gone."""
    data = b""
    while b"\n" not in data:
        more = os.read(CONTROL, 65536)
        if not more:
            return  # the harness died before it asked for anything
        data += more
    line, rest = data.split(b"\n", 1)
    Guard(json.loads(line), rest).run()


if __name__ == "__main__":
    main()
