"""What `plan` says, to the letter."""

from __future__ import annotations

from pathlib import Path

from commandline import bench

FILE = """\
name: golden
engine: standin
base:
  source: {release: 0.10}
matrix:
  args.step_ms: [5, 10]
  draft: {off: {args.speculation: false}, on: {args.speculation: true}}
  exclude:
    - {args.step_ms: 10, draft: on}
workload: {context_tokens: [16, 128], output_tokens: 12, requests: 4}
measure: {launches: 2, warmup: 1, seed: 7}
"""

GOLDEN = """\
golden: 3 stacks, 6 launches, 60 requests, contexts 16, 128 tokens
Stacks
 stack           environment        args.speculation  args.step_ms
 step_ms=5,off   the harness's own  False             5
 step_ms=5,on    the harness's own  True              5
 step_ms=10,off  the harness's own  False             10
Order (interleaved)
 block  launches
 0      step_ms=5,on  step_ms=5,off  step_ms=10,off
 1      step_ms=10,off  step_ms=5,off  step_ms=5,on
Takes about 17 s (a guess: nothing was measured yet; building environments not counted).
"""


def test_plan_shows_stacks_order_and_time(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(FILE)
    ended = bench("plan", "e.yaml", cwd=tmp_path)
    assert (ended.status, ended.err) == (0, "")
    assert [line.rstrip() for line in ended.out.splitlines()] == GOLDEN.splitlines()
    assert [path.name for path in tmp_path.iterdir()] == ["e.yaml"]


def test_plan_for_programs_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(FILE)
    ended = bench("plan", "e.yaml", "--json", cwd=tmp_path)
    document = ended.document
    assert [stack["stack"] for stack in document["stacks"]] == [
        "step_ms=5,off",
        "step_ms=5,on",
        "step_ms=10,off",
    ]
    assert [(one["index"], one["block"]) for one in document["launches"]] == [
        (index, index // 3) for index in range(6)
    ]
    assert {tuple(sorted(one["context_tokens"])) for one in document["launches"]} == {(16, 128)}
    assert [line.rstrip() for line in ended.err.splitlines()] == GOLDEN.splitlines()
