"""The guard and its process tree: nothing that an engine starts is ever left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from benchharness.errors import InfrastructureError
from benchharness.records import Command
from benchharness.stack.processtree import GUARD, MARK, ProcessTree, environment_for

ENGINE = Path(__file__).with_name("scripted_engine.py")
HARNESS = """
import json, sys, time
from pathlib import Path
from benchharness.records import Command
from benchharness.stack.processtree import ProcessTree
tree = ProcessTree(Command(tuple(json.loads(sys.argv[1]))), Path(sys.argv[2]))
print("started", flush=True)
try:
    time.sleep(600)
finally:
    tree.stop(float(sys.argv[3]))
"""


def engine(tmp_path, **orders):
    pids = tmp_path / "pids"
    pids.mkdir(exist_ok=True)
    return (sys.executable, str(ENGINE), json.dumps({"pids": str(pids), "serves": False, **orders}))


def living(tmp_path):
    alive = []
    for file in (tmp_path / "pids").iterdir():
        try:
            if psutil.Process(int(file.name)).status() != psutil.STATUS_ZOMBIE:
                alive.append(int(file.name))
        except psutil.NoSuchProcess:
            continue
    return alive


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def started_tree(tmp_path, *, count, **orders):
    tree = ProcessTree(Command(engine(tmp_path, **orders)), tmp_path / "log")
    assert until(lambda: len(living(tmp_path)) == count)
    return tree


def started_harness(tmp_path, *, count, grace_s=10.0, **orders):
    """A harness as a process of its own, leader of its group as it would be under a shell."""
    harness = subprocess.Popen(
        [
            sys.executable,
            "-c",
            HARNESS,
            json.dumps(engine(tmp_path, **orders)),
            str(tmp_path / "log"),
            str(grace_s),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert harness.stdout.readline() == b"started\n"
    assert until(lambda: len(living(tmp_path)) == count)
    return harness


def test_reports_exit_code_cpu_and_memory(tmp_path):
    tree = ProcessTree(Command(engine(tmp_path, exit=3, busy_s=0.3)), tmp_path / "log")
    assert tree.wait(20) == 3
    end = tree.stop(1)
    assert (end.exit_code, end.forced, end.killed, end.left) == (3, False, 0, 0)
    assert 0.3 <= end.cpu_s < 3
    assert 4 << 20 < end.max_rss_bytes < 1 << 30


def test_counts_the_cpu_time_of_orphans(tmp_path):
    script = "import os,time\nif os.fork()==0:\n os.setsid()\n"
    script += " if os.fork()==0:\n  while time.process_time()<0.4: pass\n os._exit(0)\ntime.sleep(1.2)"
    tree = ProcessTree(Command((sys.executable, "-c", script)), tmp_path / "log")
    tree.wait(20)
    assert tree.stop(1).cpu_s >= 0.4


def test_a_signal_is_a_negative_exit_code(tmp_path):
    tree = ProcessTree(Command(engine(tmp_path, signal=11)), tmp_path / "log")
    assert tree.wait(20) == -11
    assert tree.stop(1).exit_code == -11


def test_stop_ends_children_daemons_and_the_deaf(tmp_path):
    tree = started_tree(tmp_path, count=4, children=["plain", "daemon", "stubborn"])
    end = tree.stop(10)
    assert living(tmp_path) == []
    assert (end.exit_code, end.forced) == (-signal.SIGTERM, False)
    assert end.killed == 1  # the stubborn one alone: the others heeded SIGTERM


def test_an_engine_deaf_to_sigterm_is_killed_after_the_grace(tmp_path):
    tree = started_tree(tmp_path, count=1, deaf=True)
    began = time.monotonic()
    end = tree.stop(0.5)
    assert time.monotonic() - began >= 0.5
    assert (end.exit_code, end.forced) == (-signal.SIGKILL, True)
    assert living(tmp_path) == []


def test_an_engine_that_dies_leaves_no_children(tmp_path):
    tree = started_tree(tmp_path, count=3, children=["plain", "stubborn"])
    os.kill(tree.pid, signal.SIGKILL)
    assert tree.wait(20) == -signal.SIGKILL
    assert until(lambda: living(tmp_path) == [])
    assert tree.stop(1).exit_code == -signal.SIGKILL


def test_wait_wakes_at_once_on_the_end(tmp_path):
    tree = ProcessTree(Command(engine(tmp_path, exit=0)), tmp_path / "log")
    began = time.monotonic()
    assert tree.wait(600) == 0
    assert time.monotonic() - began < 60
    tree.stop(0)


def test_sigkill_of_the_harness_leaves_nothing(tmp_path):
    harness = started_harness(tmp_path, count=4, children=["plain", "daemon", "stubborn"])
    harness.kill()
    harness.communicate()
    assert until(lambda: living(tmp_path) == [], seconds=15)


def test_sigkill_of_a_harness_whose_fork_keeps_the_pipe_open_leaves_nothing(tmp_path):
    """A forked worker that outlives the harness holds a copy of the control pipe: no end of file comes."""
    script = HARNESS.replace(
        'print("started"', 'import os\nif os.fork() == 0: time.sleep(20); os._exit(0)\nprint("started"'
    )
    harness = subprocess.Popen(
        [sys.executable, "-c", script, json.dumps(engine(tmp_path)), str(tmp_path / "log"), "10"],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert harness.stdout.readline() == b"started\n"
    assert until(lambda: len(living(tmp_path)) == 1)
    group = harness.pid
    harness.kill()
    harness.wait()
    try:
        assert until(lambda: living(tmp_path) == [], seconds=15)
    finally:
        os.killpg(group, signal.SIGKILL)
        harness.stdout.close()


def test_interrupt_of_the_harness_group_leaves_nothing(tmp_path):
    harness = started_harness(tmp_path, count=3, children=["plain", "stubborn"])
    os.killpg(harness.pid, signal.SIGINT)
    _, errors = harness.communicate(timeout=30)
    assert b"KeyboardInterrupt" in errors
    assert living(tmp_path) == []


def test_second_interrupt_while_stopping_leaves_nothing(tmp_path):
    harness = started_harness(tmp_path, count=2, deaf=True, children=["stubborn"], grace_s=300)
    os.killpg(harness.pid, signal.SIGINT)
    time.sleep(0.5)
    assert harness.poll() is None  # waiting for the deaf engine's grace
    os.killpg(harness.pid, signal.SIGINT)
    harness.communicate(timeout=30)
    assert until(lambda: living(tmp_path) == [], seconds=15)


def test_an_interrupted_stop_hurries_the_guard(tmp_path):
    """Also in a harness that lives on: the tree must not stand for the whole of a long grace."""

    def interrupt(*_):
        raise KeyboardInterrupt

    tree = started_tree(tmp_path, count=2, deaf=True, children=["stubborn"])
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            tree.stop(300)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert until(lambda: living(tmp_path) == [])


def test_sigkill_of_the_guard_leaves_nothing(tmp_path):
    tree = started_tree(tmp_path, count=4, children=["plain", "daemon", "stubborn"])
    guard = psutil.Process(tree.pid).ppid()
    os.kill(guard, signal.SIGKILL)
    assert until(lambda: tree.pid not in living(tmp_path))  # the engine dies with its guard by itself
    assert not tree.alive
    end = tree.stop(1)
    assert living(tmp_path) == []
    assert (end.exit_code, end.killed) == (None, 3)


def test_sigterm_to_the_guard_ends_the_tree(tmp_path):
    tree = started_tree(tmp_path, count=2, children=["daemon"])
    os.kill(psutil.Process(tree.pid).ppid(), signal.SIGTERM)
    assert tree.wait(20) == -signal.SIGTERM
    tree.stop(1)
    assert living(tmp_path) == []


def test_the_guard_and_the_engine_are_in_sessions_of_their_own(tmp_path):
    tree = started_tree(tmp_path, count=1)
    guard = psutil.Process(tree.pid).ppid()
    assert len({os.getsid(0), os.getsid(guard), os.getsid(tree.pid)}) == 3
    assert os.getpgid(tree.pid) == tree.pid
    tree.stop(5)


def test_the_engine_gets_no_descriptor_but_its_three(tmp_path):
    with (tmp_path / "other").open("w") as other:
        os.set_inheritable(other.fileno(), True)
        tree = started_tree(tmp_path, count=1)
        found = {
            int(fd.name): fd.readlink() for fd in Path(f"/proc/{tree.pid}/fd").iterdir() if int(fd.name) < 64
        }
        tree.stop(5)
    assert found == {0: Path("/dev/null"), 1: tmp_path / "log", 2: tmp_path / "log"}


def test_the_engine_has_the_ordinary_signal_actions(tmp_path):
    tree = started_tree(tmp_path, count=1)
    status = Path(f"/proc/{tree.pid}/status").read_text()
    tree.stop(5)
    ignored = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn")), 16)
    # Python itself ignores SIGPIPE and SIGXFSZ; nothing that the guard ignores or handles may come along.
    # What is 32 and above belongs to the C library and comes from whoever started the tests.
    ordinary = (1 << 31) - 1
    assert not ignored & ordinary & ~(1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1))


def test_a_program_that_does_not_exist_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        ProcessTree(Command(("/no/such/program",)), tmp_path / "log")
    assert caught.value.filename == "/no/such/program"


def test_a_folder_that_does_not_exist_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        ProcessTree(Command((sys.executable,), cwd=str(tmp_path / "none")), tmp_path / "log")
    assert caught.value.filename == str(tmp_path / "none")


def test_a_file_that_may_not_be_executed_is_an_os_error(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("x")
    with pytest.raises(PermissionError):
        ProcessTree(Command((str(plain),)), tmp_path / "log")


def test_a_log_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "log").mkdir()
    with pytest.raises(InfrastructureError, match="can't be written"):
        ProcessTree(Command((sys.executable,)), tmp_path / "log")


def test_arguments_and_variables_pass_unchanged(tmp_path):
    """T24: no command is ever built as a shell string."""
    odd = ("two words", "it's", 'say "x"', "$HOME `id` $(id)", "a\nb", "*", "", "ü\udcff")
    folder = tmp_path / "it's a $folder"
    folder.mkdir()
    code = "import sys,os,json;print(ascii([sys.argv[1:],os.environ['ODD'],os.getcwd()]))"
    tree = ProcessTree(
        Command((sys.executable, "-c", code, *odd), {"ODD": odd[3]}, str(folder)), folder / "log"
    )
    assert tree.wait(20) == 0
    tree.stop(1)
    assert (folder / "log").read_text().strip() == ascii([list(odd), odd[3], str(folder)])


def test_a_large_environment_passes(tmp_path):
    variables = {f"V{n}": "x" * 10000 for n in range(60)}
    code = "import os,sys;sys.exit(sum(len(os.environ[f'V{n}']) for n in range(60)) == 600000)"
    tree = ProcessTree(Command((sys.executable, "-c", code), variables), tmp_path / "log")
    assert tree.wait(20) == 1
    tree.stop(1)


def test_environment_is_the_harness_own_without_its_virtual_environment(monkeypatch):
    monkeypatch.setenv("VIRTUAL_ENV", "/x")
    monkeypatch.setenv("PYTHONHOME", "/y")
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.setenv("GONE", "1")
    own = str(Path(sys.prefix) / "bin")
    monkeypatch.setenv("PATH", f"{own}:/usr/bin")
    found = environment_for({"NEW": "2", "GONE": None})
    assert not {"VIRTUAL_ENV", "PYTHONHOME", "GONE"} & found.keys()
    assert (found["NEW"], found["PYTHONPATH"]) == ("2", "/mine")
    assert found["PATH"] == ("/usr/bin" if sys.prefix != sys.base_prefix else f"{own}:/usr/bin")


def test_a_guard_without_an_order_ends(tmp_path):
    ended = subprocess.run([sys.executable, "-I", "-S", str(GUARD)], stdin=subprocess.DEVNULL, timeout=60)
    assert ended.returncode == 0


def test_the_guard_needs_only_light_modules():
    """What makes it start slowly: an import of the package, or of a heavy part of the standard library."""
    started = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", str(GUARD)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    loaded = {line.rpartition("|")[2].strip() for line in started.stderr.splitlines()}
    assert "json" in loaded
    assert not loaded & {"benchharness", "subprocess", "pathlib", "typing", "threading", "psutil", "socket"}


def test_every_process_of_the_tree_carries_the_mark(tmp_path):
    tree = started_tree(tmp_path, count=3, children=["plain", "daemon"])
    marks = {psutil.Process(pid).environ()[MARK] for pid in tree.process_ids()}
    assert sorted(tree.process_ids()) == sorted(living(tmp_path))
    tree.stop(5)
    assert len(marks) == 1
