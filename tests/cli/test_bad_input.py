"""What can be seen to be wrong before anything starts: one line, status 2, and nothing is left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commandline import bench, experiment

MATRIX = {"args.step_ms": [5, 10]}

MISTAKES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "unknown key": ({"worklod": {}}, ("unknown key 'worklod'", "did you mean 'workload'?")),
    "unknown engine": ({"engine": "standim"}, ("unknown engine 'standim'", "did you mean 'standin'?")),
    "empty axis": ({"matrix": {"args.step_ms": []}}, ("the matrix is empty", "give it a value")),
    "include against exclude": (
        {
            "matrix": {
                "args.step_ms": [5, 10],
                "args.start_s": [0, 0.1],
                "exclude": [{"args.step_ms": 5, "args.start_s": 0}],
                "include": [{"args.step_ms": 5, "args.start_s": 0}],
            }
        },
        ("`include` brings back what `exclude` takes out",),
    ),
    "too long a context": (
        {"args": {"context_limit": 20}},
        ("16 context tokens and 12 output tokens exceed", "limit of 20", "args.context_limit"),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_file_is_refused_before_anything_starts(tmp_path: Path, mistake: str) -> None:
    parts, words = MISTAKES[mistake]
    file = experiment(tmp_path / "e.yaml", **parts)
    bench("run", file, "--results", "r", cwd=tmp_path).refused(2, *words)
    assert [path.name for path in tmp_path.iterdir()] == ["e.yaml"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, ("no experiment file", "give the path")),
        ("name: [x\nengine: standin\n", ("e.yaml:2:", "correct the YAML there")),
        ('name: "\\uD800"\n', ("e.yaml:1:", "is no text")),
        ("folder", ("is a folder",)),
    ],
    ids=["missing", "malformed", "half a character", "folder"],
)
def test_a_file_that_can_not_be_read_is_told_by_name_and_line(
    tmp_path: Path, text: str | None, words: tuple[str, ...]
) -> None:
    file = tmp_path / "e.yaml"
    if text == "folder":
        file.mkdir()
    elif text is not None:
        file.write_text(text)
    bench("plan", file, cwd=tmp_path).refused(2, *words)


COMMAND_LINES = {
    "unknown command": (("runn", "x"), ("unknown command 'runn'", "did you mean 'run'?", "--help")),
    "unknown option": (("run", "x", "--resum"), ("No such option '--resum'", "`benchharness run --help`")),
    "results in a file": (("list", "--results", "file"), ("'file' is a file",)),
    "no UTF-8": (("list", "--results", "\udcff"), ("is no UTF-8",)),
    "too long a name": (("show", "a" * 5000), ("File name too long",)),
    "nothing to resume": (("run", "e.yaml", "--resume"), ("holds no run of small to resume", "without")),
}


@pytest.mark.parametrize("case", COMMAND_LINES)
def test_a_wrong_command_line_gets_one_line_and_one_object(tmp_path: Path, case: str) -> None:
    arguments, words = COMMAND_LINES[case]
    (tmp_path / "file").write_text("name: x")
    experiment(tmp_path / "e.yaml")
    ended = bench(*arguments, "--json", cwd=tmp_path)
    status = 5 if case == "too long a name" else 2  # the operating system's refusal
    line = ended.refused(status, *words)
    document = ended.document
    assert document["exit_status"] == status
    assert document["error"] in line
    assert set(document) == {"error", "advice", "exit_status"}


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ({"trace_file": "none.csv"}, ("none.csv", "check its path")),
        ({"trace_file": "short.csv", "requests": 9}, ("has 1 requests, 9 are wanted",)),
        ({"prompts_file": "none.jsonl"}, ("none.jsonl",)),
        ({"concurrency": 9, "requests": 8}, ("8 `requests` can't keep 9 streams open",)),
    ],
)
def test_files_and_loads_that_can_not_work_are_refused_before_anything_starts(
    tmp_path: Path, workload: dict[str, object], words: tuple[str, ...]
) -> None:
    (tmp_path / "short.csv").write_text("at_s,input_tokens,output_tokens\n1,2,3\n")
    lines = {"context_tokens": 16, "output_tokens": 4, **workload}
    (tmp_path / "e.yaml").write_text(f"name: x\nengine: standin\nworkload: {json.dumps(lines)}\n")
    for command in ("plan", "run"):
        bench(command, "e.yaml", cwd=tmp_path).refused(2, *words)
    assert not (tmp_path / "results").exists()
