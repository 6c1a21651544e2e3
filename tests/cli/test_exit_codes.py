"""Every exit status of compare and gate, by runs that were stored to the point."""

from __future__ import annotations

import errno
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commandline import Command, bench, experiment
from storedruns import MACHINE, WORK, called, stored

from benchharness.records import Failure, Finding
from benchharness.store import documents

FAST, SLOW = [10.0, 10.1, 9.9, 10.0], [12.0, 12.1, 11.9, 12.0]
TWELVE, NOISY = [12.0, 12.1, 11.9, 12.0], [10.0, 14.0, 8.0, 11.0]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


def gate(place: Path, run: Path, bounds: str, *more: object) -> Any:
    (place / "gate.yaml").write_text(bounds)
    arguments = ("--results", place, "--thresholds", place / "gate.yaml", "--json")
    return called("gate", run, *arguments, *map(str, more))


@pytest.mark.parametrize(
    ("values", "metric", "status"),
    [
        ({"a": FAST, "b": FAST}, "cycle_ms", 0),
        ({"a": SLOW, "b": FAST}, "cycle_ms", 0),
        ({"a": FAST, "b": SLOW}, "cycle_ms", 1),
        ({"a": FAST, "b": NOISY}, "cycle_ms", 3),
        ({"a": FAST[:1], "b": SLOW[:1]}, "cycle_ms", 3),
        ({"a": FAST, "b": SLOW}, "verify_ms", 4),
    ],
    ids=["alike", "improved", "regressed", "noisy", "one launch", "nobody measured it"],
)
def test_compare_ends_by_its_worst_cell(
    tmp_path: Path, values: dict[str, list[float]], metric: str, status: int
) -> None:
    run = stored(tmp_path, "r", values)
    result = called("compare", f"{run}:a", f"{run}:b", "--metric", metric, "--json")
    assert result.status == status, result.err
    assert "cells" in json.loads(result.out)


@pytest.mark.parametrize(
    "parts",
    [
        {"failure": Failure.RESET},
        {"findings": (Finding("x", True, "it broke"),)},
        {"verify_ms": float("nan")},
    ],
    ids=["every request failed", "every trial is invalid", "NaN"],
)
def test_a_side_without_a_valid_figure_ends_4(tmp_path: Path, parts: dict[str, Any]) -> None:
    there = stored(tmp_path, "r1", {"a": FAST}, verify_ms=5.0)
    here = stored(tmp_path, "r2", {"a": FAST}, **parts)
    metric = "verify_ms" if "verify_ms" in parts else "cycle_ms"
    result = called("compare", there, here, "--metric", metric, "--json")
    (cell,) = json.loads(result.out)["cells"]
    assert (result.status, cell["verdict"], cell["candidate"]) == (4, "invalid", None)
    judged = gate(tmp_path, here, f'bounds: {{{metric}: "<= 40"}}')
    assert (judged.status, json.loads(judged.out)["verdict"]) == (4, "invalid")
    # Nothing was judged, so it has not passed either where invalid trials may be left out.
    judged = gate(tmp_path, here, f'require: any\nbounds: {{{metric}: "<= 40"}}')
    assert (judged.status, json.loads(judged.out)["verdict"]) == (4, "invalid")


def test_other_work_ends_2_and_other_contexts_4(tmp_path: Path) -> None:
    first = stored(tmp_path, "r1", {"a": FAST})
    longer = stored(tmp_path, "r2", {"a": FAST}, work=replace(WORK, output_tokens=5))
    result = called("compare", first, longer)
    assert result.status == 2
    assert "output_tokens is 4 and 5" in result.err
    (tmp_path / "t.yaml").write_text("bounds: {cycle_ms: +3 %}")
    judged = called(
        "gate", longer, "--results", tmp_path, "--thresholds", tmp_path / "t.yaml", "--baseline", first
    )
    assert "output_tokens is 4 and 5" in judged.err
    other = stored(tmp_path, "r3", {"a": FAST}, work=replace(WORK, context_tokens=17))
    result = called("compare", first, other, "--metric", "cycle_ms", "--json")
    assert result.status == 4
    cells = json.loads(result.out)["cells"]
    assert [(cell["context_tokens"], cell["verdict"]) for cell in cells] == [(16, "invalid"), (17, "invalid")]


