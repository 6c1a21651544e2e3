"""`run --until decided`: rounds until a verdict or a budget, and what is stored and said of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commandline import Command, bench, experiment, run_folder

ALIKE = {"matrix": {"args.rest_ms": [0.5, 0.6]}}  # without speculation it does nothing


def made(folder: Path, **parts: object) -> Path:
    args = {"launch_cv": 0.3, "launch_count_file": str(folder / "count")}
    return experiment(folder / "e.yaml", **{"args": args, "measure": {"launches": 2, "warmup": 0}, **parts})


def until(file: Path, *more: str) -> list[str]:
    return ["run", str(file), "--until", "decided", "--metric", "cycle_ms", "--json", *more]


def test_a_plain_difference_is_decided_and_the_run_ends(tmp_path: Path) -> None:
    file = experiment(
        tmp_path / "e.yaml", matrix={"args.cycle_factor": [1, 3]}, measure={"launches": 2, "warmup": 0}
    )
    ended = bench(*until(file), cwd=tmp_path)
    assert ended.status in (0, 4), ended.err  # a busy machine may make a trial invalid
    found = ended.document["until"]
    assert found["decided"] is True and found["reason"] == "every cell is decided"
    assert found["undecided"] == []
    assert found["baseline"] == "cycle_factor=1"
    assert [(cell["stack"], cell["verdict"]) for cell in found["cells"]] == [("cycle_factor=3", "regressed")]
    assert found["launches"] * 2 == ended.document["launches"]
    assert found["launches"] < 20
    assert ended.document["finished"] is True
    assert f"look {found['look']} of" in ended.err and "of the matrix" not in ended.err


def test_the_budget_ends_an_undecided_run_with_3_and_resume_spends_no_level_twice(tmp_path: Path) -> None:
    file = made(tmp_path, **ALIKE)
    budget = ("--most-launches", "4", "--margin", "0%")
    command = Command(*until(file, *budget), cwd=tmp_path)
    command.wait_for_line("more of each stack next")
    command.interrupt()
    ended = command.end()
    assert ended.status == 130, ended.err
    assert "--until decided" in ended.err.splitlines()[-1] and "--resume" in ended.err.splitlines()[-1]
    command.assert_nobody_left()
    run = run_folder(tmp_path / "results")
    before = {path: path.read_bytes() for path in run.glob("launches/*/launch.json")}
    assert len(before) >= 4
    assert len(json.loads((run / "until.json").read_text())["taken"]) == 1

    ended = bench(*until(file, *budget, "--resume"), cwd=tmp_path)
    assert ended.status in (3, 4), ended.err
    found = ended.document["until"]
    assert found["decided"] is False
    assert found["reason"] == "the budget of 4 launches of each stack is spent"
    assert [(one["metric"], one["verdict"]) for one in found["undecided"]] == [("cycle_ms", "undecided")]
    assert (found["launches"], ended.document["launches"]) == (4, 8)
    assert all(path.read_bytes() == text for path, text in before.items())
    taken = json.loads((run / "until.json").read_text())["taken"]

    ended = bench(*until(file, *budget, "--resume"), cwd=tmp_path)
    assert ended.status in (3, 4)
    assert ended.document["until"]["rounds"] == 0
    assert json.loads((run / "until.json").read_text())["taken"] == taken
    shown = bench("show", "latest", cwd=tmp_path)
    assert f"looked at {len(taken)} times on its way" in shown.out
    compared = bench("compare", "latest:rest_ms=0.5", "latest:rest_ms=0.6", cwd=tmp_path)
    assert f"looked at {len(taken)} times on its way" in compared.out
    other = bench(*until(file, "--most-launches", "9", "--margin", "0%", "--resume"), cwd=tmp_path)
    other.refused(2, "has looked at its data", "--most-launches")
    plain = bench("run", file, "--resume", "--json", cwd=tmp_path)
    assert plain.document["launches"] == 8 and "until" not in plain.document


def test_the_budget_of_minutes_leaves_the_experiments_own_launches(tmp_path: Path) -> None:
    ended = bench(*until(made(tmp_path, **ALIKE), "--most-minutes", "0.001", "--margin", "0%"), cwd=tmp_path)
    assert ended.status in (3, 4), ended.err
    found = ended.document["until"]
    assert "budget of 0.001 minutes is spent" in found["reason"]
    assert (found["launches"], found["rounds"]) == (2, 1)


def test_a_stack_that_dies_ends_it_with_5(tmp_path: Path) -> None:
    faults = {"fault": {"fine": {}, "dies": {"args.fault": "die-at-start"}}}
    ended = bench(*until(made(tmp_path, matrix=faults)), cwd=tmp_path)
    assert ended.status == 5, ended.err
    found = ended.document["until"]
    assert found["reason"] == "2 launches of dies failed"
    assert found["launches"] == 2


@pytest.mark.parametrize(
    ("parts", "options", "words"),
    [
        ({}, ["--until", "decided"], ("has one stack",)),
        (
            {**ALIKE, "measure": {"launches": 2, "pairing": "none"}},
            ["--until", "decided"],
            ("pairing: none", "interleaved"),
        ),
        (
            ALIKE,
            ["--until", "decided", "--most-launches", "2", "--set", "measure.launches=3"],
            ("less than",),
        ),
        (ALIKE, ["--metric", "cycle_ms"], ("--metric is only for --until decided",)),
        (ALIKE, ["--most-minutes", "3"], ("--most-minutes is only",)),
        (ALIKE, ["--until", "decided", "--metric", "cycle_m"], ("cycle_ms",)),
        (ALIKE, ["--until", "decided", "--margin", "much"], ("--margin",)),
    ],
)
def test_what_can_never_be_decided_is_refused_before_anything_starts(
    tmp_path: Path, parts: dict[str, object], options: list[str], words: tuple[str, ...]
) -> None:
    ended = bench("run", made(tmp_path, **parts), *options, cwd=tmp_path)
    ended.refused(2, *words)
    assert not (tmp_path / "results").exists()
