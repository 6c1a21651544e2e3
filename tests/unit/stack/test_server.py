"""A server's life: ready by its own sign, watched, and ended; every failure with its reason."""

import http.server
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from benchharness.errors import EngineError
from benchharness.records import Command, Readiness
from benchharness.stack import server as server_module
from benchharness.stack.logfile import GrowingLog
from benchharness.stack.server import free_port, log_tail, port_is_free, running

ENGINE = Path(__file__).with_name("scripted_engine.py")
READY = Readiness("server is listening", "/health", 60)


class Engines:
    """Starts scripted engines in a folder, and knows which of their processes live."""

    def __init__(self, folder):
        self.folder = folder
        self.pids = folder / "pids"
        self.pids.mkdir()
        self.log = folder / "engine.log"

    def start(self, readiness=READY, *, port=None, stop_grace_s=10.0, on_wait=None, **orders):
        port = port or free_port()
        text = json.dumps({"pids": str(self.pids), "port": port, **orders})
        return running(
            Command((sys.executable, str(ENGINE), text)),
            readiness,
            base_url=f"http://127.0.0.1:{port}",
            log_path=self.log,
            stop_grace_s=stop_grace_s,
            on_wait=on_wait,
        )

    def living(self):
        found = [process for process in psutil.process_iter() if (self.pids / str(process.pid)).exists()]
        return [process.pid for process in found if process.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def engines(tmp_path):
    return Engines(tmp_path)


def test_a_server_is_ready_and_ended_whole(engines):
    with engines.start(children=["plain", "daemon"]) as server:
        assert server.alive()
        server.check()
        assert sorted(server.process_ids()) == sorted(engines.living())
        assert server.tail(1) == ("server is listening",)
        assert server.started_ns < server.ready_ns <= time.monotonic_ns()
        assert server.start_s == (server.ready_ns - server.started_ns) / 1e9
        assert (server.exit, server.stop_s) == (None, 0.0)
    assert engines.living() == []
    assert (server.exit.exit_code, server.exit.forced) == (-signal.SIGTERM, False)
    assert server.exit.cpu_s > 0
    assert server.exit.max_rss_bytes > 1 << 20
    assert server.stop_s > 0
    assert not server.alive()


def test_readiness_waits_for_the_log_line_and_then_for_health(engines):
    """Health alone is no sign: the engine serves, but never says so."""
    with pytest.raises(EngineError) as caught, engines.start(Readiness("^never said$", "/health", 1.5)):
        pass
    assert "not ready within 1.5 s" in caught.value.message
    assert "'^never said$'" in caught.value.message
    assert caught.value.last_lines == ("server is listening",)
    assert caught.value.exit_code is None
    assert engines.living() == []


def test_a_health_path_that_never_answers_200_is_named(engines):
    with (
        pytest.raises(EngineError, match="/wrong gave status 404"),
        engines.start(Readiness("listening", "/wrong", 1.5)),
    ):
        pass


def test_an_engine_that_hangs_at_start_is_ended_at_the_deadline(engines):
    with (
        pytest.raises(EngineError, match="not ready within 1 s"),
        engines.start(Readiness("listening", "/health", 1.0), serves=False, children=["stubborn"]),
    ):
        pass
    assert engines.living() == []


def test_early_death_has_the_code_and_the_last_lines(engines):
    lines = [f"line {n}\n" for n in range(40)] + ["\x1b[31mfatal: no such model\x1b[0m\n"]
    with pytest.raises(EngineError) as caught, engines.start(exit=3, lines=lines, children=["plain"]):
        pass
    error = caught.value
    assert error.message == "the engine exited with code 3 before it was ready"
    assert error.exit_code == 3
    assert len(error.last_lines) == 20
    assert error.last_lines[-2:] == ("line 39", "fatal: no such model")
    assert str(engines.log) in error.advice
    assert engines.living() == []


def test_early_death_is_seen_long_before_the_deadline(engines):
    began = time.monotonic()
    with pytest.raises(EngineError), engines.start(Readiness("x", None, 600), exit=1):
        pass
    assert time.monotonic() - began < 60


def test_death_by_a_signal_is_named(engines):
    with (
        pytest.raises(EngineError, match=r"exited with code -11 \(SIGSEGV\) before") as caught,
        engines.start(signal=11),
    ):
        pass
    assert caught.value.exit_code == -11


def test_death_by_sigkill_advises_on_memory(engines):
    with pytest.raises(EngineError) as caught, engines.start(signal=9):
        pass
    assert "memory" in caught.value.advice


def test_a_program_that_does_not_exist(tmp_path):
    command, url = Command(("/no/such/engine",)), f"http://127.0.0.1:{free_port()}"
    with (
        pytest.raises(EngineError, match="/no/such/engine: No such file or directory"),
        running(command, READY, base_url=url, log_path=tmp_path / "log"),
    ):
        pass


def test_death_while_serving_is_told_by_check(engines):
    with pytest.raises(EngineError) as caught, engines.start() as server:
        os.kill(server.pid, signal.SIGKILL)
        assert server.wait(20)
        server.check()
    assert caught.value.message == "the engine exited with code -9 (SIGKILL) while it served"
    assert caught.value.last_lines == ("server is listening",)
    assert server.exit.exit_code == -9


def test_death_of_the_guard_while_serving_is_told_by_check(engines):
    with (
        pytest.raises(EngineError, match="guard process was killed"),
        engines.start(children=["daemon"]) as server,
    ):
        os.kill(psutil.Process(server.pid).ppid(), signal.SIGKILL)
        assert server.wait(20)
        server.check()
    assert engines.living() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_whatever_leaves_the_block_ends_the_tree_and_passes_on(engines, error):
    with pytest.raises(error), engines.start(children=["plain", "stubborn"]):
        raise error
    assert engines.living() == []


def test_interrupt_while_waiting_ends_the_tree(engines):
    def interrupt(waited_s):
        if len(list(engines.pids.iterdir())) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with (
        pytest.raises(KeyboardInterrupt),
        engines.start(serves=False, children=["daemon"], on_wait=interrupt),
    ):
        pass
    assert engines.living() == []


def test_waiting_is_told(engines):
    told = []
    with engines.start(think_s=0.6, on_wait=told.append) as server:
        pass
    assert 2 <= len(told) <= server.start_s / server_module.TOLD_EVERY_S + 1
    assert told == sorted(told)
    assert told[-1] <= server.start_s


def test_a_deaf_engine_is_forced(engines):
    with engines.start(deaf=True, stop_grace_s=0.3) as server:
        pass
    assert (server.exit.exit_code, server.exit.forced) == (-9, True)
    assert server.stop_s >= 0.3


def test_a_port_taken_before_the_start_is_told_without_starting(engines):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EngineError, match=f"port {port} is taken"), engines.start(port=port):
            pass
    assert list(engines.pids.iterdir()) == []


