"""What the system tells of processes, of real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchharness.records import Attestation, ProcessReport
from benchharness.stack import attestation, procfs

MAPS = """
import mmap, sys
files = [open(path, "rb") for path in sys.argv[1:]]
held = [mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) for file in files]
print("ready", flush=True)
sys.stdin.read()
"""


def mapped(*paths: Path) -> tuple[int, dict[str, tuple[str, ...]]]:
    """What is told of a process that has these files mapped."""
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 4096)
    process = subprocess.Popen(
        [sys.executable, "-c", MAPS, *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        (report,) = attestation.processes(process.pid, [process.pid], {})
        return process.pid, dict(report.libraries)
    finally:
        process.communicate()


def test_the_nccl_that_a_process_really_loaded_is_told_by_its_path(tmp_path: Path) -> None:
    nccl = tmp_path / "with space" / "site-packages" / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    net = tmp_path / "libnccl-net.so"
    _, found = mapped(nccl, net)
    assert found == {"nccl": (str(nccl),)}


def test_two_copies_are_both_told(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "libnccl.so.2.27.5", tmp_path / "b" / "libnccl.so"
    _, found = mapped(first, second)
    assert found == {"nccl": (str(first), str(second))}


def test_a_process_that_is_gone_tells_nothing() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert procfs.program(process.pid) is None
    assert procfs.arguments(process.pid) == ()
    assert procfs.environ(process.pid) == {}
    assert procfs.libraries(process.pid) == {}
    assert procfs.is_dead(process.pid)
    assert not procfs.is_dead(os.getpid())


def test_a_process_that_nobody_has_waited_for_is_dead_too() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    try:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert procfs.is_dead(process.pid)
    finally:
        process.wait()


def test_arguments_keep_their_spaces_and_empty_ones() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "print(1, flush=True); input()", "a b", "", "$x"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        process.stdout.readline()
        assert procfs.arguments(process.pid)[3:] == ("a b", "", "$x")
    finally:
        process.communicate()


def test_nccl_machine_and_the_probes_way_are_part_of_a_difference() -> None:
    def attested(version: str, width: tuple[int, int], place: str, way: str, driver: str) -> Attestation:
        gpus = [
            {"index": index, "uuid": f"{place}{index}", "pcie_width": one, "ecc": 1}
            for index, one in enumerate(width)
        ]
        library = {"nccl": (f"/{place}/lib/site-packages/nvidia/nccl/lib/libnccl.so.2",)}
        return Attestation(
            processes=(
                ProcessReport(1, libraries=library),
                ProcessReport(1, 0, versions={"nccl": version}, source="probe", came_by=way),
            ),
            machine={"driver": driver, "gpus": gpus},
        )

    same = attested("2.27.5", (16, 16), "one", "sitecustomize", "570.1")
    assert attestation.difference(same, attested("2.27.5", (16, 16), "two", "sitecustomize", "570.1")) == {}
    other = attested("2.28.3", (16, 8), "two", "plugin", "575.2")
    assert attestation.difference(same, other) == {
        "machine.driver": ("570.1", "575.2"),
        "machine.gpus.pcie_width": ("16", "16 | 8"),
        "nccl": ("2.27.5", "2.28.3"),
        "probe.came_by": ("sitecustomize", "plugin"),
    }


def test_cpu_time_counts_what_a_process_and_its_waited_for_children_spent() -> None:
    busy = "import time, subprocess, sys; subprocess.run([sys.executable, '-c', {0!r}]); {1}; input()"
    spin = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    text = busy.format(spin, "print('spun', flush=True)")
    with subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "spun\n"
        assert 0.3 <= procfs.cpu_s([process.pid, 2**22 - 1]) < 5
        process.kill()
    assert procfs.cpu_s([process.pid]) == 0
