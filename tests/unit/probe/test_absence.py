"""Where the probe is not, the record says which process lacks it and why; with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from fake_sglang import lay_out

from benchharness.records import Command
from benchharness.stack import absence, probing, procfs
from benchharness.timings import probe_cycles, probe_file
from benchharness.timings.probe_file import ProbeFile

# A worker a rank, by multiprocessing spawn or as a program of its own; each says when it is ready, and waits.
WORKER = """
    import sys
    sys.path.insert(0, {place!r})

    def work(rank):
        from sglang.srt.managers.scheduler import make_scheduler
        scheduler = make_scheduler(rank, rank)
        scheduler.request(3)
        print("ready", flush=True)
        import signal
        signal.pause()

    if __name__ == "__main__":
        work(int(sys.argv[1]))
"""
ENGINE = """
    import os, subprocess, sys
    sys.path.insert(0, {place!r})

    if __name__ == "__main__":
        import sglang
        children = []
        for rank in range(int(sys.argv[1])):
            options, env = [], dict(os.environ)
            if str(rank) == os.environ.get("STRIPPED"):
                env.pop("BENCHHARNESS_PROBE_DIR")
            if str(rank) == os.environ.get("ISOLATED"):
                options = ["-I"]
            if str(rank) == os.environ.get("OFF_PATH"):
                env.pop("PYTHONPATH")
            children.append(subprocess.Popen([sys.executable, *options, {worker!r}, str(rank)], env=env))
        for child in children:
            child.wait()
        sys.stdin.read()
"""


@contextmanager
def engine(
    place: Path, *options: str, ranks: int = 2, **env: str
) -> Iterator[tuple[subprocess.Popen[str], list[int], Path]]:
    """The engine's process, all processes of its tree, and the probe's folder, once every rank is ready."""
    lay_out(place, "v1")
    worker, script = place / "worker.py", place / "start.py"
    worker.write_text(textwrap.dedent(WORKER.format(place=str(place))))
    script.write_text(textwrap.dedent(ENGINE.format(place=str(place), worker=str(worker))))
    folder = place / "written"
    command = probing.with_probe(Command((sys.executable, *options, str(script), str(ranks)), env), folder)
    process = subprocess.Popen(
        command.argv,
        env={"PATH": os.environ["PATH"], **command.env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        for _ in range(ranks):
            assert process.stdout.readline() == "ready\n"
        tree = [process.pid, *(child.pid for child in psutil.Process(process.pid).children(recursive=True))]
        yield process, tree, folder
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def said(place: Path, *options: str, **env: str) -> tuple[tuple[str, ...], list[int], Sequence[ProbeFile]]:
    with engine(place, *options, **env) as (process, tree, folder):
        files = probe_file.read_folder(folder)
        return absence.sentences(files, process.pid, tree, 2), tree, files


def test_where_it_is_everywhere_nothing_is_said(tmp_path: Path) -> None:
    sentences, _, files = said(tmp_path)
    assert sentences == ()
    assert [file.report.rank for file in files] == [0, 1, None]


def test_an_isolated_interpreter_is_named_with_its_option_and_the_run_goes_on(tmp_path: Path) -> None:
    """Its children are started with its own command line; here they are reached, so only it is named."""
    (sentence,), tree, files = said(tmp_path, "-I")
    assert f"process {tree[0]}: its interpreter runs isolated (-I), which ignores PYTHONPATH" in sentence
    assert [file.report.rank for file in files] == [0, 1]
    findings = probe_cycles.findings(files, 2, [sentence])
    assert [(found.grave, found.sentence) for found in findings] == [(False, sentence)]


def test_where_no_process_left_a_file_the_reason_is_said_and_what_remains(tmp_path: Path) -> None:
    with engine(tmp_path, "-E", ranks=0) as (process, _, folder):
        while procfs.python_options(procfs.arguments(process.pid)) != {"E"}:
            time.sleep(0.01)
        sentences = absence.sentences(probe_file.read_folder(folder), process.pid, [process.pid], 1)
    (sentence,) = sentences
    assert sentence.startswith("the probe was wanted, but no process left a file: process ")
    assert "isolated (-E)" in sentence
    (finding,) = probe_cycles.findings((), 1, sentences)
    assert finding.sentence == f"{sentence}; {probe_cycles.REMAINING}"
    assert not finding.grave


def test_one_rank_that_is_missing_its_file_is_named_with_its_process(tmp_path: Path) -> None:
    for name, why in (
        ("STRIPPED", "BENCHHARNESS_PROBE_DIR is not in its environment"),
        ("ISOLATED", "its interpreter runs isolated (-I), which ignores PYTHONPATH"),
        ("OFF_PATH", "the probe is not on its PYTHONPATH"),
    ):
        place = tmp_path / name
        place.mkdir()
        (sentence,), tree, files = said(place, **{name: "1"})
        assert [file.report.rank for file in files] == [0, None], name
        (lost,) = set(tree) - {file.report.pid for file in files}
        assert sentence == f"the probe was wanted, but rank 1 left no file: process {lost}: {why}"
        (finding,) = probe_cycles.findings(files, 2, [sentence])
        assert finding.sentence == sentence and not finding.grave


def test_where_only_the_parent_left_a_file_its_worker_is_missed(tmp_path: Path) -> None:
    with engine(tmp_path, ranks=1, STRIPPED="0") as (process, tree, folder):
        files = probe_file.read_folder(folder)
        (sentence,) = absence.sentences(files, process.pid, tree, 1)
    assert [file.report.pid for file in files] == [process.pid]
    assert sentence.startswith(f"the probe was wanted, but rank 0 left no file: process {tree[1]}: ")


def test_a_worker_that_dies_is_named_and_what_it_had_recorded_is_read(tmp_path: Path) -> None:
    with engine(tmp_path) as (_, _, folder):
        files = probing.files(folder, 0, time.monotonic_ns())
        assert absence.deaths(files) == ()
        os.kill(files[1].report.pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while not absence.deaths(files) and time.monotonic() < deadline:
            time.sleep(0.01)
        files = probing.files(folder, 0, time.monotonic_ns())
        (finding,) = absence.deaths(files)
    assert finding.grave
    assert finding.sentence.startswith(f"rank 1 (pid {files[1].report.pid}) has died")
    assert "the 4 passes that it had recorded" in finding.sentence
    assert len(probe_cycles.cycles(files, ())) == 6


def test_options_of_an_interpreter_are_read_as_it_reads_them() -> None:
    def options(*arguments: str) -> set[str]:
        return procfs.python_options(("python", *arguments))

    assert options("-I", "a.py") == {"I"}
    assert options("-uIB", "-m", "x", "-E") == {"u", "I", "B", "m"}
    assert options("-W", "-I", "-X", "-E", "a.py", "-S") == {"W", "X"}
    assert options("-Wignore", "-S", "a.py") == {"W", "S"}
    assert options("a.py", "-I") == set()
    assert options("-c", "import x", "-I") == {"c"}
    assert options("--check-hash-based-pycs", "-I", "-s") == {"s"}
    assert options("-", "-I") == options() == set()