def test_a_stranger_that_answers_on_the_port_is_not_the_engine(engines):
    port = free_port()
    strangers = []

    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    def take_port(_waited_s):
        if not strangers:
            strangers.append(http.server.HTTPServer(("127.0.0.1", port), Stranger))
            threading.Thread(target=strangers[0].serve_forever, args=(0.02,), daemon=True).start()

    try:
        with (
            pytest.raises(EngineError, match=f"another process answers on port {port}"),
            engines.start(
                Readiness("up", "/health"), port=port, serves=False, lines=["up\n"], on_wait=take_port
            ),
        ):
            pass
    finally:
        strangers[0].shutdown()
        strangers[0].server_close()
    assert engines.living() == []


def test_a_listener_deep_in_the_tree_is_the_engine(tmp_path):
    """Engines often serve from a child of the process that was started."""
    port = free_port()
    orders = json.dumps({"pids": str(tmp_path), "port": port})
    code = "import subprocess,sys;sys.exit(subprocess.call([sys.executable,*sys.argv[1:]]))"
    with running(
        Command((sys.executable, "-c", code, str(ENGINE), orders)),
        READY,
        base_url=f"http://127.0.0.1:{port}",
        log_path=tmp_path / "log",
    ) as server:
        assert len(server.process_ids()) == 2


def test_a_flood_of_binary_garbage_hides_no_sign_and_takes_no_memory(engines):
    before = psutil.Process().memory_info().rss
    with engines.start(garbage_mib=48) as server:
        grown = psutil.Process().memory_info().rss - before
        assert grown < 24 << 20
        assert engines.log.stat().st_size > 40 << 20
    assert server.tail(1)[0].endswith("server is listening")


def test_the_sign_is_found_in_an_unfinished_line(engines):
    with engines.start(Readiness("ready$", None, 60), serves=False, lines=["almost rea", "dy"]):
        pass


def test_the_sign_is_found_across_reads(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"")
    log = GrowingLog(path)
    pattern = re.compile("^the server is up$", re.MULTILINE)
    with path.open("ab", buffering=0) as file:
        for piece in (b"x" * 200_000, b"\nthe ser", b"ver i", b"s up"):
            assert not log.find(pattern)
            file.write(piece)
        assert log.find(pattern)
    log.close()


def test_new_lines_are_told_once_and_only_when_complete(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"")
    log = GrowingLog(path)
    with path.open("ab", buffering=0) as file:
        file.write(b"one\ntw")
        assert log.new_lines() == ("one",)
        file.write("ö\n\nthree\n".encode())
        assert log.new_lines() == ("twö", "three")
        assert log.new_lines() == ()
    log.close()


def test_log_tail_reads_only_the_end_of_a_huge_file(tmp_path):
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a sparse file: reading it whole would not end
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast but one\nlast\n")
    assert log_tail(path, 2) == ("last but one", "last")


def test_log_tail_makes_lines_fit_for_print(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(
        b"\x1b[1;32mgreen\x1b[0m\r\n"
        b"\x1b]0;title\x07after title\n"
        b"10%\r50%\rdone\n"
        b"\n" + b"\xff\xfe\x00\x01" * 50 + b"\n" + b"y" * 5000 + b"\n"
        b"caf\xc3\xa9 \xff mostly text\n"
    )
    *rest, garbage, long, last = log_tail(path)
    assert rest == ["green", "after title", "done"]
    assert garbage == "(200 bytes that are not text)"
    assert long.startswith("yyyy")
    assert len(long) < 340
    assert long.endswith("(5000 characters)")
    assert last == "café \ufffd mostly text"


def test_log_tail_of_no_file_is_empty(tmp_path):
    assert log_tail(tmp_path / "none") == ()


def test_free_ports_are_free_and_out_of_the_clients_range():
    lowest_of_clients = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = [free_port() for _ in range(20)]
    assert all(port_is_free(port) for port in ports)
    assert all(1024 < port < lowest_of_clients for port in ports)
    assert len(set(ports)) > 10


def test_a_port_with_a_listener_is_not_free():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not port_is_free(port)
    assert port_is_free(port)
