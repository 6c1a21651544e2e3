"""`show --effects` as a shell would start it, on a published run."""

from __future__ import annotations

from pathlib import Path

import pytest
from commandline import bench

RUN = Path(__file__).parents[2] / "results" / "published" / "sglang-one-gpu" / "20261129-184504-8b6f"


def test_effects_are_printed_for_people_and_for_programs(tmp_path: Path) -> None:
    ended = bench("show", RUN, "--effects", "--json", cwd=tmp_path)
    assert ended.status == 0, ended.err
    (one, *_) = ended.document["effects"]
    assert (one["metric"], one["context_tokens"], one["freedom"]) == ("cycle_ms", 128, 2)
    (effect,) = one["effects"]
    assert effect["low"] < effect["change"] < effect["high"]
    # The stacks that were measured differ in graphs and speculation at once.
    assert one["untold"] == [["disable-cuda-graph"]]
    assert "Not to be told apart in these cells: disable-cuda-graph." in ended.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--with", "x"), "--with names a factor of the effects; add --effects"),
        (("--effects", "--with", "disable-cuda-grap"), "did you mean 'disable-cuda-graph'?"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    ended = bench("show", RUN, *words, cwd=tmp_path)
    assert ended.status == 2
    assert says in ended.err
    assert len(ended.err.strip().splitlines()) == 1
