"""Ctrl-C and SIGKILL at many moments: nothing stored is lost, nobody is left behind, and --resume goes on."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from commandline import Command, Ended, bench, experiment, run_folder

CONTEXTS = [16, 24]
LAUNCHES = 2


def stored(results: Path) -> dict[str, str]:
    """Every file of a launch that is over, by path, with a hash of what it holds; all of it is whole."""
    found = {}
    for manifest in results.glob("*/*/run.json"):
        json.loads(manifest.read_text())
        for trial in manifest.parent.glob("launches/*/trials/[0-9]*"):
            assert json.loads((trial / "trial.json").read_text())["launch"] >= 0
            for name in ("requests", "tokens", "cycles"):
                pq.read_table(trial / f"{name}.parquet")
        for document in manifest.parent.glob("launches/*/launch.json"):
            json.loads(document.read_text())
            for file in sorted(document.parent.rglob("*")):
                if file.is_file():
                    found[str(file)] = hashlib.sha256(file.read_bytes()).hexdigest()
    return found


def interrupted(ended: Ended, *words: str) -> None:
    """It ended as an interrupted command must: 130, and one line."""
    assert ended.status == 130, ended.err
    assert "Traceback" not in ended.err + ended.out
    assert "Exception" not in ended.err
    lines = [line for line in ended.err.splitlines() if line.startswith("benchharness: ")]
    assert len(lines) == 1, ended.err
    assert ended.err.splitlines()[-1] == lines[0]
    assert lines[0].startswith("benchharness: interrupted")
    for word in words:
        assert word in lines[0]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two launches of a second and more: 0.4 s until they serve, two trials of 0.4 s."""
    return experiment(
        tmp_path_factory.mktemp("experiment") / "long one.yaml",
        name="long",
        args={"start_s": 0.4, "step_ms": 18},
        workload={"context_tokens": CONTEXTS, "output_tokens": 12, "requests": 2},
        measure={"launches": LAUNCHES, "warmup": 0},
    )


