"""Experiment files: what is understood, and how each kind of mistake is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchharness import spec
from benchharness.errors import UsageError

TEXT = """\
name: quick
engine: standin
base:
  source: {release: 0.10}
  packages: {sgl-kernel: 0.3.20}
  env: {NCCL_NVLS_ENABLE: 0, SWITCH: off}
  args: {n.dotted: 4096, ratio: 0.5}
matrix:
  speculation:
    off: {args.n_max: 0}
    draft-2: {args.n_max: 2}
  packages.flashinfer-python: [0.5.3, 0.10]
workload: {context_tokens: [128, 2048], output_tokens: 64}
measure: {launches: 2}
"""


def refusal(text: str, *sets: str) -> str:
    with pytest.raises(UsageError) as caught:
        spec.parse(text, "quick.yaml", sets)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_status == 2
    return message


def test_numbers_keep_the_spelling_that_text_fields_need() -> None:
    stack = spec.parse(TEXT).stacks[0]
    assert stack.source.release == "0.10"
    assert stack.packages == {"sgl-kernel": "0.3.20", "flashinfer-python": "0.5.3"}
    assert stack.env == {"NCCL_NVLS_ENABLE": "0", "SWITCH": "off"}
    assert spec.parse(TEXT).stacks[1].packages["flashinfer-python"] == "0.10"


@pytest.mark.parametrize("commit", ["3207427", "12e4567", "0123456", "1_000", "2026-11-29", "0x12"])
def test_a_commit_is_text_whatever_it_looks_like(commit: str) -> None:
    text = TEXT.replace("{release: 0.10}", f"{{repo: ., commit: {commit}}}")
    assert spec.parse(text).stacks[0].source.commit == commit


def test_arguments_keep_their_types() -> None:
    args = spec.parse(TEXT).stacks[0].args
    assert args == {"n.dotted": 4096, "ratio": 0.5, "n_max": 0}
    assert [type(value) for value in args.values()] == [int, float, int]


def test_stacks_are_named_by_their_matrix_values() -> None:
    names = [stack.name for stack in spec.parse(TEXT).stacks]
    assert names == [
        "off,flashinfer-python=0.5.3",
        "off,flashinfer-python=0.10",
        "draft-2,flashinfer-python=0.5.3",
        "draft-2,flashinfer-python=0.10",
    ]


def test_without_a_matrix_there_is_one_stack() -> None:
    text = TEXT[: TEXT.index("matrix:")] + TEXT[TEXT.index("workload:") :]
    assert [stack.name for stack in spec.parse(text).stacks] == ["base"]


def test_null_takes_an_argument_away() -> None:
    text = TEXT.replace("off: {args.n_max: 0}", "off: {args.ratio: null}")
    assert "ratio" not in spec.parse(text).stacks[0].args
    assert "ratio" in spec.parse(text).stacks[2].args


def test_set_changes_one_value() -> None:
    changed = spec.parse(TEXT, sets=["measure.launches=7", "base.args.n.dotted=1", "base.env.X=off"])
    assert changed.measure.launches == 7
    assert changed.stacks[0].args["n.dotted"] == 1
    assert changed.stacks[0].env["X"] == "off"


def test_a_rate_or_a_trace_drives_without_concurrency() -> None:
    for words in ("rate_rps: 2", "trace_file: trace.csv"):
        text = TEXT.replace("[128, 2048], output_tokens: 64", f"[128], output_tokens: 64, {words}")
        workload = spec.parse(text).workloads[0]
        assert workload.concurrency is None
    assert spec.parse(TEXT).workloads[0].concurrency == 1


def test_exclude_and_include_work_as_in_github_actions() -> None:
    matrix = "  exclude:\n    - {speculation: off, packages.flashinfer-python: 0.10}\n"
    matrix += "  include:\n    - {speculation: draft-2, env.EXTRA: 1}\n"
    matrix += "    - {speculation: off, packages.flashinfer-python: 0.6.0}\n"
    stacks = {s.name: s for s in spec.parse(TEXT.replace("workload:", matrix + "workload:")).stacks}
    assert list(stacks) == [
        "off,flashinfer-python=0.5.3",
        "draft-2,flashinfer-python=0.5.3",
        "draft-2,flashinfer-python=0.10",
        "off,flashinfer-python=0.6.0",
    ]
    assert stacks["draft-2,flashinfer-python=0.10"].env["EXTRA"] == "1"
    assert "EXTRA" not in stacks["off,flashinfer-python=0.5.3"].env
    assert stacks["off,flashinfer-python=0.6.0"].packages["flashinfer-python"] == "0.6.0"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("engine:", "enigne:", ["quick.yaml:2", "'enigne'", "did you mean 'engine'"]),
        ("output_tokens", "output_token", ["quick.yaml:13", "did you mean 'output_tokens'"]),
        ("output_tokens: 64", "output_tokens: many", ["quick.yaml:13", "workload.output_tokens", "'many'"]),
        ("[128, 2048]", "[128, -1]", ["workload.context_tokens.1", "-1"]),
        ("[128, 2048]", "[128, 128]", ["names a length twice"]),
        ("[128, 2048]", "[]", ["context_tokens"]),
        ("{launches: 2}", "{launches: 2, pairing: duett}", ["measure.pairing", "interleaved"]),
        ("{launches: 2}", "{launches: 0}", ["measure.launches"]),
        ("{release: 0.10}", "{release: 1, repo: x}", ["either `release` or `repo`"]),
        ("{release: 0.10}", "{commit: abc}", ["need a `repo`"]),
        ("name: quick", "name: ../evil", ["quick.yaml:1", "name"]),
        ("name: quick", "name: quick\nname: again", ["quick.yaml:2", "stands twice"]),
        ("output_tokens: 64}", "output_tokens: 64, concurrency: 2, rate_rps: 1}", ["not both"]),
        ("output_tokens: 64}", "output_tokens: 64, arrivals: ramp, rate_rps: 1}", ["go together"]),
        ("output_tokens: 64}", "output_tokens: 64, arrivals: constant}", ["needs `rate_rps`"]),
        (
            "output_tokens: 64}",
            "output_tokens: 64, concurrency: 9, requests: 8}",
            ["8 `requests`", "9 streams"],
        ),
        ("output_tokens: 64}", "output_tokens: 64, trace_file: t.csv}", ["one cell"]),
        (
            "[128, 2048], output_tokens: 64}",
            "1, output_tokens: 64, prompts_file: p.jsonl, shared_prefix_tokens: 9}",
            ["brings its own prompts"],
        ),
        ("output_tokens: 64}", "output_tokens: 64, arrivals: steady, rate_rps: 1}", ["workload.arrivals"]),
        ("{launches: 2}", "{launches: 2", ["quick.yaml:"]),
        ("[0.5.3, 0.10]", "[]", ["the matrix is empty"]),
        ("[0.5.3, 0.10]", "[0.5.3, 0.5.3]", ["'0.5.3' twice"]),
        ("[0.5.3, 0.10]", "0.5.3", ["needs a list of values"]),
        ("packages.flash", "package.flash", ["quick.yaml:12", "did you mean 'packages'"]),
        ("off: {args.n_max: 0}", "off: {arg.n_max: 0}", ["quick.yaml:10", "did you mean 'args'"]),
        ("off: {args.n_max: 0}", "off: {packages.flashinfer-python: 1}", ["two axes set"]),
        ("matrix:", "matrix:\n  exclude: [{speculation: of}]", ["matches no combination"]),
        ("matrix:", "matrix:\n  exclude: [{spec: off}]", ["names no axis 'spec'"]),
        ("matrix:", "matrix:\n  exclude: [{speculation: off}, {speculation: draft-2}]", ["matrix is empty"]),
        (
            "matrix:",
            "matrix:\n  exclude: [{speculation: off}]\n  include: [{speculation: off}]",
            ["brings back what `exclude` takes out"],
        ),
        ("matrix:", "matrix:\n  include: [{speculation: draft-2}]", ["is there already"]),
        ("matrix:", "matrix:\n  include: [{speculation: draft-9}]", ["has no 'draft-9'"]),
    ],
)
def test_each_mistake_gets_one_line_that_names_it(old: str, new: str, words: list[str]) -> None:
    assert old in TEXT
    message = refusal(TEXT.replace(old, new, 1))
    for word in words:
        assert word in message


@pytest.mark.parametrize("argument", ["measure.launches", "=3", "name.x=1", "measure.lanches=3", "a..b=1"])
def test_a_wrong_set_is_refused(argument: str) -> None:
    refusal(TEXT, argument)


@pytest.mark.parametrize("text", ["", "[]", "just text", "a: [", "\t", "a: &x [*x]", "? [1]\n: 2"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    refusal(text)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none.yaml", tmp_path, binary):
        with pytest.raises(UsageError):
            spec.load(path)


def test_the_exported_schema_is_up_to_date() -> None:
    exported = Path(__file__).parents[3] / "docs" / "experiment.schema.json"
    assert json.loads(exported.read_text()) == spec.json_schema(), "run `make docs`"


def test_every_experiment_in_the_repository_is_understood() -> None:
    files = sorted((Path(__file__).parents[3] / "experiments").glob("*.yaml"))
    assert files
    for file in files:
        assert spec.load(file).stacks