def test_an_older_format_is_migrated_and_a_newer_one_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = stored(tmp_path, "old", {"a": FAST})
    now = stored(tmp_path, "now", {"a": SLOW})
    document = json.loads((now / "run.json").read_text())
    (now / "run.json").write_text(json.dumps(document | {"format_version": 2}))
    for command in (("compare", old, now), ("show", now)):
        ended = bench(*command, cwd=tmp_path)
        ended.refused(2, "has format version 2, this benchharness reads up to 1", "upgrade benchharness")
    (tmp_path / "gate.yaml").write_text("bounds: {cycle_ms: +3 %}")
    arguments = ("--thresholds", "gate.yaml", "--results", ".", "--baseline", str(now))
    bench("gate", old, *arguments, cwd=tmp_path).refused(2, "has format version 2", "upgrade benchharness")

    migrated = []

    def migrate(older: dict[str, Any]) -> dict[str, Any]:
        migrated.append(older["id"])
        return older

    monkeypatch.setattr(documents, "FORMAT_VERSION", 2)
    monkeypatch.setitem(documents.MIGRATIONS, 1, migrate)
    assert called("compare", old, now, "--metric", "cycle_ms").status == 1
    judged = gate(tmp_path, now, 'bounds: {cycle_ms: ["<= 13", +3 %]}', "--baseline", old)
    assert judged.status == 3  # one baseline alone can't tell drift
    assert set(migrated) == {"old"}


def test_another_machine_ends_2_unless_it_is_allowed_by_name(tmp_path: Path) -> None:
    there = stored(tmp_path, "r1", {"a": FAST}, machine={**MACHINE, "kernel": "6.2"})
    here = stored(tmp_path, "r2", {"a": FAST})
    bounds = "bounds: {cycle_ms: +3 %}"
    refused = gate(tmp_path, here, bounds, "--baseline", there)
    assert refused.status == 2 and "machine.kernel is 6.2 and 6.1" in refused.err
    allowed = gate(tmp_path, here, bounds, "--baseline", there, "--allow", "machine.kernel")
    assert allowed.status == 3, allowed.err
    ended = bench(
        "gate", here, "--results", ".", "--thresholds", "gate.yaml", "--baseline", there, cwd=tmp_path
    )
    ended.refused(2, "machine.kernel is 6.2 and 6.1", "--allow machine.kernel")


def test_a_run_that_the_disk_does_not_give_ends_5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = stored(tmp_path, "r", {"a": FAST, "b": SLOW})
    read = Path.read_bytes

    def broken(path: Path) -> bytes:
        if path.name == "launch.json":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", broken)
    ended = called("compare", f"{run}:a", f"{run}:b", "--json")
    ended.refused(5, "cannot read", "launch.json: Input/output error", "see to the disk")
    assert json.loads(ended.out)["exit_status"] == 5
    assert gate(tmp_path, run, 'bounds: {cycle_ms: "<= 40"}').status == 5


def test_three_runs_of_the_baseline_let_a_stored_one_decide_and_damaged_ones_are_passed_over(
    tmp_path: Path,
) -> None:
    old = [stored(tmp_path, f"r{at}", {"a": [value + 0.001 * at for value in FAST]}) for at in range(4)]
    slow = stored(tmp_path, "slow", {"a": [2 * value for value in FAST]})
    next(old[3].glob("launches/000/trials/*/trial.json")).write_text("{")
    judged = gate(tmp_path, slow, "bounds: {cycle_ms: +10 %}", "--baseline", old[0])
    assert judged.status == 1, judged.err
    next(old[2].glob("launches/000/trials/*/trial.json")).write_text("{")
    assert gate(tmp_path, slow, "bounds: {cycle_ms: +10 %}", "--baseline", old[0]).status == 3


def test_all_decisions_of_a_gate_share_the_doubt(tmp_path: Path) -> None:
    """Bounds on other cells widen the interval of a change as they do that of a value."""
    there = stored(tmp_path, "r1", {"a": NOISY, "b": FAST})
    for at in (2, 3):
        stored(tmp_path, f"r{at}", {"a": NOISY, "b": FAST})

    def high(bounds: str) -> float:
        ended = gate(tmp_path, there, f"bounds: {{{bounds}}}", "--baseline", f"{there}:a")
        (one,) = (f for f in json.loads(ended.out)["findings"] if f["relative"])
        return float(one["high"])

    alone = high("cycle_ms: {change: +900 %, stack: b}")
    among = high('cycle_ms: [{change: +900 %, stack: b}, "<= 40"], e2e_ms: "<= 40", accept_length: "<= 9"')
    assert among > 1.5 * alone


