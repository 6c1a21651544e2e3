"""One run whose names hold all that shells, paths and tables may choke on: listed, shown, compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commandline import Ended, bench, experiment, run_folder

ODD = 'o dd: "it\'s" $(id) `id` [red] [x] *é;\\'
FAST, SLOW = "fast [red]", 'sl:ow $HOME "[/x]"'
CELL = {"stack", "context_tokens", "metric", "unit", "verdict", "change", "low", "high"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd") / ODD
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def ran(place: Path) -> Ended:
    """Two stacks, one three times as slow as the other, three launches each."""
    file = experiment(
        place / f"{ODD}.yaml",
        args={"step_ms": 5},
        matrix={"speed": {FAST: {"env.ODD": ODD}, SLOW: {"args.cycle_factor": 3}}},
        measure={"launches": 3, "warmup": 0},
    )
    return bench("run", file, "--results", place / "results", cwd=place)


@pytest.fixture(scope="module")
def run(ran: Ended, place: Path) -> Path:
    assert ran.status in (0, 4), ran.err
    return run_folder(place / "results")


def compare(place: Path, baseline: str, candidate: str, *options: str) -> Ended:
    return bench(
        "compare", f"{baseline}", f"{candidate}", "--json", "--results", "results", *options, cwd=place
    )


def verdicts(ended: Ended) -> list[str]:
    assert all(set(cell) >= CELL for cell in ended.document["cells"])
    return [cell["verdict"] for cell in ended.document["cells"]]


def test_without_a_terminal_progress_and_report_are_plain_lines(ran: Ended, run: Path) -> None:
    assert "\x1b" not in ran.out + ran.err
    assert "\r" not in ran.out + ran.err
    lines = ran.err.splitlines()
    assert lines[1] == f"storing in {run}"
    assert [line.split(":")[0] for line in lines[2:] if line.startswith("launch ")] == [
        f"launch {number} of 6" for number in range(1, 7)
    ]
    assert ran.out.splitlines()[0] == f"small/{run.name}  {run}"


def test_plan_shows_names_as_they_are(run: Path, place: Path) -> None:
    ended = bench("plan", place / f"{ODD}.yaml", "--results", "results", cwd=place)
    assert ended.status == 0, ended.err
    assert f" {FAST} " in ended.out
    assert f" {SLOW} " in ended.out
    assert "from the last run of this experiment" in ended.out


def test_list_names_the_run_and_its_stacks(run: Path, place: Path) -> None:
    ended = bench("list", "--results", "results", "--json", cwd=place)
    (listed,) = ended.document["runs"]
    assert listed["run"] == run.name
    assert listed["stacks"] == [FAST, SLOW]
    assert (listed["launches"], listed["planned"], listed["synthetic"]) == (6, 6, True)
    assert run.name in ended.err
    assert FAST in ended.err


def test_show_by_path_has_the_keys_that_programs_read(run: Path, place: Path) -> None:
    document = bench("show", run, "--json", cwd=place).document
    assert document["run"] == run.name
    assert Path(document["path"]) == run
    assert document["launches"] == 6
    assert isinstance(document["valid"], bool)
    assert {cell["stack"] for cell in document["cells"]} == {FAST, SLOW}


def test_a_slower_candidate_ends_with_1(run: Path, place: Path) -> None:
    ended = compare(place, f"{run}:{FAST}", f"latest:{SLOW}")
    assert verdicts(ended) == ["regressed"]
    assert ended.status == 1
    (cell,) = ended.document["cells"]
    assert (cell["stack"], cell["context_tokens"], cell["metric"]) == (SLOW, 16, "output_tok_s")
    assert cell["low"] <= cell["change"] <= cell["high"] < 0
    assert -0.8 < cell["change"] < -0.5  # three times as slow, less the time to the first token


def test_a_faster_candidate_ends_with_0(run: Path, place: Path) -> None:
    ended = compare(place, f"small:{SLOW}", f"{run.name}:{FAST}", "--metric", "e2e_ms")
    assert (verdicts(ended), ended.status) == (["improved"], 0)


def test_a_stack_is_equivalent_to_itself(run: Path, place: Path) -> None:
    ended = compare(place, f"{run.name[:-2]}:{FAST}", f"small/{run.name}:{FAST}")
    assert (verdicts(ended), ended.status) == (["equivalent"], 0)


def test_a_metric_that_nobody_measured_ends_with_4(run: Path, place: Path) -> None:
    ended = compare(place, f"latest:{FAST}", f"latest:{SLOW}", "--metric", "draft_ms")
    assert (verdicts(ended), ended.status) == ([], 4)
    assert "Neither side has a valid figure" in ended.err


REFUSED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "stack": (("latest:fats [red]", f"latest:{SLOW}"), ("no stack 'fats [red]'", f"did you mean '{FAST}'?")),
    "no stack": (("latest", f"latest:{SLOW}"), ("latest has 2 stacks", f"as latest:{FAST}")),
    "run": (("nosuch:x", f"latest:{SLOW}"), ("no run 'nosuch'", "benchharness list")),
    "metric": ((f"latest:{FAST}", f"latest:{SLOW}", "--metric", "itl"), ("itl_ms",)),
    "margin": ((f"latest:{FAST}", f"latest:{SLOW}", "--margin", "wide"), ("'wide' is no fraction", "1%")),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_compare_does_not_know_ends_with_2(run: Path, place: Path, what: str) -> None:
    arguments, words = REFUSED[what]
    ended = compare(place, arguments[0], arguments[1], *arguments[2:])
    ended.refused(2, *words)
    document: dict[str, Any] = ended.document
    assert document["exit_status"] == 2


def test_one_launch_is_undecided_and_ends_with_3(run: Path, place: Path) -> None:
    alone = ("--set", "matrix={}", "--set", "measure.launches=1", "--set", "name=once")
    once = bench("run", place / f"{ODD}.yaml", *alone, cwd=place)
    assert once.status in (0, 4), once.err
    ended = compare(place, f"{run}:{FAST}", "once")  # a run of one stack needs no stack's name
    assert (verdicts(ended), ended.status) == (["undecided"], 3)
    assert "one launch" in ended.document["cells"][0]["reason"]
