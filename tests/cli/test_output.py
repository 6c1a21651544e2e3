"""Where output goes: a terminal, a pipe whose reader leaves, a full disk, a folder closed to writing."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import LIMIT_S, bench, experiment, run_folder, variables

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return experiment(
        tmp_path_factory.mktemp("experiment") / "e.yaml",
        args={"step_ms": 15},
    )


class Terminal:
    """A command whose controlling terminal is a pseudo-terminal of 110 columns, as in a shell."""

    def __init__(self, *arguments: str | Path, cwd: Path) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 110, 0, 0))

        def take_terminal() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchharness", *map(str, arguments)],
            cwd=cwd,
            env={**variables(), "TERM": "xterm-256color"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=take_terminal,  # noqa: PLW1509
        )
        os.close(slave)
        self.text = ""

    def read_until(self, sign: str | None) -> None:
        """Read until that text is there, or to the end."""
        deadline = time.monotonic() + LIMIT_S
        while sign is None or sign not in self.text:
            assert time.monotonic() < deadline, self.text
            if not select.select([self.master], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self.master, 65536)
            except OSError:  # the last of its descriptors is closed
                break
            if not data:
                break
            self.text += data.decode()
        assert sign is None or sign in self.text, self.text

    def end(self) -> tuple[int, list[str]]:
        """Exit status, and the lines that stay on the screen."""
        self.read_until(None)
        os.close(self.master)
        return self.process.wait(LIMIT_S), on_screen(self.text)


def on_screen(text: str) -> list[str]:
    """The rows that stay: line feed, return, cursor up and erased lines are carried out, colours left out."""
    rows, row, column = [""], 0, 0
    for part in re.split(f"({CONTROL.pattern}|[\r\n])", text):
        if part == "\n":
            row += 1
            rows += [""] * (row + 1 - len(rows))
        elif part == "\r":
            column = 0
        elif part == "\x1b[1A":
            row -= 1
        elif part == "\x1b[2K":
            rows[row] = ""
        elif not CONTROL.fullmatch(part):
            rows[row] = rows[row][:column].ljust(column) + part + rows[row][column + len(part) :]
            column += len(part)
    return [row.rstrip() for row in rows]


def test_a_terminal_gets_live_progress_and_keeps_only_the_report(tmp_path: Path, file: Path) -> None:
    terminal = Terminal("run", file, cwd=tmp_path)
    status, rows = terminal.end()
    assert status in (0, 4), terminal.text
    assert "0/1 launches" in terminal.text
    assert "context 16" in terminal.text
    assert re.search("context 16, request [12] of 2", terminal.text)
    assert re.search(r"about [0-9]+ s left", terminal.text)
    assert terminal.text.count("\x1b[?25l") == terminal.text.count("\x1b[?25h") == 1  # the cursor comes back
    assert not any("left" in row for row in rows), "progress stayed on the screen"
    assert not any("\x1b" in row for row in rows), rows
    assert max(len(row) for row in rows if "/" not in row) <= 110
    assert any("output_tok_s" in row for row in rows)


def test_ctrl_c_at_a_terminal_leaves_a_clean_screen_and_one_line(tmp_path: Path, file: Path) -> None:
    terminal = Terminal("run", file, cwd=tmp_path)
    terminal.read_until("launches, about")
    os.write(terminal.master, b"\x03")
    status, rows = terminal.end()
    assert status == 130
    assert terminal.text.count("\x1b[?25l") == terminal.text.count("\x1b[?25h") == 1
    said = [row for row in rows if row.startswith("benchharness: ")]
    assert len(said) == 1
    assert "interrupted" in said[0]
    assert said[0].endswith(" --resume")
    assert "Traceback" not in terminal.text


def test_a_run_goes_on_when_nobody_reads_any_more(tmp_path: Path, file: Path) -> None:
    """`benchharness run ... 2>&1 | head -1`"""
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchharness", "run", str(file), "--json"],
        cwd=tmp_path,
        env=variables(),
        stdout=write_end,
        stderr=write_end,
    )
    os.close(write_end)
    assert os.read(read_end, 1000).startswith(b"measuring")
    os.close(read_end)
    assert process.wait(LIMIT_S) in (0, 4)
    launches = list(run_folder(tmp_path / "results").glob("launches/*/launch.json"))
    assert len(launches) == 1


@pytest.mark.parametrize("arguments", [("list",), ("list", "--json"), ("plan", "FILE")])
def test_a_reader_that_leaves_changes_neither_status_nor_words(
    tmp_path: Path, file: Path, arguments: tuple[str, ...]
) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "benchharness", *(str(file) if one == "FILE" else one for one in arguments)],
        cwd=tmp_path,
        env=variables(),
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
    )
    os.close(write_end)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Broken pipe" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_an_error_that_nobody_reads_keeps_its_status(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "benchharness", "show", "nosuch", "--json"],
        cwd=tmp_path,
        env=variables(),
        stdout=write_end,
        stderr=write_end,
        timeout=LIMIT_S,
    )
    os.close(write_end)
    assert done.returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_output_to_a_full_disk_is_one_line_and_status_5(tmp_path: Path, options: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "benchharness", "list", *options],
            cwd=tmp_path,
            env=variables(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
        )
    assert done.stderr.splitlines()[-1] == "benchharness: error: No space left on device"
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.returncode == 5


@contextlib.contextmanager
def disk(place: Path, size: str) -> Iterator[Path]:
    """A real small file system, where we may mount one."""
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small file system can't be mounted here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill(place: Path, leave_kib: int) -> None:
    """Let a file take all of the file system but so much."""
    ballast = place / "ballast"
    ballast.unlink(missing_ok=True)
    free = os.statvfs(place)
    left = free.f_bavail * free.f_frsize // 1024 - leave_kib
    ballast.write_bytes(bytes(1024 * max(0, left)))


def test_a_full_disk_ends_with_5_and_loses_nothing(tmp_path: Path, file: Path) -> None:
    arguments = ("run", file, "--set", "measure.launches=3", "--results", "disk/r", "--json")
    with disk(tmp_path / "disk", "400k") as place:
        fill(place, 60)
        first = bench(*arguments, cwd=tmp_path)
        first.refused(
            5, "cannot write disk/r/small/", "No space left on device", "free some space", "--resume"
        )
        assert first.document["exit_status"] == 5
        kept = contents(place)
        assert any(name.endswith("launch.json") for name in kept)
        assert not any(name.startswith(".") for name in (Path(one).name for one in kept)), "half a file"

        (place / "ballast").unlink()
        second = bench(*arguments, "--resume", cwd=tmp_path)
        assert second.status in (0, 4), second.err
        assert (second.document["launches"], second.document["finished"]) == (3, True)
        assert second.document["failures"] == []
        assert kept.items() <= contents(place).items()


def contents(place: Path) -> dict[str, bytes]:
    """Every stored file of a launch that is over."""
    return {
        str(path): path.read_bytes()
        for document in place.glob("r/*/*/launches/*/launch.json")
        for path in document.parent.rglob("*")
        if path.is_file()
    }


def test_a_folder_that_may_not_be_written_is_one_line_and_status_5(tmp_path: Path, file: Path) -> None:
    with disk(tmp_path / "disk", "100k") as place:
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        ended = bench("run", file, "--results", "disk/r", "--json", cwd=tmp_path)
    ended.refused(5, "cannot write disk/r/small/", "Read-only file system", "another --results")
    assert ended.document["exit_status"] == 5
