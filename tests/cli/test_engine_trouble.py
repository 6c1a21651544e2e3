"""Engines that die, hang, lie or can't be had: each is one launch's result, and the others are measured."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from commandline import Command, Ended, bench, experiment, run_folder

from benchharness.cli.options import cache_folder
from benchharness.records import Model, Source, Stack
from benchharness.stack import engines, models

FAULTS = {
    "fine": {},
    "dies": {"args.fault": "die-at-start"},
    "hangs": {"args.fault": "hang-at-start"},
    "breaks": {"args.fault": "die-mid-stream", "args.fault_after_requests": 1},
    "crashes": {"args.fault": "crash-mid-stream", "args.fault_after_requests": 1},
}


def failure(document: dict[str, Any], stack: str) -> dict[str, Any]:
    (found,) = [failure for failure in document["failures"] if failure["stack"] == stack]
    return found


def said(ended: Ended, status: str, stack: str) -> list[str]:
    """What is said of a failed launch: where it happened (with its number) and again in the report."""
    lines = [line for line in ended.err.splitlines() if line.startswith(f"{status} launch ")]
    return [line for line in lines if f"({stack}): " in line]


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    folder = tmp_path_factory.mktemp("troubled")
    file = experiment(
        folder / "e.yaml",
        matrix={"fault": FAULTS},
        measure={"warmup": 0, "launches": 1, "start_timeout_s": 2},
    )
    command = Command("run", file, "--results", "results", "--json", cwd=folder)
    ended = command.end()
    command.assert_nobody_left()
    return ended, folder / "results"


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        ("dies", ("exited with code 3 before it was ready", "server.log")),
        ("hangs", ("not ready within 2 s", "server.log")),
        ("breaks", ("exited with code 1 while it served", "server.log")),
        ("crashes", ("exited with code -11 (SIGSEGV) while it served", "server.log")),
    ],
)
def test_a_failed_launch_says_in_one_line_how_it_failed(
    troubled: tuple[Ended, Path], stack: str, words: tuple[str, ...]
) -> None:
    ended, _ = troubled
    reason = failure(ended.document, stack)["reason"]
    for word in words:
        assert word in reason
    assert len(said(ended, "failed", stack)) == 2
    assert all(line.endswith(reason) for line in said(ended, "failed", stack))


def test_failed_launches_end_the_command_with_5_and_without_a_traceback(troubled: tuple[Ended, Path]) -> None:
    ended, _ = troubled
    assert ended.status == 5
    assert "Traceback" not in ended.err
    assert ended.document["launches"] == len(FAULTS)
    assert ended.document["valid"] is False
    assert ended.document["finished"] is True


def test_the_last_lines_of_a_dead_engine_are_shown(troubled: tuple[Ended, Path]) -> None:
    assert "    | RuntimeError: the stand-in was told to die at its start" in troubled[0].err


def test_stacks_beside_a_failed_one_are_measured(troubled: tuple[Ended, Path]) -> None:
    assert {cell["stack"] for cell in troubled[0].document["cells"]} == {"fine"}


@pytest.mark.parametrize("stack", ["breaks", "crashes"])
def test_what_an_engine_answered_before_it_died_is_kept(troubled: tuple[Ended, Path], stack: str) -> None:
    ended, results = troubled
    launch = failure(ended.document, stack)["launch"]
    assert (run_folder(results) / f"launches/{launch:03d}/trials/0-ctx16/requests.parquet").is_file()
    (finding,) = [finding for finding in ended.document["findings"] if finding["launch"] == launch]
    assert finding["check"] == "requests-succeeded"
    assert finding["sentence"].startswith("1 of 2 requests failed")


def test_an_invalid_measurement_ends_with_4_and_is_told_first(tmp_path: Path) -> None:
    file = experiment(tmp_path / "e.yaml", args={"fault": "http-500", "fault_after_requests": 1})
    ended = bench("run", file, cwd=tmp_path)
    assert ended.status == 4
    assert "Traceback" not in ended.err
    (line,) = [line for line in ended.err.splitlines() if line.startswith("invalid ")]
    assert "1 of 2 requests failed" in line
    report = [line for line in ended.out.splitlines() if "invalid " in line or "No valid trial" in line]
    assert report[0].startswith("invalid launch 0 (base), context 16: 1 of 2 requests failed")


@pytest.fixture(scope="module")
def tiny_model() -> str:
    """A model file, so that only the running engine can know how long a request may be."""
    stack = Stack(
        name="any",
        engine="llamacpp",
        source=Source(release="2026.10.11549"),
        model=Model(recipe="tiny-llama"),
    )
    made = models.ensure(engines.named("llamacpp"), stack, cache_folder(None), on_progress=lambda _: None)
    assert made.path is not None
    return made.path


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory, tiny_model: str) -> Ended:
    """llama.cpp with a release that nobody made, with a port that is taken, and with too long a context."""
    folder = tmp_path_factory.mktemp("real")
    with socket.create_server(("127.0.0.1", 0)) as holder:
        stacks = {
            "nosuch": {"source.release": "9.9.9"},
            "taken": {"args.port": holder.getsockname()[1]},
            "long": {},
        }
        file = experiment(
            folder / "e.yaml",
            engine="llamacpp",
            base={"source": {"release": "2026.10.11549"}, "model": {"path": tiny_model}},
            matrix={"trouble": stacks},
            workload={"context_tokens": [5000], "output_tokens": 8, "requests": 1},
        )
        return bench("run", file, "--results", "results", "--json", cwd=folder)


@pytest.mark.parametrize(
    ("stack", "status", "words"),
    [
        ("nosuch", "unbuildable", ("xllamacpp==9.9.9 is not on the index",)),
        ("taken", "failed", ("port", "is taken", "leave `port` to the harness")),
        ("long", "failed", ("context 5000 + output 8 tokens", "limit of 4096", "lower context_tokens")),
    ],
)
def test_trouble_that_only_a_real_engine_shows(
    real: Ended, stack: str, status: str, words: tuple[str, ...]
) -> None:
    told = failure(real.document, stack)
    assert told["status"] == status
    for word in words:
        assert word in told["reason"]
    assert len(said(real, status, stack)) == 2
    assert real.status == 5
    assert "Traceback" not in real.err
