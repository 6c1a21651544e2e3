"""Which processes of a tree are the engine's own: torch's compile workers are not, nor what they start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

from benchharness.stack import attestation, procfs

CHILD = """
import subprocess, sys, time
for script in sys.argv[1:]:
    subprocess.Popen([sys.executable, script])
print("up", flush=True)
time.sleep(60)
"""
COMPILER = """
import os, subprocess, sys, time
code = "import time; time.sleep(60)"
subprocess.Popen([sys.executable, "-c", code], env={"PYTHONPATH": "/of/the/compiler"})
time.sleep(60)
"""


def test_compile_workers_and_what_they_start_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "torch" / "_inductor" / "compile_worker"
    folder.mkdir(parents=True)
    (folder / "__main__.py").write_text(COMPILER)
    worker = tmp_path / "worker.py"
    worker.write_text("import time; time.sleep(60)")
    main = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(worker), str(folder / "__main__.py")],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": "/declared"},
        text=True,
    )
    try:
        assert main.stdout is not None and main.stdout.readline() == "up\n"
        tree = psutil.Process(main.pid)
        for _ in range(200):
            below = tree.children(recursive=True)
            # The compiler's own child has exchanged its program once its variables are there.
            if len(below) == 3 and all(procfs.environ(one.pid) for one in below):
                break
            subprocess.run(["sleep", "0.05"], check=True)
        pids = [main.pid, *(one.pid for one in tree.children(recursive=True))]
        assert len(pids) == 4
        own = procfs.engine_processes(main.pid, pids)
        names = {pid: " ".join(procfs.arguments(pid)) for pid in own}
        assert len(own) == 2 and own[0] == main.pid
        assert "worker.py" in names[own[1]]
        reports = attestation.processes(main.pid, pids, {"PYTHONPATH": "/declared"})
        assert {report.env.get("PYTHONPATH") for report in reports} == {"/declared"}
    finally:
        for one in psutil.Process(main.pid).children(recursive=True):
            one.kill()
        main.kill()
        main.wait()


def test_nothing_is_known_of_an_engine_that_is_gone() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    assert procfs.engine_processes(done.pid, [done.pid]) == []