@pytest.mark.parametrize(
    ("launches", "method"), [(1, "Student"), (9, "Student"), (10, "hierarchical bootstrap")]
)
def test_each_sides_interval_is_made_as_the_number_of_launches_asks(
    tmp_path: Path, launches: int, method: str
) -> None:
    values = [10 + 0.1 * (at % 3) for at in range(launches)]
    run = stored(tmp_path, "r", {"a": values, "b": values})
    ended = called("compare", f"{run}:a", f"{run}:b", "--metric", "cycle_ms", "--json")
    for side in ended.document["figures"]:
        assert side["method"].startswith(method) and side["launches"] == launches
        if launches == 1:
            assert side["high"] is None and "one launch" in side["reason"]
        else:
            assert side["low"] < side["value"] < side["high"] < 11
    assert (f"95 % by {method}" in " ".join(ended.err.split())) == (launches > 1)


def test_what_can_not_be_written_ends_5(tmp_path: Path) -> None:
    run = stored(tmp_path / "results", "r", {"a": FAST})
    (tmp_path / "gate.yaml").write_text('bounds: {cycle_ms: "<= 40"}')
    (tmp_path / "file").write_text("")
    arguments = ("gate", run, "--thresholds", "gate.yaml", "--junit", "file/gate.xml")
    bench(*arguments, cwd=tmp_path).refused(5, "cannot write file/gate.xml", "choose another place")
    kept = tmp_path / "gate.xml"
    kept.write_text("of the last gate")
    assert bench(*arguments[:-1], "gate.xml", cwd=tmp_path).status == 0
    assert kept.read_text().startswith("<?xml")
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("command", ["compare", "gate", "history", "list"])
def test_ctrl_c_while_a_command_reads_ends_130(tmp_path: Path, command: str) -> None:
    run = stored(tmp_path / "results", "r", {"a": FAST, "b": SLOW})
    (tmp_path / "gate.yaml").write_text('bounds: {cycle_ms: "<= 40"}')
    arguments = {
        "compare": (f"{run}:a", f"{run}:b"),
        "gate": (run, "--thresholds", "gate.yaml"),
        "history": (),
        "list": (),
    }
    module = {"list": "benchharness.store.index"}.get(command, "duckdb")
    running = Command(
        command, *arguments[command], "--json", cwd=tmp_path, python_options=("-X", "importtime")
    )
    running.wait_for_line(f" {module}\n")
    running.interrupt()
    ended = running.end()
    told = [line for line in ended.err.splitlines() if not line.startswith("import time:")]
    assert ended.status == 130, told
    assert told[-1].startswith("benchharness: interrupted")
    assert "Traceback" not in ended.err
    running.assert_nobody_left()


def test_an_interrupted_gate_leaves_nobody_and_half_of_nothing(tmp_path: Path) -> None:
    file = experiment(
        tmp_path / "e.yaml",
        args={"start_s": 0.2, "step_ms": 10},
        workload={"context_tokens": [16], "output_tokens": 20, "requests": 2},
        measure={"launches": 3, "warmup": 0},
    )
    first = bench("run", file, "--json", cwd=tmp_path)
    assert first.status in (0, 4), first.err
    (tmp_path / "gate.yaml").write_text("bounds: {itl_ms: +10 %}")
    before = first.document["path"]
    gated = Command(
        *("gate", before, "--baseline", before, "--relaunch", "--thresholds", "gate.yaml"),
        *("--junit", "gate.xml", "--summary", "summary.md", "--json"),
        cwd=tmp_path,
    )
    gated.wait_for_line("launch 2 of 6")
    time.sleep(0.3)
    gated.interrupt()
    ended = gated.end()
    assert (ended.status, ended.document["exit_status"]) == (130, 130), ended.err
    assert "Traceback" not in ended.err
    gated.assert_nobody_left()
    assert not (tmp_path / "gate.xml").exists() and not (tmp_path / "summary.md").exists()
    runs = bench("list", "--json", cwd=tmp_path).document["runs"]
    assert [(run["launches"], run["planned"]) for run in runs] == [(3, 3), (1, 6)]
    shown = bench("show", runs[-1]["path"], "--json", cwd=tmp_path)
    assert shown.status == 0, shown.err
    assert (shown.document["launches"], shown.document["finished"]) == (1, False)
    assert Path(before) == Path(runs[0]["path"])