@pytest.mark.parametrize("module", ["click.core", "benchharness.spec.document", "pyarrow.lib"])
def test_ctrl_c_while_the_program_itself_is_loaded(tmp_path: Path, file: Path, module: str) -> None:
    command = Command("run", file, cwd=tmp_path, python_options=("-X", "importtime"))
    command.wait_for_line(f" {module}\n")
    command.interrupt()
    ended = command.end()
    loading = [line for line in ended.err.splitlines() if not line.startswith("import time:")]
    interrupted(Ended(ended.status, ended.out, "\n".join(loading)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("delay_s", [0.0, 0.7])
def test_ctrl_c_during_the_self_test(tmp_path: Path, file: Path, delay_s: float) -> None:
    command = Command("run", file, "--json", cwd=tmp_path)
    command.wait_for_line("measuring the client's own error")
    time.sleep(delay_s)
    command.interrupt()
    ended = command.end()
    interrupted(ended)
    assert ended.document["exit_status"] == 130
    command.assert_nobody_left()


MOMENTS = (  # what to wait for, how much longer, and how many launches are over then
    ("line", f"launch 1 of {LAUNCHES}", 0.0, 0),
    ("file", "launches/000/trials/0-*/trial.json", 0.1, 0),  # one trial of two is stored, the next streams
    ("file", "launches/000/launch.json", 0.02, 1),  # between two launches
    ("file", "launches/001/trials/1-*/trial.json", 0.0, 1),  # the engine is being stopped
)


def test_ctrl_c_again_and_again_and_the_run_is_still_completed(tmp_path: Path, file: Path) -> None:
    results = tmp_path / "a b" / "$HOME"
    arguments = ["run", str(file), "--results", "a b/$HOME"]
    pasted = f"go on with: benchharness run '{file}' --results 'a b/$HOME' --resume"
    kept: dict[str, str] = {}
    for kind, sign, delay_s, least in MOMENTS:
        command = Command(*arguments, cwd=tmp_path)
        if kind == "line":
            command.wait_for_line(sign)
        else:
            command.wait_for_file(results, f"*/*/{sign}")
        time.sleep(delay_s)
        command.interrupt()
        interrupted(command.end(), pasted)
        command.assert_nobody_left()
        now = stored(results)
        assert kept.items() <= now.items(), "what was stored before has changed"
        assert len([name for name in now if name.endswith("launch.json")]) >= least
        kept = now
        arguments = ["run", str(file), "--results", "a b/$HOME", "--resume"]
    late = Command(*arguments, cwd=tmp_path)
    late.wait_for_file(results, "*/*/launches/001/launch.json")
    late.interrupt()
    ended = late.end()
    assert ended.status in (0, 4, 130), ended.err
    assert "Traceback" not in ended.err
    complete(arguments, results, kept, tmp_path)


def complete(
    arguments: list[str], results: Path, kept: dict[str, str], cwd: Path, launches: int = LAUNCHES
) -> None:
    """Resume to the end: every launch is there, and none that was there has changed."""
    ended = bench(*arguments, "--json", cwd=cwd)
    assert ended.status in (0, 4), ended.err  # a busy machine may make a trial invalid
    assert ended.document["launches"] == launches
    assert ended.document["finished"] is True
    assert ended.document["failures"] == []
    assert kept.items() <= stored(results).items()
    trials = list(run_folder(results).glob("launches/[0-9][0-9][0-9]/trials/*/trial.json"))
    assert len(trials) == launches * len(CONTEXTS)


def test_a_run_is_closed_to_others_while_it_is_written_and_survives_sigkill(
    tmp_path: Path, file: Path
) -> None:
    arguments = ["run", str(file), "--results", str(tmp_path / "r"), "--set", "measure.launches=3"]
    first = Command(*arguments, cwd=tmp_path)
    first.wait_for_line("launch 1 of 3")
    second = bench(*arguments, "--resume", "--json", cwd=tmp_path)
    second.refused(2, "is being written by another benchharness", "wait for it to end")
    assert second.document["exit_status"] == 2
    engine_of(first)
    first.kill()
    assert first.end().status == -9
    first.assert_nobody_left(within_s=5.0)
    complete([*arguments, "--resume"], tmp_path / "r", stored(tmp_path / "r"), tmp_path, launches=3)


def test_sigkill_during_the_self_test_leaves_nobody(tmp_path: Path, file: Path) -> None:
    command = Command("run", file, cwd=tmp_path)
    command.wait_for_line("measuring the client's own error")
    time.sleep(0.3)
    assert len(command.family()) > 1
    command.kill()
    command.end()
    command.assert_nobody_left(within_s=5.0)


def engine_of(command: Command) -> psutil.Process:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for process in command.family():
            try:
                if any(part.endswith("standin_process") for part in process.cmdline()):
                    return process
            except psutil.Error:
                continue
        time.sleep(0.01)
    raise AssertionError("no engine was started")


def test_a_failed_launch_is_made_good_by_resuming(tmp_path: Path, file: Path) -> None:
    arguments = ["run", str(file), "--results", "r", "--json", "--set", "measure.launches=1"]
    command = Command(*arguments, cwd=tmp_path)
    command.wait_for_file(tmp_path, "r/*/*/launches/000/trials/0-*/trial.json")
    time.sleep(0.2)  # the second trial streams
    engine_of(command).kill()
    failed = command.end()
    assert failed.status == 5
    assert [failure["launch"] for failure in failed.document["failures"]] == [0]
    assert "SIGKILL" in failed.document["failures"][0]["reason"]

    resumed = bench(*arguments, "--resume", cwd=tmp_path)
    assert resumed.status in (0, 4), resumed.err  # a busy machine may make a trial invalid
    assert resumed.document["failures"] == []
    assert resumed.document["launches"] == 1
    listed = bench("list", "--results", "r", "--json", cwd=tmp_path).document["runs"][0]
    assert (listed["launches"], listed["planned"]) == (1, 1)
