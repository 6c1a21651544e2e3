"""The probe inside spawned workers of packages that are laid out as SGLang's releases are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from fake_sglang import lay_out

import benchharness
from benchharness.records import RequestTrace
from benchharness.timings import probe_cycles, probe_file
from benchharness.timings.probe_file import ProbeFile

PROBE = Path(benchharness.__file__).parent / "probe"


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Variables of an engine that has the probe first on its path."""
    written = folder / "written"
    written.mkdir(exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{PROBE}{os.pathsep}{folder}",
        "BENCHHARNESS_PROBE_DIR": str(written),
        **more,
    }


def run(
    folder: Path, layout: str, job: str, ranks: int = 1, python: Sequence[str] = (), **env: str
) -> tuple[ProbeFile, ...]:
    """Run an engine to its end and read what its processes wrote; the ranks come first."""
    engine = lay_out(folder, layout)
    done = subprocess.run(
        [sys.executable, *python, engine, job, str(ranks)],
        env=environment(folder, **env),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "probe" not in done.stderr, done.stderr
    return probe_file.read_folder(folder / "written")


def test_v1_worker_gives_every_phase_and_what_was_accepted(tmp_path: Path) -> None:
    worker, parent = run(tmp_path, "v1", "3,2")

    assert [row.mode for row in worker.rows] == ["prefill", *["decode"] * 3, "prefill", *["decode"] * 2]
    assert worker.report.workers == ("StandaloneWorker",)
    assert worker.report.clock == "host"
    assert (worker.report.rank, worker.report.gpu_id, worker.report.device) == (0, None, "cpu")
    assert worker.report.versions["sglang"] == "0.5.99"
    assert worker.report.faults == {}
    for row in worker.rows:
        if row.mode == "decode":
            assert (row.tokens, row.accepted, row.batch_size, row.context_tokens) == (2, (2,), 1, 16)
            assert row.graph is True
            assert row.gpu is None
            host = row.host
            assert host.draft is not None and host.verify is not None and host.draft_extend is not None
            assert host.forward is not None and host.after is not None and host.total is not None
            assert host.forward >= 3.0  # the replay sleeps for 3 ms; it can't be shorter
            assert host.after >= 1.0
            assert host.forward + host.after <= host.verify
            assert host.draft + host.verify + host.draft_extend <= host.total
            assert not row.verify_is_forward and not row.plain
        else:
            assert row.graph is False
            assert row.host.draft is None and row.host.verify is None
    assert parent.report.rank is None and parent.rows == ()
    assert "sglang.srt.managers.scheduler.Scheduler.run_batch" in parent.report.hooks
    assert "sglang.srt.speculative.eagle_worker.EAGLEWorker.verify" in worker.report.hooks


def test_v2_worker_tells_what_was_accepted_one_step_later(tmp_path: Path) -> None:
    worker, _ = run(tmp_path, "v2", "4,1")

    decode = [row for row in worker.rows if row.mode == "decode"]
    assert [row.seq for row in worker.rows] == [1, 2, 3, 4, 5, 6, 7]
    assert len(decode) == 5
    assert {(row.tokens, row.accepted) for row in decode} == {(3, (3,))}
    assert {(row.graph, row.draft_graph, row.draft_extend_graph) for row in decode} == {(True, True, None)}
    assert worker.report.workers == ("EAGLEWorkerV2",)
    assert not any(row.at_step for row in worker.rows)
    assert all(row.host.draft and row.host.verify and row.host.draft_extend for row in decode)
    # What a release lacks is told, and is no fault.
    assert any(name.endswith("EAGLEWorkerV2.draft") for name in worker.report.absent)


@pytest.mark.parametrize("layout", ["plain", "thread"])
def test_plain_decoding_gives_cycles_of_one_token_a_request(tmp_path: Path, layout: str) -> None:
    worker, _ = run(tmp_path, layout, "4")

    assert [row.mode for row in worker.rows] == ["prefill", *["decode"] * 4]
    for row in worker.rows[1:]:
        assert row.plain and not row.at_step
        assert (row.tokens, row.accepted) == (1, ())
        assert row.host.draft is None and row.host.verify is None
        assert row.host.forward is not None and row.host.total is not None and row.host.after is not None
        assert 3.0 <= row.host.forward <= row.host.total
    assert worker.report.workers == ("TpModelWorker",)


def test_a_worker_without_verify_has_the_target_s_forward_for_it(tmp_path: Path) -> None:
    worker, _ = run(tmp_path, "ngram", "2")

    for row in worker.rows[1:]:
        assert row.verify_is_forward
        assert row.host.verify is not None and row.host.draft is not None and row.host.total is not None
        assert row.host.draft + row.host.verify <= row.host.total
        assert row.host.draft_extend is None
        assert (row.tokens, row.accepted) == (4, ())


def test_without_a_known_worker_the_scheduler_s_step_is_the_cycle(tmp_path: Path) -> None:
    worker, _ = run(tmp_path, "renamed", "3")

    assert [(row.mode, row.tokens) for row in worker.rows] == [("prefill", 1), *[("decode", 1)] * 3]
    assert all(row.at_step and row.host.forward and row.host.total for row in worker.rows)
    assert worker.report.workers == ("RenamedScheduler",)


def test_a_release_with_nothing_to_hook_runs_and_the_file_says_so(tmp_path: Path) -> None:
    files = run(tmp_path, "unknown", "1", ranks=2)

    assert len(files) == 3
    assert {file.report.hooks for file in files} == {()}
    (finding,) = probe_cycles.findings(files, ranks=2)
    assert "found nothing to time" in finding.sentence


def test_an_isolated_interpreter_leaves_no_file_and_that_is_said(tmp_path: Path) -> None:
    starter = tmp_path / "start.py"
    starter.write_text("import sys, runpy; sys.path.insert(0, sys.argv.pop(1)); import sglang")
    lay_out(tmp_path, "plain")
    subprocess.run(
        [sys.executable, "-I", starter, tmp_path], env=environment(tmp_path), check=True, timeout=60
    )

    files = probe_file.read_folder(tmp_path / "written")

    assert files == ()
    (finding,) = probe_cycles.findings(files, ranks=1)
    assert "python -I" in finding.sentence


def test_each_rank_tells_the_environment_that_it_really_has(tmp_path: Path) -> None:
    files = run(
        tmp_path,
        "v1",
        "1",
        ranks=2,
        STRIP="1",
        NCCL_ALGO="Ring",
        NCCL_PROTO="LL",
        MY_SWITCH="yes",
        SGLANG_API_KEY="abc",
        SGLANG_PROXY="http://me:secret@127.0.0.1:1",
        SGLANG_MAX_NEW_TOKENS="7",
        HF_TOKEN="hf_abcdefghijklmnopqrstuvwxyz",
        BENCHHARNESS_PROBE_ENV="MY_SWITCH,HF_TOKEN",
    )

    first, second, parent = (file.report for file in files)
    assert (first.rank, second.rank, parent.rank) == (0, 1, None)
    assert (first.env["NCCL_ALGO"], first.env.get("NCCL_NVLS_ENABLE")) == ("Ring", None)
    assert (second.env.get("NCCL_ALGO"), second.env["NCCL_NVLS_ENABLE"]) == (None, "0")
    assert second.env["NCCL_PROTO"] == "LL"
    assert first.env["MY_SWITCH"] == "yes"
    assert {first.env[name] for name in ("SGLANG_API_KEY", "SGLANG_PROXY", "HF_TOKEN")} == {"***"}
    assert first.env["SGLANG_MAX_NEW_TOKENS"] == "7"
    assert "PATH" in first.env_names and "PATH" not in first.env
    assert first.process.source == "probe" and first.process.rank == 0
    for file in files:
        raw = file.path.read_bytes()
        assert b"hf_abc" not in raw and b"secret" not in raw and b'"abc"' not in raw


def test_a_killed_worker_loses_no_cycle_that_it_had_finished(tmp_path: Path) -> None:
    engine = lay_out(tmp_path, "v1")
    process = subprocess.Popen(
        [sys.executable, engine, "forever", "1"],
        env=environment(tmp_path),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        pid, finished = 0, 0
        while finished < 12:
            pid, finished = map(int, process.stdout.readline().split())
        os.kill(pid, signal.SIGKILL)
        finished = int(([f"{pid} {finished}", *process.stdout.read().splitlines()])[-1].split()[1])
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    worker = next(
        file for file in probe_file.read_folder(tmp_path / "written") if file.report.rank is not None
    )

    assert worker.report.pid == pid
    assert sum(row.mode == "decode" for row in worker.rows) >= finished
    assert worker.rows[-1].seq == len(worker.rows)


def test_the_switch_turns_cycles_off_and_on_while_the_engine_runs(tmp_path: Path) -> None:
    engine = lay_out(tmp_path, "v1")
    process = subprocess.Popen(
        [sys.executable, engine, "forever", "1"],
        env=environment(tmp_path),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    counts = []
    try:
        for on in (True, False, True):
            assert probe_file.switch(tmp_path / "written", on) == (2 if counts else 0)
            for _ in range(6):
                process.stdout.readline()
            files = probe_file.read_folder(tmp_path / "written")
            counts.append(max(len(file.rows) for file in files))
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    # A line stands for two passes; lines may wait in the pipe, so ends are a little blurred.
    assert counts[0] >= 12
    assert counts[1] - counts[0] <= 8
    assert counts[2] - counts[1] >= 4
    worker = probe_file.read_folder(tmp_path / "written")[0]
    skipped = [after.seq - row.seq for row, after in zip(worker.rows, worker.rows[1:], strict=False)]
    assert sorted(set(skipped)) == [1, 2]
    assert skipped.count(2) == 1


def test_the_user_s_own_sitecustomize_still_runs_under_its_name(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import os\nos.environ['OWN'] = 'ran'\nanswer = 42\n")
    check = "import os, sys, sitecustomize; print(os.environ['OWN'], sitecustomize.answer, sys.path[1:3])"
    env = environment(tmp_path)
    env["PYTHONPATH"] = os.pathsep.join([str(PROBE), str(own), str(tmp_path)])
    with_probe = subprocess.run(
        [sys.executable, "-c", check], env=env, capture_output=True, text=True, check=True
    )
    env["PYTHONPATH"] = os.pathsep.join([str(own), str(tmp_path)])
    without = subprocess.run(
        [sys.executable, "-c", check], env=env, capture_output=True, text=True, check=True
    )

    assert with_probe.stdout == without.stdout
    assert with_probe.stdout.startswith("ran 42")
    assert with_probe.stderr == without.stderr == ""


def test_an_error_in_the_user_s_own_sitecustomize_is_shown_as_python_shows_it(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('mine')\n")
    lay_out(tmp_path, "plain")
    done = subprocess.run(
        [sys.executable, "-c", "import sglang"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )

    assert "Error in sitecustomize" in done.stderr and "ValueError: mine" in done.stderr
    assert len(probe_file.read_folder(tmp_path / "written")) == 1


def test_modules_keep_their_own_loaders_and_methods_their_signatures(tmp_path: Path) -> None:
    lay_out(tmp_path, "v1")
    check = """
        import inspect
        from importlib.util import find_spec
        import sglang.srt.managers.tp_worker as module
        from sglang.srt.speculative.eagle_worker import EAGLEWorker, StandaloneWorker
        print(type(module.__loader__).__name__, module.__loader__ is module.__spec__.loader)
        print(inspect.signature(EAGLEWorker.verify))
        print("time.sleep" in inspect.getsource(EAGLEWorker.draft))
        print("draft" in StandaloneWorker.__dict__)
        print([name for name in ("hooks", "recorder", "process", "cycle") if find_spec(name)])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(check)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == [
        "SourceFileLoader True",
        "(self, batch, spec_info)",
        "True",
        "False",
        "[]",
    ]


def test_modules_that_are_there_already_are_wrapped_as_well(tmp_path: Path) -> None:
    lay_out(tmp_path, "v1")
    late = """
        import os, sys
        sys.path[:0] = sys.argv[1:]
        import sglang.srt.speculative.eagle_worker as module
        before = len(sys.meta_path)
        folder = os.environ.pop("LATER")
        os.environ["BENCHHARNESS_PROBE_DIR"] = folder
        import benchharness.probe.importing as importing
        importing.install()
        importing.install()
        print(hasattr(module.EAGLEWorker.verify, "__wrapped__"), len(sys.meta_path) - before)
        print(hasattr(module.EAGLEWorker.verify.__wrapped__, "__wrapped__"))
    """
    env = environment(tmp_path)
    env["LATER"] = env.pop("BENCHHARNESS_PROBE_DIR")
    done = subprocess.run(
        [sys.executable, "-I", "-c", textwrap.dedent(late), str(tmp_path), str(PROBE.parents[1])],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == ["True 1", "False"]
    (file,) = probe_file.read_folder(tmp_path / "written")
    assert "sglang.srt.speculative.eagle_worker.EAGLEWorker.verify" in file.report.hooks


def test_without_its_folder_the_probe_does_nothing(tmp_path: Path) -> None:
    lay_out(tmp_path, "plain")
    env = environment(tmp_path)
    del env["BENCHHARNESS_PROBE_DIR"]
    check = "import sys, sglang; print([n for n in sys.modules if 'benchharness' in n], len(sys.meta_path))"
    probed, bare = (
        subprocess.run(
            [sys.executable, "-c", check],
            env=env | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        for path in (f"{PROBE}{os.pathsep}{tmp_path}", str(tmp_path))
    )

    assert probed.stdout == bare.stdout
    assert probed.stdout.startswith("[]")


def test_a_folder_that_can_t_be_written_does_not_stop_the_engine(tmp_path: Path) -> None:
    engine = lay_out(tmp_path, "v1")
    env = environment(tmp_path) | {"BENCHHARNESS_PROBE_DIR": str(tmp_path / "missing")}
    done = subprocess.run(
        [sys.executable, engine, "1", "1"], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0
    assert "is not timed" in done.stderr and "Traceback" not in done.stderr


def test_cycles_are_joined_with_requests_by_the_monotonic_clock(tmp_path: Path) -> None:
    began = time.monotonic_ns()
    files = run(tmp_path, "v2", "3,5")
    over = time.monotonic_ns()
    worker = files[0]
    second = [row.start_ns for row in worker.rows if row.mode == "prefill"][1]
    traces = [
        RequestTrace(
            index, False, 16, sent, sent, finished, output_tokens=tokens, chunk_ns=(), chunk_tokens=()
        )
        for index, sent, finished, tokens in ((0, began, second - 1, 10), (1, second - 1, over, 11))
    ]

    made = probe_cycles.cycles(files, traces)

    assert [(cycle.request, cycle.index) for cycle in made] == [
        *((0, index) for index in range(3)),
        *((1, index) for index in range(5)),
    ]
    # 1 + 3 + 3 + 3 = 10 tokens; the second answer of 11 is complete after its fourth cycle.
    assert [cycle.mark for cycle in made] == ["", "", "", "", "", "", "", "surplus"]
    assert [cycle.period_ms is None for cycle in made] == [False, False, True, *[False] * 4, True]
    for cycle in made:
        assert (cycle.source, cycle.clock, cycle.rank) == ("probe", "host", 0)
        assert cycle.period_ms is None or cycle.period_ms >= cycle.total_ms
