"""`history` and `list` through the command line, over runs that were stored to the point."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commandline import bench
from storedruns import MACHINE, called, stored

GOOD, BAD = "a" * 40, "b" * 40


def series(results: Path, runs: int, *, first: int = 0, step_at: int | None = None, **parts: Any) -> None:
    """Runs of three launches, a day each; 8 % slower from `step_at` on, with another commit."""
    random = np.random.default_rng(first + 1)
    for at in range(runs):
        changed = step_at is not None and at >= step_at
        level = 10 * (1.08 if changed else 1.0) * np.exp(random.normal(0, 0.01))
        values = (level * np.exp(random.normal(0, 0.01, 3))).tolist()
        day = first + at
        name = f"2026{1 + day // 28:02d}{1 + day % 28:02d}-000000-aaaa"
        stored(results, name, {"eagle 3": values}, **{"commit": BAD if changed else GOOD, **parts})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


def history(results: Path, *more: str) -> Any:
    result = called("history", "--results", results, "--metric", "cycle_ms", "--json", *more)
    assert result.status == 0, result.err
    return json.loads(result.out)


def test_a_step_is_told_with_its_commits_and_the_command_that_finds_it(tmp_path: Path) -> None:
    series(tmp_path / "results", 16, step_at=9)
    document = history(tmp_path / "results")
    (one,) = document["series"]
    assert (one["stack"], one["metric"], len(one["runs"])) == ("eagle 3", "cycle_ms", 16)
    (change,) = one["changes"]
    assert change["verdict"] == "regressed"
    assert change["low"] < 0.08 < change["high"]
    assert (change["last_before"], change["first_after"]) == ("20260109-000000-aaaa", "20260110-000000-aaaa")
    assert change["declared"] == {"source.commit": [GOOD, BAD]}
    (command,) = change["bisect"]
    beginning = ["benchharness", "bisect", "run", "stored it.yaml", "--axis", "commit"]
    assert shlex.split(command) == [*beginning, "--good", GOOD, "--bad", BAD, "--metric", "cycle_ms"]
    ended = bench("history", "--metric", "cycle_ms", cwd=tmp_path)
    assert ended.status == 0, ended.err
    assert "regressed +" in ended.out and "|" in ended.out
    assert f"declared: source.commit: {GOOD} -> {BAD}" in ended.out
    assert f"find it: {command}" in ended.out
    faster = history(tmp_path / "results", "--metric", "e2e_ms", "--margin", "20%")
    assert [two["changes"][0]["verdict"] for two in faster["series"]] == ["small", "small"]


def test_the_command_names_stack_and_context_and_carries_what_was_set(tmp_path: Path) -> None:
    """Else it would bisect another experiment than the one that was measured."""
    experiment = {"file": "it.yaml", "text": "", "sets": ["measure.launches=5", "base.env.A=b c"]}
    for at in range(12):
        level = 10.8 if at >= 6 else 10.0
        values = [level * (1 + 0.001 * (at % 3)), level, level]
        commit = BAD if at >= 6 else GOOD
        name = f"202601{1 + at:02d}-000000-aaaa"
        stored(tmp_path, name, {"a": values, "b": values}, commit=commit, experiment=experiment)
    series = history(tmp_path, "--stack", "b")["series"]
    (command,) = series[0]["changes"][0]["bisect"]
    ending = ["--stack", "b", "--set", "measure.launches=5", "--set", "base.env.A=b c"]
    assert shlex.split(command)[-len(ending) :] == ending


def test_without_a_step_nothing_is_told(tmp_path: Path) -> None:
    series(tmp_path, 12)
    (one,) = history(tmp_path)["series"]
    assert one["changes"] == []
    assert len(one["runs"]) == 12


def test_a_package_that_moved_undeclared_is_found_by_attestation(tmp_path: Path) -> None:
    series(tmp_path, 8, commit=GOOD)
    series(tmp_path, 8, first=8, step_at=0, commit=GOOD, packages={"torch": "2.2"})
    (one,) = history(tmp_path)["series"]
    (change,) = one["changes"]
    assert change["declared"] == {}
    assert change["attested"] == {"packages.torch": ["2.1", "2.2"]}
    (command,) = change["bisect"]
    assert "--axis torch --good 2.1 --bad 2.2" in command


def test_other_machines_are_other_series_and_stand_ins_are_named(tmp_path: Path) -> None:
    results = tmp_path / "results"
    series(results, 5)
    series(results, 5, first=5, step_at=0, machine={**MACHINE, "cpu": "another"}, synthetic=True)
    document = history(results)
    assert [(one["machine"].split(",")[0], one["synthetic"]) for one in document["series"]] == [
        ("a processor", False),
        ("another", True),
    ]
    assert all(one["changes"] == [] for one in document["series"])
    told = bench("history", "--metric", "cycle_ms", cwd=tmp_path)
    assert "Runs of 2 machines" in told.out
    assert "(synthetic: a stand-in engine)" in told.out
    # A new kernel is no other machine.
    series(results, 5, first=10, machine={**MACHINE, "kernel": "6.9"})
    assert [len(one["runs"]) for one in history(results)["series"]] == [10, 5]


def test_damaged_runs_are_left_out_and_told(tmp_path: Path) -> None:
    series(tmp_path, 6)
    runs = sorted((tmp_path / "stored").iterdir())
    (runs[0] / "run.json").write_text("{")
    next(runs[1].glob("launches/000/trials/*/trial.json")).write_text("{")
    next(runs[2].glob("launches/001/trials/*/cycles.parquet")).write_bytes(b"PAR1")
    shutil.rmtree(runs[3])
    document = history(tmp_path)
    (one,) = document["series"]
    assert [point["run"] for point in one["runs"]] == [runs[4].name, runs[5].name]
    assert [runs[at].name in text for at, text in zip((1, 2), document["skipped"], strict=True)] == [True] * 2


def test_the_newest_runs_are_read(tmp_path: Path) -> None:
    series(tmp_path, 9)
    document = history(tmp_path, "--last", "5")
    assert document["series"][0]["runs"][0]["run"].startswith("20260105")
    assert document["older"] == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--metric", "cycle"), ("unknown metric 'cycle'",)),
        (("--experiment", "stord"), ("no run of 'stord'", "did you mean 'stored'?")),
        (("--stack", "eagle"), ("no run has a stack 'eagle'", "did you mean 'eagle 3'?")),
        (("--context", "17"), ("no run has the context 17 (they have 16)",)),
        (("--margin", "wide"), ("'wide' is no fraction",)),
        (("--confidence", "2"), ("--confidence",)),
        (("--results", "nowhere"), ("nowhere holds no runs",)),
    ],
)
def test_wrong_words_end_2(tmp_path: Path, arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    series(tmp_path / "results", 1)
    bench("history", *arguments, cwd=tmp_path).refused(2, *words)


def test_list_shows_the_newest_and_says_so(tmp_path: Path) -> None:
    series(tmp_path / "results", 5)
    listed = bench("list", "--last", "2", cwd=tmp_path)
    assert "The newest 2 of 5 runs; see them all with --all." in listed.out
    assert [word[:8] for word in listed.out.split() if word.startswith("2026")].count("20260105") == 1
    assert "20260103-" not in listed.out
    everything = bench("list", "--all", cwd=tmp_path)
    assert "20260101-000000-aaaa" in everything.out and "newest" not in everything.out
    document = bench("list", "--last", "1", "--json", cwd=tmp_path).document
    assert len(document["runs"]) == 5
